"""The objects of a build while it runs: their names before and after, and how they are selected."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from outlast.manifests.lint.kustomize.errors import CannotBuild
from outlast.manifests.lint.tree import BuiltMap
from outlast.yamltext.nodes import get
from outlast.yamltext.source import SourceText

# What Kustomize treats as cluster-scoped; it gives every other kind a namespace.
CLUSTER_SCOPED = frozenset(
    (
        "APIService",
        "CSIDriver",
        "CSINode",
        "CertificateSigningRequest",
        "ClusterRole",
        "ClusterRoleBinding",
        "ComponentStatus",
        "CustomResourceDefinition",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PodSecurityPolicy",
        "PriorityClass",
        "RuntimeClass",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "StorageClass",
        "SubjectAccessReview",
        "TokenReview",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    )
)


@dataclass(frozen=True, slots=True)
class ResourceId:
    """What identifies an object. Namespaces compare equal if one is empty and one is `default`."""

    group: str
    version: str
    kind: str
    name: str
    namespace: str

    def is_same(self, other: "ResourceId") -> bool:
        return (self.group, self.version, self.kind, self.name, self.namespace or "default") == (
            other.group,
            other.version,
            other.kind,
            other.name,
            other.namespace or "default",
        )

    @property
    def is_cluster_scoped(self) -> bool:
        return self.kind in CLUSTER_SCOPED


@dataclass(kw_only=True, eq=False, slots=True)
class Resource:
    """One object. `earlier` are its identities before each change of its name or namespace.

    `source` is the file that defines it and `document` the id of what was read there. `affixes`
    are the prefixes and suffixes it was given.
    """

    data: BuiltMap
    source: SourceText
    earlier: list[ResourceId] = field(default_factory=list)
    affixes: list[str] = field(default_factory=list)
    document: int = 0
    is_generated: bool = False

    @property
    def id(self) -> ResourceId:
        return id_of(self.data)

    @property
    def first_id(self) -> ResourceId:
        return self.earlier[0] if self.earlier else self.id

    @property
    def ids(self) -> list[ResourceId]:
        return [*self.earlier, self.id]

    def remember(self) -> None:
        """Keep the current identity, before it changes."""
        self.earlier.append(self.id)


def id_of(data: BuiltMap) -> ResourceId:
    group, slash, version = _text(data.get("apiVersion")).rpartition("/")
    return ResourceId(
        group=group if slash else "",
        version=version,
        kind=_text(data.get("kind")),
        name=_text(get(data, ("metadata", "name"))),
        namespace=_text(get(data, ("metadata", "namespace"))),
    )


def find_one(resources: Iterable[Resource], wanted: ResourceId) -> Resource:
    """The only object that has or had this identity."""
    found = [one for one in resources if any(known.is_same(wanted) for known in one.ids)]
    if len(found) != 1:
        what = f"{wanted.kind} {wanted.name!r}"
        if wanted.namespace:
            what += f" in namespace {wanted.namespace!r}"
        raise CannotBuild(f"{'no' if not found else 'more than one'} resource is {what}")
    return found[0]


def select(resources: Iterable[Resource], selector: BuiltMap) -> Iterator[Resource]:
    """The objects that a `target` selects. Its values are patterns for the complete text."""
    patterns = {key: _pattern(selector.get(key)) for key in _TARGET_KEYS}
    labels = list(_label_terms(selector.get("labelSelector")))
    annotations = list(_label_terms(selector.get("annotationSelector")))
    for one in resources:
        first, now = one.first_id, one.id
        if (
            _fits(patterns["namespace"], first.namespace or "default", now.namespace or "default")
            and _fits(patterns["name"], first.name, now.name)
            and _fits(patterns["kind"], now.kind)
            and _fits(patterns["group"], now.group)
            and _fits(patterns["version"], now.version)
            and _has(one.data, "labels", labels)
            and _has(one.data, "annotations", annotations)
        ):
            yield one


_TARGET_KEYS = ("group", "version", "kind", "name", "namespace")
_LABEL_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*)?(?P<key>[\w./-]+)\s*"
    r"(?:(?P<sign>==|=|!=)\s*(?P<value>[\w.-]*)|(?P<word>in|notin)\s*\((?P<values>[^)]*)\))?\s*"
    r"(?:,|$)"
)


def _pattern(value: Any) -> re.Pattern[str] | None:
    if value is None or value == "":
        return None
    try:
        return re.compile(str(value))
    except re.error as error:
        raise CannotBuild(f"{value!r} is not a valid pattern: {error}") from error


def _fits(pattern: re.Pattern[str] | None, *texts: str) -> bool:
    return pattern is None or any(pattern.fullmatch(text) for text in texts)


def _label_terms(text: Any) -> Iterator[re.Match[str]]:
    index, written = 0, str(text or "")
    while index < len(written):
        match = _LABEL_TERM.match(written, index)
        if match is None or match.end() == index:
            raise CannotBuild(f"the selector {written!r} cannot be read")
        yield match
        index = match.end()


def _has(data: BuiltMap, kind: str, terms: Iterable[re.Match[str]]) -> bool:
    known = get(data, ("metadata", kind))
    return all(_holds(known if isinstance(known, dict) else {}, term) for term in terms)


def _holds(known: dict[str, Any], term: re.Match[str]) -> bool:
    key = term["key"]
    if term["absent"]:
        return key not in known
    if term["sign"] in ("=", "=="):
        return known.get(key) == term["value"]
    if term["sign"] == "!=":
        return known.get(key) != term["value"]
    if term["word"]:
        values = [value.strip() for value in term["values"].split(",")]
        return (known.get(key) in values) == (term["word"] == "in")
    return key in known


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
