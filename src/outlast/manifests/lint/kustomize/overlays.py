"""Find the overlays among the files, and replace the objects they use with what they build."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from outlast.manifests.lint.engine.loading import load
from outlast.manifests.lint.kubernetes.review import LoadedFile
from outlast.manifests.lint.kustomize.building import KustomizeResult, build
from outlast.manifests.lint.kustomize.errors import CannotBuild
from outlast.manifests.lint.kustomize.reading import KustomizeFiles
from outlast.manifests.lint.kustomize.resources import Resource
from outlast.manifests.lint.tree import BuiltMap, BuiltSeq, place_at
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.nodes import Map, Path, Seq
from outlast.yamltext.source import SourceSpan


class BuiltObject(KubernetesObject):
    """An object as an overlay builds it. Its parts know the files they came from.

    `written` is the object in the base, which can be fixed only where it is unchanged and where
    no other overlay uses it.
    """

    def __init__(
        self, one: Resource, *, overlay: str, written: KubernetesObject | None, is_base: bool
    ) -> None:
        super().__init__(one.source, one.data, is_base=is_base)
        self._overlay = overlay
        self._written = written
        self._root = one.data

    @property
    def overlay(self) -> str:
        return self._overlay

    @property
    def written(self) -> KubernetesObject:
        return self._written or self

    def is_as_written(self, path: Path) -> bool:
        return self._written is not None and _is_alike(self._root, self._written.data, path)

    def place(self, path: Path, *, of_key: bool = False) -> SourceSpan:
        return place_at(self._root, self.source, path, of_key=of_key)


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A Kustomization that was built, and its objects."""

    folder: FilePath
    objects: tuple[BuiltObject, ...]


@dataclass(frozen=True, kw_only=True)
class BuiltOverlays:
    """The overlays; the files without the objects they use; files that were read beyond these."""

    overlays: tuple[Overlay, ...]
    files: tuple[LoadedFile, ...]
    read_here: tuple[LoadedFile, ...]
    notices: tuple[str, ...]


def build_overlays(files: Sequence[LoadedFile], folders: Iterable[FilePath]) -> BuiltOverlays:
    """Build every Kustomization that no other one refers to."""
    reader = KustomizeFiles(files, load, folders)
    results = list(_results(files, reader))
    used = {identity for _, result in results for identity in result.used}
    counts = Counter(
        identity for _, result in results for identity in {one.document for one in result.resources}
    )
    originals = {
        id(one.data): one
        for file in (*files, *reader.read_here)
        for one in file.manifests
        if counts[id(one.data)] == 1
    }
    overlays = tuple(_overlay(file, result, originals) for file, result in results)
    notices = dict.fromkeys(notice for _, result in results for notice in result.notices)
    return BuiltOverlays(
        overlays=overlays,
        files=tuple(_without(file, used) for file in files),
        read_here=tuple(_without(file, used) for file in reader.read_here),
        notices=tuple(notices),
    )


def _results(
    files: Sequence[LoadedFile], reader: KustomizeFiles
) -> Iterator[tuple[LoadedFile, KustomizeResult]]:
    candidates = {
        file.source.path.resolve().parent: file
        for file in files
        if file.source.path is not None
        and file.kustomization is not None
        and file.kustomization.get("kind") in (None, "Kustomization")
    }
    below = {folder for file in files for folder in _folders_named(file, reader)}
    done: set[FilePath] = set()
    # Those below others come last: they are left only if they refer to each other in a circle.
    for folder, file in sorted(candidates.items(), key=lambda item: item[0] in below):
        if folder not in done:
            result = build(file, reader)
            done |= {folder, *result.kustomizations}
            yield file, result


def _folders_named(file: LoadedFile, reader: KustomizeFiles) -> Iterator[FilePath]:
    """The folders that a Kustomization refers to."""
    if file.kustomization is None or file.source.path is None:
        return
    for key in ("resources", "bases", "components"):
        listed = file.kustomization.get(key)
        for entry in listed if isinstance(listed, Seq) else ():
            try:
                if isinstance(entry, str) and entry:
                    yield reader.find(entry, file.source.path.parent)
            except CannotBuild:
                continue


def _overlay(
    file: LoadedFile, result: KustomizeResult, originals: dict[int, KubernetesObject]
) -> Overlay:
    assert file.source.path is not None
    name = FilePath(file.source.name).parent.as_posix()
    return Overlay(
        folder=file.source.path.resolve().parent,
        objects=tuple(
            BuiltObject(
                one,
                overlay=name,
                written=originals.get(one.document),
                # Without a base of its own, it may be the base of an overlay elsewhere.
                is_base=not result.is_complete or len(result.kustomizations) == 1,
            )
            for one in result.resources
        ),
    )


def _without(file: LoadedFile, used: set[int]) -> LoadedFile:
    left = tuple(one for one in file.manifests if id(one.data) not in used)
    return file if len(left) == len(file.manifests) else replace(file, manifests=left)


def _is_alike(built: Any, written: Any, path: Path) -> bool:
    """Whether both have the same parts, from the same places, along a path."""
    if isinstance(built, BuiltMap) and isinstance(written, Map):
        if built.start != written.start:
            return False
        part = path[0] if path else None
        if not isinstance(part, str) or (part not in built and part not in written):
            return True
        if part not in built or part not in written or built.spans[part] != written.spans[part]:
            return False
        return _is_alike(built[part], written[part], path[1:])
    if isinstance(built, BuiltSeq) and isinstance(written, Seq):
        part = path[0] if path else None
        if built.spans != written.spans:
            return False
        if not isinstance(part, int) or part >= len(written):
            return True
        return _is_alike(built[part], written[part], path[1:])
    return bool(built == written)
