"""Build an overlay: read its resources, merge its patches, and set what it sets in all objects.

What cannot be built (remote resources, charts, plugins, variables) is left out with a notice, and
the rest is built. Nothing is fetched or executed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast.manifests.lint.kubernetes.review import LoadedFile
from outlast.manifests.lint.kustomize.errors import CannotBuild
from outlast.manifests.lint.kustomize.generating import KINDS, generate
from outlast.manifests.lint.kustomize.jsonpatch import apply_operations
from outlast.manifests.lint.kustomize.merging import merge
from outlast.manifests.lint.kustomize.reading import (
    KustomizeFiles,
    file_documents,
    inline_documents,
    kustomization_of,
)
from outlast.manifests.lint.kustomize.references import update_references
from outlast.manifests.lint.kustomize.replacing import replace_values
from outlast.manifests.lint.kustomize.resources import Resource, find_one, id_of, select
from outlast.manifests.lint.kustomize.transforming import (
    add_affixes,
    add_annotations,
    add_common_labels,
    add_labels,
    set_image,
    set_namespace,
    set_replicas,
)
from outlast.manifests.lint.tree import BuiltMap, BuiltSeq, Origin, copied
from outlast.yamltext.nodes import get
from outlast.yamltext.source import SourceText

DEPTH_MAX = 40
# In a CustomResourceDefinition. Most of the YAML of many repositories, and seldom patched.
_SCHEMA = "openAPIV3Schema"
OBJECTS_MAX = 20_000
"""More objects in one build are refused."""

_LOCAL = "config.kubernetes.io/local-config"
_NOT_BUILT = {
    "configurations": "custom transformer configurations are not applied",
    "crds": "the references in custom resources are not updated",
    "generators": "generator plugins are not run",
    "helmChartInflationGenerator": "charts are not rendered",
    "helmCharts": "charts are not rendered",
    "openapi": "custom merge keys are not applied",
    "transformers": "transformer plugins are not run",
    "validators": "validator plugins are not run",
    "vars": "variables are not replaced; use replacements instead",
}
_KNOWN = frozenset(
    (
        *_NOT_BUILT,
        *KINDS,
        "apiVersion",
        "bases",
        "buildMetadata",
        "commonAnnotations",
        "commonLabels",
        "components",
        "generatorOptions",
        "helmGlobals",
        "images",
        "inventory",
        "kind",
        "labels",
        "metadata",
        "namePrefix",
        "nameSuffix",
        "namespace",
        "patches",
        "patchesJson6902",
        "patchesStrategicMerge",
        "replacements",
        "replicas",
        "resources",
        "sortOptions",
    )
)


@dataclass(kw_only=True)
class KustomizeResult:
    """What a build made of a Kustomization.

    `used` are the ids of the documents that became part of it. `problems` are what was left out,
    by file and field.
    """

    resources: list[Resource] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    kustomizations: set[Path] = field(default_factory=set)
    problems: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def note(self, file: str, key: str, text: str) -> None:
        known = self.problems.setdefault((file, key), [])
        if text not in known:
            known.append(text)

    @property
    def notices(self) -> list[str]:
        """One for each field of a file that was not built completely."""
        return [
            texts[0] if len(texts) == 1 else f"{texts[0][:-1]} (and {len(texts) - 1} more)."
            for texts in self.problems.values()
        ]

    @property
    def is_complete(self) -> bool:
        return not self.problems


def build(file: LoadedFile, files: KustomizeFiles) -> KustomizeResult:
    """Build the Kustomization in a file. Never raises for the content of files."""
    result = KustomizeResult()
    _Level(file, files, result, above=()).run(result.resources)
    update_references(result.resources)
    result.resources[:] = [
        one
        for one in result.resources
        if get(one.data, ("metadata", "annotations", _LOCAL)) not in ("true", "")
    ]
    return result


class _Level:
    """One Kustomization of a build. `above` are the folders that led here."""

    def __init__(
        self,
        file: LoadedFile,
        files: KustomizeFiles,
        result: KustomizeResult,
        *,
        above: tuple[Path, ...],
    ) -> None:
        assert file.source.path is not None
        self._file = file
        self._files = files
        self._result = result
        self._folder = file.source.path.resolve().parent
        self._above = (*above, self._folder)
        self._data = BuiltMap()

    @property
    def _source(self) -> SourceText:
        return self._file.source

    def run(self, resources: list[Resource]) -> None:
        """Add the objects of this level to `resources` and transform all of them."""
        try:
            self._data = kustomization_of(self._file)
        except CannotBuild as error:
            self._result.note(self._source.name, "", f"{self._source.name}: {error}.")
            return
        self._result.kustomizations.add(self._folder)
        self._note_what_is_missing()
        own: list[Resource] = [] if self._data.get("kind") != "Component" else resources
        for key in ("resources", "bases"):
            for index, entry in self._entries(key):
                self._attempt(key, index, self._add, entry, own)
        for key, kind in KINDS.items():
            for index, entry in self._entries(key):
                self._attempt(key, index, self._generate, kind, entry, own)
        for index, entry in self._entries("components"):
            self._attempt("components", index, self._component, entry, own)
        self._transform(own)
        if own is not resources:
            resources += own

    def _note_what_is_missing(self) -> None:
        for key in self._data:
            if key in _NOT_BUILT and self._data[key]:
                self._notice(key, None, _NOT_BUILT[key])
            elif key not in _KNOWN:
                self._notice(key, None, "this field is unknown")

    def _attempt(
        self, key: str, index: int | None, step: Callable[..., None], *arguments: Any
    ) -> None:
        try:
            step(*arguments)
        except CannotBuild as error:
            self._notice(key, index, str(error))

    def _notice(self, key: str, index: int | None, reason: str) -> None:
        offset = self._data.spans[key][0]
        if index is not None:
            offset = self._data[key].spans[index][0]
        line, _ = self._source.position(offset)
        text = f"{self._source.name}:{line}: linted without a part of {key!r}: {reason}."
        self._result.note(self._source.name, key, text)

    def _entries(self, key: str) -> Iterator[tuple[int, Any]]:
        listed = self._data.get(key)
        if listed is not None and not isinstance(listed, BuiltSeq):
            self._notice(key, None, "it is not a list")
            return
        yield from enumerate(listed or ())

    def _origin(self, key: str) -> Origin:
        return self._data.origin(key)

    def _item_origin(self, key: str, index: int) -> Origin:
        start, end = self._data[key].spans[index]
        return Origin(source=self._source, span=(start, start + 1, start, min(end, start + 1)))

    # What it consists of.

    def _add(self, entry: Any, own: list[Resource]) -> None:
        if not isinstance(entry, str) or not entry:
            raise CannotBuild("an entry is not a path")
        path = self._files.find(entry, self._folder)
        if path.is_dir():
            self._descend(path, own)
            return
        file = self._files.file(path)
        if file.notice and not file.manifests:
            raise CannotBuild(f"{entry!r} is a template")
        if file.kustomization is not None and not file.manifests:
            raise CannotBuild(f"{entry!r} is a Kustomization; name its folder instead")
        if file.reading.broken:
            raise CannotBuild(f"{entry!r} is not valid YAML")
        for one in file.manifests:
            data = copied(one.data, file.source, shared=_SCHEMA)
            self._result.used.add(id(one.data))
            own.append(Resource(data=data, source=file.source, document=id(one.data)))
        if len(own) > OBJECTS_MAX:
            raise CannotBuild(f"there are more than {OBJECTS_MAX:,} objects")

    def _descend(self, folder: Path, own: list[Resource]) -> None:
        if folder in self._above:
            raise CannotBuild(f"{folder.name!r} refers back to itself")
        if len(self._above) >= DEPTH_MAX:
            raise CannotBuild(f"there are more than {DEPTH_MAX} levels")
        file = self._files.kustomization(folder)
        below: list[Resource] = []
        _Level(file, self._files, self._result, above=self._above).run(below)
        own += below

    def _component(self, entry: Any, own: list[Resource]) -> None:
        if not isinstance(entry, str) or not entry:
            raise CannotBuild("an entry is not a path")
        folder = self._files.find(entry, self._folder)
        if not folder.is_dir():
            raise CannotBuild(f"{entry!r} is not a folder")
        if folder in self._above:
            raise CannotBuild(f"{entry!r} refers back to itself")
        file = self._files.kustomization(folder)
        if file.kustomization is None or file.kustomization.get("kind") != "Component":
            raise CannotBuild(f"{entry!r} is not of kind Component")
        _Level(file, self._files, self._result, above=self._above).run(own)

    def _generate(self, kind: str, entry: Any, own: list[Resource]) -> None:
        if not isinstance(entry, BuiltMap):
            raise CannotBuild("an entry is not a mapping")
        options = self._data.get("generatorOptions")
        found = generate(kind, entry, options, own, self._source)
        if found is not None:
            own.append(found)

    # What it changes, in the order of Kustomize.

    def _transform(self, own: list[Resource]) -> None:
        for index, entry in self._entries("patchesStrategicMerge"):
            given = {"patch" if "\n" in str(entry) else "path": entry}
            self._patch("patchesStrategicMerge", index, given, own)
        for index, entry in self._entries("patches"):
            self._patch("patches", index, entry, own)
        self._set_names(own)
        self._set_labels(own)
        for index, entry in self._entries("patchesJson6902"):
            self._patch("patchesJson6902", index, entry, own)
        self._change_each("replicas", set_replicas, own)
        self._change_each("images", set_image, own)
        for index, entry in self._entries("replacements"):
            self._attempt("replacements", index, self._replace, entry, index, own)

    def _change_each(
        self,
        key: str,
        change: Callable[[list[Resource], BuiltMap, Origin], None],
        own: list[Resource],
    ) -> None:
        for index, entry in self._entries(key):
            if isinstance(entry, BuiltMap):
                origin = self._item_origin(key, index)
                self._attempt(key, index, change, own, entry, origin)

    def _set_labels(self, own: list[Resource]) -> None:
        self._change_each("labels", add_labels, own)
        for key, add in (
            ("commonLabels", add_common_labels),
            ("commonAnnotations", add_annotations),
        ):
            if key in self._data:
                add(own, self._data[key], self._origin(key))

    def _set_names(self, own: list[Resource]) -> None:
        namespace = self._data.get("namespace")
        if isinstance(namespace, str) and namespace:
            set_namespace(own, namespace, self._origin("namespace"))
        for key, prefix_first in (("namePrefix", True), ("nameSuffix", False)):
            text = self._data.get(key)
            if isinstance(text, str) and text:
                prefix, suffix = (text, "") if prefix_first else ("", text)
                add_affixes(own, prefix, suffix, self._origin(key))

    def _patch(self, key: str, index: int, entry: Any, own: list[Resource]) -> None:
        self._attempt(key, index, self._apply_patch, key, index, entry, own)

    def _apply_patch(self, key: str, index: int, entry: Any, own: list[Resource]) -> None:
        if isinstance(entry, str):
            entry = {"path": entry}
        if not isinstance(entry, dict):
            raise CannotBuild("an entry is not a mapping")
        identities, documents = self._patch_documents(key, index, entry)
        target = entry.get("target")
        operations = [one for one in documents if isinstance(one, BuiltSeq)]
        patches = [one for one in documents if isinstance(one, BuiltMap)]
        if not operations and not patches:
            raise CannotBuild("a patch is empty")
        if operations:
            if not isinstance(target, BuiltMap):
                raise CannotBuild("a JSON patch needs a target")
            for one in list(select(own, target)):
                one.remember()
                apply_operations(one.data, operations[0])
        for patch in patches:
            options = entry.get("options")
            if isinstance(target, BuiltMap):
                targets = list(select(own, target))
            else:
                targets = [find_one(own, id_of(patch))]
            for one in targets:
                self._merge(one, _fresh(patch), options, own)
        self._result.used |= identities

    def _patch_documents(
        self, key: str, index: int, entry: dict[str, Any]
    ) -> tuple[set[int], list[Any]]:
        text, path = entry.get("patch"), entry.get("path")
        if isinstance(text, str) and text.strip():
            if isinstance(entry, BuiltMap):
                span = entry.spans["patch"]
            else:
                start, end = self._data[key].spans[index]
                span = (start, start + 1, start, end)
            return set(), inline_documents(text, self._source, span)
        if not isinstance(path, str) or not path:
            raise CannotBuild("a patch has neither 'patch' nor 'path'")
        found = self._files.find(path, self._folder)
        if found.is_dir():
            raise CannotBuild(f"{path!r} is a folder")
        file = self._files.file(found)
        return {id(one) for one in file.reading.documents}, file_documents(file)

    def _merge(self, one: Resource, patch: BuiltMap, options: Any, own: list[Resource]) -> None:
        before = one.id
        may_rename = isinstance(options, BuiltMap) and options.get("allowNameChange") is True
        may_retype = isinstance(options, BuiltMap) and options.get("allowKindChange") is True
        metadata = patch.get("metadata")
        if isinstance(metadata, BuiltMap):
            metadata.drop("namespace")
            if not may_rename:
                metadata.drop("name")
        patch.drop("apiVersion")
        if not may_retype:
            patch.drop("kind")
        if (may_rename or may_retype) and before.name:
            one.remember()
        merged = merge(one.data, patch)
        if merged is None:
            own.remove(one)
        else:
            one.data = merged

    def _replace(self, entry: Any, index: int, own: list[Resource]) -> None:
        if not isinstance(entry, BuiltMap):
            raise CannotBuild("an entry is not a mapping")
        path = entry.get("path")
        if not isinstance(path, str):
            replace_values(own, entry, self._item_origin("replacements", index))
            return
        file = self._files.file(self._files.find(path, self._folder))
        for document in file_documents(file):
            for item in document if isinstance(document, BuiltSeq) else [document]:
                if isinstance(item, BuiltMap):
                    start = item.start
                    span = (start, start + 1, start, start + 1)
                    replace_values(own, item, Origin(source=file.source, span=span))


def _fresh(patch: BuiltMap) -> BuiltMap:
    """A copy, because merging changes the patch."""
    copy = copied(patch, next(iter(patch.sources.values())))
    assert isinstance(copy, BuiltMap)
    return copy
