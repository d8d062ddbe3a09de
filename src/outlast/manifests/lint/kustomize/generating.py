"""ConfigMaps and Secrets that a Kustomization generates: their names and labels.

Kustomize appends a hash of the data to their names and to all references. Here the names stay
without it, so that no file has to be read. Only the literals of a ConfigMap are kept, because
replacements take values from there; the data of a Secret is not.
"""

from collections.abc import Iterable
from typing import Any

from outlast.manifests.lint.kustomize.errors import CannotBuild
from outlast.manifests.lint.kustomize.resources import Resource, find_one, id_of
from outlast.manifests.lint.tree import BuiltMap, Origin, copied
from outlast.yamltext.nodes import Map, Seq
from outlast.yamltext.source import SourceText

KINDS = {"configMapGenerator": "ConfigMap", "secretGenerator": "Secret"}


def generate(
    kind: str, entry: Map, options: Any, known: Iterable[Resource], source: SourceText
) -> Resource | None:
    """The object of one generator, None if it only changes one that exists."""
    name = entry.get("name")
    if not isinstance(name, str):
        raise CannotBuild(f"a generator of a {kind} has no name")
    origin = Origin.of_key(entry, "name", source)
    data = BuiltMap(entry.start)
    data.put("apiVersion", "v1", origin)
    data.put("kind", kind, origin)
    metadata = BuiltMap(entry.start)
    data.put("metadata", metadata, origin)
    metadata.put("name", name, origin)
    if isinstance(entry.get("namespace"), str):
        metadata.put("namespace", entry["namespace"], Origin.of_key(entry, "namespace", source))
    for given in (options, entry.get("options")):
        for key in ("labels", "annotations"):
            pairs = given.get(key) if isinstance(given, Map) else None
            if isinstance(given, Map) and isinstance(pairs, Map):
                target = metadata.child(key, Origin.of_key(given, key, source))
                assert target is not None
                for label in pairs:
                    target.put(
                        label, copied(pairs[label], source), Origin.of_key(pairs, label, source)
                    )
    _add_literals(kind, entry, data, source)
    if entry.get("behavior") in ("merge", "replace"):
        _update(find_one(known, id_of(data)), data)
        return None
    return Resource(data=data, source=source, is_generated=True)


def _add_literals(kind: str, entry: Map, data: BuiltMap, source: SourceText) -> None:
    literals = entry.get("literals")
    if kind != "ConfigMap" or not isinstance(literals, Seq):
        return
    target = data.child("data", Origin.of_key(entry, "literals", source))
    for index, text in enumerate(literals):
        key, equals, value = str(text).partition("=")
        start, end = literals.spans[index]
        if equals and target is not None:
            span = (start, end, start, end)
            target.put(key, value.strip("'\""), Origin(source=source, span=span))


def _update(one: Resource, data: BuiltMap) -> None:
    """Add the labels, annotations and data to an object that exists."""
    for path in (("metadata", "labels"), ("metadata", "annotations"), ("data",)):
        given: Any = data
        target: BuiltMap | None = one.data
        for part in path:
            if not isinstance(given, BuiltMap) or part not in given or target is None:
                break
            target = target.child(part, given.origin(part))
            given = given[part]
        else:
            for key in given if target is not None else ():
                assert target is not None
                target.put(key, given[key], given.origin(key))
