"""What rules work with: parts of an object that return expected types and know their positions.

A manifest can contain anything anywhere. A view never raises for that: a value of the wrong type
reads as absent, and the schema rules report it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from outlast.yamltext.editing import Change, below
from outlast.yamltext.nodes import Map, Path, Seq, get, span_at
from outlast.yamltext.source import SourceSpan, SourceText

_WITH_SELECTOR = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fix:
    """Changes that belong together. A safe fix cannot change what works today."""

    title: str
    changes: tuple[Change, ...]
    is_safe: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What a rule yields: something is wrong at a place.

    `hint` says what to do in this case; the default is from the rule's manual. `view` is what the
    rule was called for and `at` the path in its object, so that an annotation can cover it.
    `is_minor`: it matters less than other faults of the rule, so it is only information.
    """

    message: str
    place: SourceSpan
    hint: str | None = None
    fix: Fix | None = None
    view: "ObjectView | None" = None
    at: Path = ()
    is_minor: bool = False


class ObjectView:
    """The part of an object at `path`. `get` and the other getters take paths relative to it."""

    def __init__(self, manifest: "KubernetesObject | None", path: Path, data: Any) -> None:
        self._manifest = manifest
        self.path = path
        self.data: Map = data if isinstance(data, Map) else Map(0, is_flow=False)

    @property
    def manifest(self) -> "KubernetesObject":
        """The object that this is a part of."""
        assert self._manifest is not None
        return self._manifest

    def get(self, *path: str | int) -> Any:
        """The value at the path, None if there is none."""
        return get(self.data, path)

    def text(self, *path: str | int) -> str | None:
        found = get(self.data, path)
        return found if isinstance(found, str) else None

    def integer(self, *path: str | int) -> int | None:
        found = get(self.data, path)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def mapping(self, *path: str | int) -> Mapping[str, Any]:
        found = get(self.data, path)
        return found if isinstance(found, dict) else {}

    def strings(self, *path: str | int) -> dict[str, str]:
        """The mapping at the path, without values that are not text."""
        found = get(self.data, path)
        if not isinstance(found, dict):
            return {}
        return {key: value for key, value in found.items() if isinstance(value, str)}

    def listed(self, *path: str | int) -> list[Any]:
        found = get(self.data, path)
        return found if isinstance(found, list) else []

    def mappings(self, *path: str | int) -> Iterator[tuple[int, Map]]:
        """The mappings in the list at the path, with their index."""
        found = get(self.data, path)
        if isinstance(found, list):
            for index, item in enumerate(found):
                if isinstance(item, Map):
                    yield index, item

    def fault(
        self,
        message: str,
        *,
        at: Path = (),
        of_key: bool = False,
        hint: str | None = None,
        fix: Fix | None = None,
        is_minor: bool = False,
    ) -> Fault:
        """Something is wrong at `at`: a scalar itself, or the key of a mapping or list.

        If `at` does not exist, the fault points at its last part that does. So for something
        missing, pass the path it should have: the key of its parent is shown.
        """
        path = (*self.path, *at)
        place = self.manifest.place(path, of_key=of_key)
        return Fault(
            message=message,
            place=place,
            hint=hint,
            fix=fix,
            view=self,
            at=path,
            is_minor=is_minor,
        )

    def fix(self, title: str, *changes: Change, is_safe: bool) -> Fix:
        """A fix of this view. The paths of the changes are relative to it."""
        absolute = tuple(below(self.path, change) for change in changes)
        return Fix(title=title, changes=absolute, is_safe=is_safe)


class KubernetesObject(ObjectView):
    """One Kubernetes object.

    `is_patch`: a partial object that is merged into a complete one. `is_base`: Kustomize may
    complete it.
    """

    def __init__(
        self, source: SourceText, root: Map, *, is_patch: bool = False, is_base: bool = False
    ) -> None:
        super().__init__(None, (), root)
        self.source = source
        self.is_patch = is_patch or _is_part(root)
        self.is_base = is_base
        self.api_version = self.text("apiVersion") or ""
        self.kind = self.text("kind") or ""
        self.name = self.text("metadata", "name") or ""
        self.namespace = self.text("metadata", "namespace")

    @property
    def manifest(self) -> "KubernetesObject":
        return self

    @property
    def group(self) -> str:
        """The API group: `batch` for `batch/v1`, empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def labels(self) -> dict[str, str]:
        return self.strings("metadata", "labels")

    @property
    def annotations(self) -> dict[str, str]:
        return self.strings("metadata", "annotations")

    @property
    def overlay(self) -> str | None:
        """The folder of the Kustomization that built it, None for an object as written."""
        return None

    @property
    def written(self) -> "KubernetesObject":
        """The object in its file, which fixes change."""
        return self

    @property
    def has_schema(self) -> bool:
        """Whether its fields are those of Kubernetes."""
        return True

    def is_as_written(self, path: Path) -> bool:
        """Whether the value at a path is where `written` has it."""
        return True

    def place(self, path: Path, *, of_key: bool = False) -> SourceSpan:
        start, end = span_at(self.data, path, of_key=of_key)
        return SourceSpan(source=self.source, start=start, end=end)

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else self.kind


def _is_part(root: Map) -> bool:
    """Whether an object can only be a part of one: it selects no Pods, and they have no image."""
    if root.get("kind") not in _WITH_SELECTOR or get(root, ("spec", "selector")) is not None:
        return False
    containers = get(root, ("spec", "template", "spec", "containers"))
    listed = containers if isinstance(containers, Seq) else ()
    return bool(listed) and not any(isinstance(one, Map) and one.get("image") for one in listed)
