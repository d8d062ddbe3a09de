"""Kueue's chain breaks: a queue, a flavor or a check that is named is not the one that is there.

Why: a Job names a LocalQueue, that a ClusterQueue, and that its flavors and admission checks. Where
one name is wrong, where the ClusterQueue admits no namespace, or where it does not cover a resource
that is asked for, the Job stays suspended for ever, with no Pod and no error.
Instead: give all of them the same names. A ClusterQueue needs a namespaceSelector ({} is all
namespaces), and must cover each resource that its Jobs ask for.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.kueue import (
    GROUP,
    of_kueue,
    queue_label_at,
    queue_of,
    references,
)
from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.review import Review, share_namespace
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.view import Fault, Manifest

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_DIGITS = re.compile(r"\d")
_RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "google.com/tpu")


@object_rule("OL304", Severity.WARNING)
def broken_queue_chain(manifest: Manifest, review: Review) -> Iterator[Fault]:
    queue = queue_of(manifest)
    if queue is not None:
        yield from _missing(manifest, queue_label_at(manifest), "LocalQueue", queue, review)
        yield from _uncovered(manifest, queue, review)
    elif manifest.group == GROUP:
        for at, kind, name in references(manifest):
            yield from _missing(manifest, at, kind, name, review)
        if manifest.kind == "ClusterQueue":
            yield from _closed(manifest, review)
        elif manifest.kind == "LocalQueue":
            yield from _not_admitted(manifest, review)


def _missing(manifest: Manifest, at: Path, kind: str, name: str, review: Review) -> Iterator[Fault]:
    """A name that nothing here has, while something beside it or alike is defined."""
    defined = of_kueue(review, kind)
    if any(one.name == name for one in defined):
        return
    reachable = [one for one in defined if share_namespace(one, manifest)]
    near = get_close_matches(name[:80], _alike(name, reachable), n=1, cutoff=0.8)
    beside = sorted({one.name for one in reachable if one.source is manifest.source})
    if not near and not beside:
        return
    meant = near[0] if near else beside[0] if len(beside) == 1 else None
    yield manifest.fault(
        f"There is no {kind} {name!r} here; {_listed(near or beside)} is defined.",
        at=at,
        # Another one may exist in the cluster.
        fix=manifest.fix(f"Name {meant!r}", Put(at, meant), is_safe=False) if meant else None,
    )


def _alike(name: str, defined: list[Manifest]) -> list[str]:
    """The names that could be meant: a number or an ending more makes another name, no typo."""
    return [
        one.name
        for one in defined
        if not one.name.startswith(name)
        and not name.startswith(one.name)
        and _DIGITS.sub("", one.name) != _DIGITS.sub("", name)
    ]


def _uncovered(manifest: Manifest, queue: str, review: Review) -> Iterator[Fault]:
    """Resources that no ClusterQueue has that may be behind the queue."""
    behind = _cluster_queues(manifest, queue, review)
    for pod in review.pods_in(manifest):
        for container in pod.containers:
            asked = {
                **container.mapping("resources", "limits"),
                **container.mapping("resources", "requests"),
            }
            lacking = [one for one in _RESOURCES if one in asked]
            for cluster in behind:
                lacking = [one for one in lacking if one not in _covered(cluster)]
            if behind and lacking:
                yield container.fault(
                    f"The ClusterQueue {behind[0].name!r} does not cover {_listed(lacking)}, so "
                    f"the {manifest.kind} is never admitted.",
                    at=("resources",),
                )


def _cluster_queues(manifest: Manifest, queue: str, review: Review) -> list[Manifest]:
    """Those behind a queue; several setups may use the same names. Empty if one is not known."""
    found: list[Manifest] = []
    for local in of_kueue(review, "LocalQueue"):
        if local.name != queue or not share_namespace(local, manifest):
            continue
        name = local.text("spec", "clusterQueue")
        named = [one for one in of_kueue(review, "ClusterQueue") if one.name == name]
        if not named or not all(one.listed("spec", "resourceGroups") for one in named):
            return []
        found += named
    return found


def _covered(cluster: Manifest) -> set[object]:
    return {
        resource
        for index, _ in cluster.mappings("spec", "resourceGroups")
        for resource in cluster.listed("spec", "resourceGroups", index, "coveredResources")
        if isinstance(resource, str)
    }


def _closed(manifest: Manifest, review: Review) -> Iterator[Fault]:
    # Without a LocalQueue it may be there only to lend its quota to others.
    is_used = any(
        one.text("spec", "clusterQueue") == manifest.name for one in of_kueue(review, "LocalQueue")
    )
    if is_used and manifest.get("spec", "namespaceSelector") is None and not manifest.is_base:
        yield manifest.fault(
            "Without a namespaceSelector the ClusterQueue admits nothing from any namespace.",
            at=("spec", "namespaceSelector"),
            hint="Write namespaceSelector: {} for all namespaces, or select some.",
        )


def _not_admitted(manifest: Manifest, review: Review) -> Iterator[Fault]:
    """A LocalQueue in a namespace that no ClusterQueue of that name lets in."""
    name = manifest.text("spec", "clusterQueue")
    selector = ("spec", "namespaceSelector", "matchLabels", _NAMESPACE_LABEL)
    chosen = [one.text(*selector) for one in of_kueue(review, "ClusterQueue") if one.name == name]
    if (
        chosen
        and manifest.namespace
        and all(one not in (None, manifest.namespace) for one in chosen)
    ):
        yield manifest.fault(
            f"The ClusterQueue {name!r} admits from the namespace {chosen[0]!r} only, and this "
            f"queue is in {manifest.namespace!r}.",
            at=("metadata", "namespace"),
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
