"""A resource has the name of an accelerator, but misspelled.

Why: the API server accepts any name with a domain as a resource of some device driver. No node
offers nvidia/gpu, so a Pod that asks for it stays Pending indefinitely, without an error.
Instead: use the exact name: nvidia.com/gpu, amd.com/gpu or google.com/tpu.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    ObjectView,
    Path,
    Rename,
    Review,
    Severity,
    SourceText,
    object_rule,
)

_DEVICES = {("nvidia", "gpu"), ("amd", "gpu"), ("google", "tpu")}
_DEVICE = re.compile(r"(?i)(?:nvidia|amd|google)[\w.-]*/[gt]pu")
_PARTS = ("requests", "limits")


@object_rule("OL514", Severity.ERROR, on_patches=True)
def misspelled_resource(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    containers = [one for pod in review.pods_in(manifest) for one in pod.all_containers]
    for container in containers:
        for part in _PARTS:
            yield from _misspelled(container, ("resources", part))
    # Custom resources request devices outside Pod templates, too: a TrainJob for each node.
    is_custom = "." in manifest.group and manifest.kind != "CustomResourceDefinition"
    if is_custom and (manifest.overlay is not None or _names_device(manifest.source)):
        for path in _amounts(manifest.data, ()):
            yield from _misspelled(manifest, path)


@lru_cache
def _names_device(source: SourceText) -> bool:
    return _DEVICE.search(source.text) is not None


def _misspelled(view: ObjectView, path: Path) -> Iterator[Fault]:
    amounts = view.mapping(*path)
    for name in amounts:
        meant = _meant(name)
        if meant is None:
            continue
        at = (*path, name)
        yield view.fault(
            f"No node offers {name!r}; the resource is called {meant!r}.",
            at=at,
            of_key=True,
            hint=f"Change it to {meant!r}.",
            # The Pod can then run for the first time.
            fix=view.fix(f"Change it to {meant}", Rename(at, meant), is_safe=False)
            if meant not in amounts
            else None,
        )


def _amounts(node: Any, path: Path) -> Iterator[Path]:
    """The paths of the requests and limits in a mapping or list."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        if isinstance(value, dict | list):
            if key in _PARTS and isinstance(value, dict):
                yield (*path, key)
            yield from _amounts(value, (*path, key))


def _meant(name: str) -> str | None:
    """The accelerator that was meant, None if the name may be right."""
    domain, slash, device = name.lower().partition("/")
    words = domain.split(".")
    vendor = next((one for one in words if any(one == known for known, _ in _DEVICES)), None)
    singular = device.rstrip("s")
    if not slash or (vendor, singular) not in _DEVICES:
        return None
    meant = f"{vendor}.com/{singular}"
    return meant if meant != name else None
