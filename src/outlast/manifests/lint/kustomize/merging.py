"""Strategic merge patches: merge a partial object into an object, as Kustomize does.

Mappings are merged. A list is merged item by item if Kubernetes defines a merge key for it, and
replaced otherwise, as in all custom resources. `null` removes a field, and `$patch` says to replace
or delete. New and changed items come first.
"""

from typing import Any

from outlast.manifests.lint.kustomize.errors import CannotBuild
from outlast.manifests.lint.tree import BuiltMap, BuiltSeq

DIRECTIVE = "$patch"
_DIRECTIVES = ("merge", "replace", "delete")
_UNSUPPORTED = ("$setElementOrder", "$deleteFromPrimitiveList", "$retainKeys")

_MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "matchConditions": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "protocol"),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "webhooks": ("name",),
}
_SERVICE_PORTS = ("port", "protocol")
_PRIMITIVE = "finalizers"
_GROUPS = frozenset(
    (
        "",
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "extensions",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    )
)


def merge(target: BuiltMap, patch: BuiltMap) -> BuiltMap | None:
    """The target with the patch merged in, None if the patch deletes it. Changes both."""
    return _MergeRules(target).mapping(target, patch)


class _MergeRules:
    """The merge keys of one kind of object."""

    def __init__(self, target: BuiltMap) -> None:
        group, slash, _ = str(target.get("apiVersion", "")).partition("/")
        self._is_built_in = (group if slash else "") in _GROUPS
        self._is_service = target.get("kind") == "Service"

    def mapping(self, target: BuiltMap, patch: BuiltMap) -> BuiltMap | None:
        match _directive(patch):
            case "delete":
                return None
            case "replace":
                return patch
        for key in list(patch):
            value = patch[key]
            if value is None:
                target.drop(key)
                continue
            merged = self._value(key, target.own(key), value)
            if merged is None:
                target.drop(key)
            elif merged is value or key not in target:
                target.put(key, merged, patch.origin(key))
            else:
                target[key] = merged
        return target

    def _value(self, key: str, target: Any, patch: Any) -> Any:
        if key.startswith(_UNSUPPORTED):
            raise CannotBuild(f"the directive {key!r} is not supported")
        if isinstance(patch, BuiltMap):
            _check_type(key, target, BuiltMap)
            return self.mapping(_empty_map(target, patch), patch)
        if isinstance(patch, BuiltSeq):
            _check_type(key, target, BuiltSeq)
            return self._list(key, target, patch)
        _check_type(key, target, None)
        return patch

    def _list(self, key: str, target: BuiltSeq | None, patch: BuiltSeq) -> BuiltSeq | None:
        keys = self._keys(key)
        if not self._is_built_in or (keys is None and key != _PRIMITIVE):
            return patch
        known = BuiltSeq(patch.start) if target is None else target
        if keys is None:
            return _union(patch, known)
        match _list_directive(patch):
            case "delete":
                return None
            case "replace":
                return patch
        return self._items(keys, known, patch)

    def _keys(self, key: str) -> tuple[str, ...] | None:
        if key == "ports" and self._is_service:
            return _SERVICE_PORTS
        return _MERGE_KEYS.get(key)

    def _items(self, keys: tuple[str, ...], target: BuiltSeq, patch: BuiltSeq) -> BuiltSeq:
        result = BuiltSeq(target.start or patch.start)
        left = list(range(len(target)))
        mixed = [
            key
            for key in keys[1:]
            if any(isinstance(one, BuiltMap) and key in one for one in (*target, *patch))
        ]
        for index, item in enumerate(patch):
            if not isinstance(item, BuiltMap):
                result.take(patch, index)
                continue
            found = next((i for i in left if _is_same(keys, target[i], item)), None)
            if found is None:
                if _is_ignored(keys, item, target):
                    continue
                new = self.mapping(BuiltMap(item.start), item)
                if new:
                    result.put(len(result), new, patch.spans[index], patch.sources[index])
                continue
            merged = self.mapping(target[found], item)
            # Kustomize moves a changed item to the front, except one that lacks a key others have.
            if merged is target[found] and any(merged.get(key) is None for key in mixed):
                continue
            left.remove(found)
            if merged is item:
                result.put(len(result), merged, patch.spans[index], patch.sources[index])
            elif merged is not None:
                result.take(target, found)
        for index in left:
            result.take(target, index)
        return result


def _is_same(keys: tuple[str, ...], one: Any, other: BuiltMap) -> bool:
    return isinstance(one, BuiltMap) and all(one.get(key) == other.get(key) for key in keys)


def _is_ignored(keys: tuple[str, ...], item: BuiltMap, target: BuiltSeq) -> bool:
    """Whether an item has the first key of another, and only one of them has the second key.

    Kustomize keeps the other one as it is.
    """
    return any(
        isinstance(one, BuiltMap)
        and one.get(keys[0]) == item.get(keys[0])
        and any((one.get(key) is None) != (item.get(key) is None) for key in keys[1:])
        for one in target
    )


def _union(patch: BuiltSeq, target: BuiltSeq) -> BuiltSeq:
    result = BuiltSeq(target.start)
    for source in (patch, target):
        for index, item in enumerate(source):
            if item not in result:
                result.take(source, index)
    return result


def _directive(patch: BuiltMap) -> str:
    if DIRECTIVE not in patch:
        return "merge"
    found = patch[DIRECTIVE]
    if found not in _DIRECTIVES:
        raise CannotBuild(f"$patch is {found!r}; expected merge, replace or delete")
    patch.drop(DIRECTIVE)
    return str(found)


def _list_directive(patch: BuiltSeq) -> str:
    for index, item in enumerate(patch):
        if isinstance(item, BuiltMap) and list(item) == [DIRECTIVE]:
            found = _directive(item)
            patch.drop(index)
            return found
    return "merge"


def _empty_map(target: Any, patch: BuiltMap) -> BuiltMap:
    return target if isinstance(target, BuiltMap) else BuiltMap(patch.start)


def _check_type(key: str, target: Any, wanted: type[BuiltMap | BuiltSeq] | None) -> None:
    is_fine = (
        target is None
        or (wanted is None and not isinstance(target, BuiltMap | BuiltSeq))
        or (wanted is not None and isinstance(target, wanted))
    )
    if not is_fine:
        raise CannotBuild(f"the patch sets {key!r} to a value of another type")
