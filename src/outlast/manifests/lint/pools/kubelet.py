"""How long a Spot node that is reclaimed lets ordinary Pods live, by the settings of its kubelet.

The kubelet splits the time it is given: ordinary Pods go first, critical ones get the rest. Without
settings that is 15 s of 30 s on GKE; a pool may ask for 120 s, or for none at all.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from outlast.manifests.lint.nodes import get
from outlast.manifests.lint.pools.model import WINDOW_SECONDS_DEFAULT, Capacity, NodePool

CRITICAL_SECONDS_DEFAULT = 15
# `$(dirname "$0")/x.yaml`, `$HERE/x.yaml`: mostly the folder of the script.
_FOLDER = re.compile(r"\$(?:\(.*\)|\{[^{}]*\}|\w+)/+")


def window_of(shutdown_seconds: Any, critical_seconds: Any) -> int | None:
    """What two settings leave to ordinary Pods; a setting that is None is not made.

    None if a setting is not known, such as an expression of Terraform.
    """
    if shutdown_seconds is None:
        return WINDOW_SECONDS_DEFAULT
    critical = CRITICAL_SECONDS_DEFAULT if critical_seconds is None else critical_seconds
    total, reserved = _number(shutdown_seconds), _number(critical)
    return None if total is None or reserved is None else max(0, total - reserved)


def window_in(kubelet_config: Any) -> int | None:
    """The window that a `kubeletConfig` of GKE gives, in JSON or YAML."""
    return window_of(
        get(kubelet_config, ("shutdownGracePeriodSeconds",)),
        get(kubelet_config, ("shutdownGracePeriodCriticalPodsSeconds",)),
    )


def config_paths(capacity: Capacity) -> Iterator[Path]:
    """The files with kubelet settings that the pools of a script name."""
    for pool in capacity.pools:
        path = _config_path(pool)
        if path is not None:
            yield path


def with_windows(capacity: Capacity, documents: Mapping[Path, Iterable[Any]]) -> Capacity:
    """The pools with what their settings say; `documents` are those of files, by path."""
    if not any(pool.config_file for pool in capacity.pools):
        return capacity
    return replace(capacity, pools=tuple(_told(pool, documents) for pool in capacity.pools))


def _told(pool: NodePool, documents: Mapping[Path, Iterable[Any]]) -> NodePool:
    path = _config_path(pool)
    if path is None or path not in documents:
        return pool
    config = next((one for one in documents[path] if isinstance(one, dict)), {})
    return replace(pool, window_seconds=window_in(config.get("kubeletConfig")))


def _config_path(pool: NodePool) -> Path | None:
    """Where the file of a pool lies. A name without a folder is taken to lie beside the script."""
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
