"""How long regular Pods can run on a reclaimed Spot node, according to the kubelet's settings.

The kubelet stops regular Pods first and reserves the rest of its shutdown time for critical Pods.
By default, regular Pods get 15 s of 30 s on GKE; a pool can set up to 120 s in total, or 0.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from outlast.manifests.lint.pools.model import WINDOW_SECONDS_DEFAULT, ClusterCapacity, NodePool
from outlast.yamltext.nodes import get

CRITICAL_SECONDS_DEFAULT = 15
# `$(dirname "$0")/x.yaml`, `$HERE/x.yaml`: usually the folder of the script.
_FOLDER = re.compile(r"\$(?:\(.*\)|\{[^{}]*\}|\w+)/+")


def window_of(shutdown_seconds: Any, critical_seconds: Any) -> int | None:
    """The seconds that two settings leave for regular Pods. A setting that is None is not set.

    None if a setting is unknown, such as a Terraform expression.
    """
    if shutdown_seconds is None:
        return WINDOW_SECONDS_DEFAULT
    critical = CRITICAL_SECONDS_DEFAULT if critical_seconds is None else critical_seconds
    total, reserved = _number(shutdown_seconds), _number(critical)
    return None if total is None or reserved is None else max(0, total - reserved)


def window_in(kubelet_config: Any) -> int | None:
    """The window that a GKE `kubeletConfig` gives."""
    return window_of(
        get(kubelet_config, ("shutdownGracePeriodSeconds",)),
        get(kubelet_config, ("shutdownGracePeriodCriticalPodsSeconds",)),
    )


def config_paths(capacity: ClusterCapacity) -> Iterator[Path]:
    """The files with kubelet settings that the pools in a script refer to."""
    for pool in capacity.pools:
        path = _config_path(pool)
        if path is not None:
            yield path


def with_windows(
    capacity: ClusterCapacity, documents: Mapping[Path, Iterable[Any]]
) -> ClusterCapacity:
    """The capacity with the windows from the pools' settings files; `documents` are by path."""
    if not any(pool.config_file for pool in capacity.pools):
        return capacity
    return replace(capacity, pools=tuple(_with_window(pool, documents) for pool in capacity.pools))


def _with_window(pool: NodePool, documents: Mapping[Path, Iterable[Any]]) -> NodePool:
    path = _config_path(pool)
    if path is None or path not in documents:
        return pool
    config = next((one for one in documents[path] if isinstance(one, dict)), {})
    return replace(pool, window_seconds=window_in(config.get("kubeletConfig")))


def _config_path(pool: NodePool) -> Path | None:
    """The path of a pool's settings file. A name without a folder is next to the script."""
    script = pool.place.source.path
    if pool.config_file is None or script is None:
        return None
    name = _FOLDER.sub("", pool.config_file, count=1)
    if not name or "$" in name or "\0" in name:
        return None
    return script.parent / name


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 7:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
