"""Objects as an API server keeps them: versions, watches, merge patches and server-side apply.

Knows which field manager set which field, so that an apply conflicts and releases as on a real
server. Lists inside objects are one field. Everything happens in the order in which it is asked.
"""

import copy
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from outlast.cluster.resources import Object, Resource

Path = tuple[str, ...]
Manager = tuple[str, str]
"""The name of a field manager, and its operation: Apply or Update."""

CREATED = "2026-11-16T11:00:00Z"
_IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


class Refused(Exception):
    """The answer to a request that is refused."""

    def __init__(self, status: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.answer = {
            "kind": "Status",
            "code": status,
            "reason": reason,
            "message": message,
            "details": details,
        }


@dataclass
class Kept:
    """An object, and who set its fields. `reads_left`: how often it is still seen if deleted."""

    resource: Resource
    item: Object
    owners: dict[Path, set[Manager]] = field(default_factory=dict)
    reads_left: int = 3


@dataclass(frozen=True)
class StoredChange:
    version: int
    kind: str
    resource: Resource
    item: Object


class ObjectStore:
    """All objects. `controllers` run after each change, until they change nothing any more."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.changes: list[StoredChange] = []
        self.controllers: list[Callable[[ObjectStore], None]] = []
        self._kept: dict[tuple[Resource, str | None, str], Kept] = {}
        self._version = 1
        self._uids = 0

    @property
    def version(self) -> int:
        return self._version

    def all(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        """Copies of the objects of a resource, in the order of their names."""
        with self.changed:
            found = [
                kept.item
                for (of, place, _), kept in sorted(self._kept.items(), key=lambda one: str(one[0]))
                if of == resource and namespace in (None, place)
            ]
            return copy.deepcopy(found)

    def read(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object as a client sees it. One that is being deleted is seen a few times more."""
        with self.changed:
            kept = self._find(resource, namespace, name)
            if "deletionTimestamp" in kept.item["metadata"]:
                if kept.reads_left == 0:
                    self.remove(resource, namespace, name)
                    raise _missing(resource, name)
                kept.reads_left -= 1
            return copy.deepcopy(kept.item)

    def put(self, resource: Resource, item: Object, manager: str = "test") -> Object:
        """Create an object, or replace it as someone who owns all of it."""
        with self.changed:
            kept = self._made(resource, item)
            owner = {(manager, "Update")}
            kept.owners = {path: set(owner) for path, _ in leaves(item) if path not in _IDENTITY}
            _fill(kept.item, item)
            self._tell(
                "MODIFIED" if kept.item["metadata"].get("resourceVersion") else "ADDED", kept
            )
            return copy.deepcopy(kept.item)

    def merge(
        self, resource: Resource, namespace: str | None, name: str, changes: Object, manager: str
    ) -> Object:
        """A JSON merge patch. A UID in it must be that of the object."""
        with self.changed:
            kept = self._find(resource, namespace, name)
            uid = changes.get("metadata", {}).get("uid")
            if uid not in (None, kept.item["metadata"]["uid"]):
                raise Refused(409, "Conflict", f"Precondition failed: UID in precondition: {uid}")
            before = copy.deepcopy(kept.item)
            for path, value in leaves(changes):
                if value_at(kept.item, path) != value:
                    _set(kept.item, path, value)
                    kept.owners[path] = {(manager, "Update")}
            if kept.item != before:
                self._tell("MODIFIED", kept)
            return copy.deepcopy(kept.item)

    def apply(self, resource: Resource, item: Object, manager: str, *, dry_run: bool) -> Object:
        """Server-side apply without force."""
        with self.changed:
            key = (resource, item["metadata"].get("namespace"), item["metadata"]["name"])
            is_new = key not in self._kept
            kept = copy.deepcopy(self._kept[key]) if not is_new else None
            kept = kept or Kept(resource=resource, item=self._empty(item))
            before = copy.deepcopy(kept.item)
            _apply(kept, item, (manager, "Apply"))
            if not is_new:
                _check_immutable(before, kept.item)
            if not dry_run:
                self._kept[key] = kept
                if is_new or kept.item != before:
                    self._tell("ADDED" if is_new else "MODIFIED", kept)
            return copy.deepcopy(kept.item)

    def delete(
        self, resource: Resource, namespace: str | None, name: str, uid: str | None
    ) -> Object:
        """Mark an object as being deleted; it goes after it was seen a few times more."""
        with self.changed:
            kept = self._find(resource, namespace, name)
            if uid not in (None, kept.item["metadata"]["uid"]):
                raise Refused(409, "Conflict", f"Precondition failed: UID in precondition: {uid}")
            kept.item["metadata"].setdefault("deletionTimestamp", CREATED)
            self._tell("MODIFIED", kept)
            return copy.deepcopy(kept.item)

    def remove(self, resource: Resource, namespace: str | None, name: str) -> None:
        """Remove an object at once."""
        with self.changed:
            kept = self._find(resource, namespace, name)
            del self._kept[resource, namespace, name]
            self._tell("DELETED", kept)

    def saved(self) -> object:
        """All objects as they are now, for `restore`."""
        with self.changed:
            return copy.deepcopy((self._kept, self._version, self._uids))

    def restore(self, saved: Any) -> None:
        """Continue from a saved state. Nobody may be watching."""
        with self.changed:
            self._kept, self._version, self._uids = copy.deepcopy(saved)
            self.changes.clear()

    def _find(self, resource: Resource, namespace: str | None, name: str) -> Kept:
        kept = self._kept.get((resource, namespace, name))
        if kept is None:
            raise _missing(resource, name)
        return kept

    def _made(self, resource: Resource, item: Object) -> Kept:
        metadata = item["metadata"]
        key = (resource, metadata.get("namespace"), metadata["name"])
        if key not in self._kept:
            self._kept[key] = Kept(resource=resource, item=self._empty(item))
        return self._kept[key]

    def _empty(self, item: Object) -> Object:
        self._uids += 1
        metadata = {
            key: item["metadata"][key] for key in ("name", "namespace") if key in item["metadata"]
        }
        spec = {"suspend": False} if item.get("kind") in ("Job", "JobSet") else {}
        return {
            "apiVersion": item.get("apiVersion", ""),
            "kind": item.get("kind", ""),
            "metadata": {**metadata, "uid": f"uid-{self._uids}", "creationTimestamp": CREATED},
            **({"spec": spec} if spec else {}),
        }

    def _tell(self, kind: str, kept: Kept) -> None:
        self._version += 1
        kept.item["metadata"]["resourceVersion"] = str(self._version)
        item = copy.deepcopy(kept.item)
        self.changes.append(StoredChange(self._version, kind, kept.resource, item))
        self.changed.notify_all()
        for controller in self.controllers:
            controller(self)


def leaves(item: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All fields with their values. A list, and an empty object, are one field."""
    if isinstance(item, dict) and item:
        for key, value in item.items():
            yield from leaves(value, (*at, key))
    else:
        yield at, item


def value_at(item: Any, path: Path) -> Any:
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item


def _set(item: Object, path: Path, value: Any) -> None:
    for key in path[:-1]:
        if not isinstance(item.get(key), dict):
            item[key] = {}
        item = item[key]
    if value is None:
        item.pop(path[-1], None)
    else:
        item[path[-1]] = copy.deepcopy(value)


def _fill(item: Object, given: Object) -> None:
    for path, value in leaves(given):
        _set(item, path, value)


def _apply(kept: Kept, item: Object, manager: Manager) -> None:
    given = {path: value for path, value in leaves(item) if path not in _IDENTITY}
    conflicts = []
    for path, value in given.items():
        others = kept.owners.get(path, set()) - {manager}
        if others and value_at(kept.item, path) != value:
            name = min(others)[0]
            text = f'conflict with "{name}" using {item["apiVersion"]}'
            conflicts.append(
                {"reason": "FieldManagerConflict", "field": "." + ".".join(path), "message": text}
            )
    if conflicts:
        raise Refused(409, "Conflict", "Apply failed with conflicts", causes=conflicts)
    for path, owners in list(kept.owners.items()):
        if manager in owners and path not in given:
            owners.discard(manager)
            if not owners:
                del kept.owners[path]
                _set(kept.item, path, None)
    for path, value in given.items():
        _set(kept.item, path, value)
        kept.owners.setdefault(path, set()).add(manager)
    if kept.item["kind"] in ("Job", "JobSet"):
        kept.item["spec"].setdefault("suspend", False)


def _check_immutable(before: Object, after: Object) -> None:
    if after["kind"] != "Job":
        return
    if value_at(before, ("spec", "template")) != value_at(after, ("spec", "template")):
        text = f"Job.batch {json.dumps(after['metadata']['name'])} is invalid: spec.template: "
        raise Refused(
            422,
            "Invalid",
            f"{text}Invalid value: field is immutable",
            causes=[{"reason": "FieldValueInvalid", "field": "spec.template"}],
        )


def _missing(resource: Resource, name: str) -> Refused:
    return Refused(404, "NotFound", f'{resource.plural} "{name}" not found')
