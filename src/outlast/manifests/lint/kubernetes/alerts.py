"""The expressions of alerts in Prometheus rules and in ConfigMaps."""

import re
from collections.abc import Iterator
from typing import Any

from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.nodes import Path

_RULE_KINDS = ("PrometheusRule", "Rules", "ClusterRules", "GlobalRules", "MonitoringAlertPolicy")
_ALERT = re.compile(r"^[ \t]*(?:-[ \t]+)?alert:", re.MULTILINE)


def alert_texts(manifest: KubernetesObject) -> Iterator[tuple[Path, str]]:
    """The texts that may contain an alert expression, with their paths."""
    if manifest.kind in _RULE_KINDS:
        yield from _texts(manifest.data, ())
    elif manifest.kind == "ConfigMap":
        for key, text in manifest.strings("data").items():
            if _ALERT.search(text):
                yield ("data", key), text


def _texts(node: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(node, str):
        yield path, node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _texts(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _texts(value, (*path, index))
