"""Read what to submit: a workload file, which is rendered, or manifests. Both are linted.

Nothing is sent to a cluster.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from outlast.capacity.workload.file import Workload, parse_overrides
from outlast.cluster.errors import shown
from outlast.cluster.resources import Object, namespace_of, title_of
from outlast.errors import OutlastError
from outlast.manifests.lint.engine.configuration import LintOptions, find_options
from outlast.manifests.lint.engine.files import STDIN, InputFile
from outlast.manifests.lint.engine.loading import load
from outlast.manifests.lint.engine.report import Finding
from outlast.manifests.lint.engine.rule import Severity
from outlast.manifests.linting import LintInputs, examine, gather
from outlast.manifests.render.rendering import render

# What runs must come last: it needs the rest.
_LAST = ("Pod", "Job", "JobSet", "CronJob", "Deployment", "StatefulSet")
_NAME_CHARACTERS_MAX = 253
_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass")


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestSource:
    """Objects in the order in which to apply them, and what the lint found in them.

    `workload` is set if they were rendered from a workload file.
    """

    objects: tuple[Object, ...]
    findings: tuple[Finding, ...]
    workload: Workload | None = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.severity >= Severity.ERROR)

    @property
    def namespace(self) -> str | None:
        """The namespace of what runs, None if it has none of its own."""
        found = [namespace_of(item) for item in self.objects if item.get("kind") in _LAST]
        return found[0] if found else None

    def with_namespace(self, default: str, *, given: str | None = None) -> "ManifestSource":
        """The same, with a namespace for objects that have none.

        Refuses a namespace that was `given` but that an object contradicts.
        """
        for item in self.objects:
            own = namespace_of(item)
            if given is not None and own is not None and own != given:
                raise OutlastError(
                    f"{title_of(item)} is in namespace {own!r}, but --namespace is {given!r}.",
                    hint="Leave out --namespace, or change `namespace` in the file.",
                )
        placed = tuple(_placed(item, given or default) for item in self.objects)
        return ManifestSource(objects=placed, findings=self.findings, workload=self.workload)


def read_source(path: str, overrides: Sequence[str] = ()) -> ManifestSource:
    """Read, render and lint. Raises `OutlastError` if the file cannot be used."""
    if path != STDIN and not Path(path).is_dir() and not has_manifests(Path(path)):
        workload = Workload.read(path, overrides=parse_overrides(overrides))
        files = tuple(
            InputFile(name=one.path, path=Path(one.path), data=one.text.encode())
            for one in render(workload)
            if one.is_manifest
        )
        return _examined(LintInputs(options=LintOptions(), files=files), workload)
    if overrides:
        raise OutlastError(
            "--set needs a workload file.",
            hint="Change manifests themselves, or pass the file they were rendered from.",
        )
    return _examined(gather([path], find_options(Path.cwd())))


def has_manifests(path: Path) -> bool:
    """Whether a file has Kubernetes objects rather than a workload."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise OutlastError(
            f"Could not read {str(path)!r}: {error.strerror}.",
            hint="Pass a workload file, a manifest, a folder, or - for standard input.",
        ) from error
    return re.search(r"""^\s*[{"']*apiVersion["']?\s*:""", text, re.MULTILINE) is not None


def _examined(inputs: LintInputs, workload: Workload | None = None) -> ManifestSource:
    loaded = [load(file) for file in inputs.files]
    if any(file.kustomization is not None for file in loaded):
        raise OutlastError(
            "Kustomizations cannot be submitted as they are.",
            hint="Pipe the result: kubectl kustomize FOLDER | outlast submit -",
        )
    objects = [
        _plain(manifest.data)
        for file in loaded
        for manifest in file.manifests
        if not manifest.is_patch
    ]
    if not objects:
        raise OutlastError("No Kubernetes object was found.", hint="Check the path.")
    for item in objects:
        _check_name(item)
    return ManifestSource(
        objects=tuple(_ordered(objects)),
        findings=tuple(examine(inputs)),
        workload=workload,
    )


def _check_name(item: Object) -> None:
    name = (item.get("metadata") or {}).get("name")
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_CHARACTERS_MAX:
        named = f"the name {shown(str(name), characters_max=60)!r}" if name else "no name"
        raise OutlastError(
            f"An object of kind {shown(str(item.get('kind')), characters_max=60)} has {named}.",
            hint="Set metadata.name, of at most 253 characters. generateName is not supported, "
            "because submitting twice would create two objects.",
        )


def _plain(data: object) -> Object:
    """The values without their positions in the file."""
    item = json.loads(json.dumps(data, default=str))
    assert isinstance(item, dict)
    return item


def _ordered(objects: Iterable[Object]) -> list[Object]:
    def rank(item: Object) -> int:
        kind = item.get("kind")
        return 0 if kind in _FIRST else 2 if kind in _LAST else 1

    return sorted(objects, key=rank)


def _placed(item: Object, namespace: str) -> Object:
    if namespace_of(item) is not None:
        return item
    return {**item, "metadata": {**(item.get("metadata") or {}), "namespace": namespace}}
