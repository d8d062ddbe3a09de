"""A reference between a Job and its Kueue objects is broken.

Why: a Job names a LocalQueue, which names a ClusterQueue, which names its flavors and admission
checks. If one of these names is wrong, if the ClusterQueue admits no namespace, or if it does not
cover a requested resource, the Job stays suspended indefinitely, with no Pods and no error.
Instead: make the names match. Give the ClusterQueue a namespaceSelector ({} selects all
namespaces), and make it cover every resource that its Jobs request.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from outlast.manifests.rules.api import (
    KUEUE_GROUP,
    Fault,
    KubernetesObject,
    Path,
    Put,
    Review,
    Severity,
    kueue_objects,
    kueue_references,
    object_rule,
    queue_label_at,
    queue_of,
    share_folder,
    share_namespace,
)

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_DIGITS = re.compile(r"\d")
_RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "google.com/tpu")


@object_rule("OL304", Severity.WARNING)
def broken_queue_chain(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    queue = queue_of(manifest)
    if queue is not None:
        yield from _missing(manifest, queue_label_at(manifest), "LocalQueue", queue, review)
        yield from _uncovered(manifest, queue, review)
    elif manifest.group == KUEUE_GROUP:
        for at, kind, name in kueue_references(manifest):
            yield from _missing(manifest, at, kind, name, review)
        if manifest.kind == "ClusterQueue":
            yield from _closed(manifest, review)
        elif manifest.kind == "LocalQueue":
            yield from _not_admitted(manifest, review)


def _missing(
    manifest: KubernetesObject, at: Path, kind: str, name: str, review: Review
) -> Iterator[Fault]:
    """A name that is not defined here, although a similar or neighboring one is."""
    defined = kueue_objects(review, kind)
    if any(one.name == name for one in defined):
        return
    reachable = [
        one for one in defined if share_namespace(one, manifest) and share_folder(one, manifest)
    ]
    near = get_close_matches(name[:80], _alike(name, reachable), n=1, cutoff=0.8)
    beside = sorted({one.name for one in reachable if one.source is manifest.source})
    if not near and not beside:
        return
    meant = near[0] if near else beside[0] if len(beside) == 1 else None
    yield manifest.fault(
        f"No {kind} named {name!r} is defined here. Defined: {_listed(near or beside)}.",
        at=at,
        # Another one may exist in the cluster.
        fix=manifest.fix(f"Change the name to {meant!r}", Put(at, meant), is_safe=False)
        if meant
        else None,
    )


def _alike(name: str, defined: list[KubernetesObject]) -> list[str]:
    """The names that could be meant. A different number or suffix is another name, not a typo."""
    return [
        one.name
        for one in defined
        if not one.name.startswith(name)
        and not name.startswith(one.name)
        and _DIGITS.sub("", one.name) != _DIGITS.sub("", name)
    ]


def _uncovered(manifest: KubernetesObject, queue: str, review: Review) -> Iterator[Fault]:
    """Resources that none of the ClusterQueues that the queue may use covers."""
    clusters = _cluster_queues(manifest, queue, review)
    for pod in review.pods_in(manifest):
        for container in pod.containers:
            asked = {
                **container.mapping("resources", "limits"),
                **container.mapping("resources", "requests"),
            }
            lacking = [one for one in _RESOURCES if one in asked]
            for cluster in clusters:
                lacking = [one for one in lacking if one not in _covered(cluster)]
            if clusters and lacking:
                yield container.fault(
                    f"ClusterQueue {clusters[0].name!r} does not cover {_listed(lacking)}, so "
                    f"Kueue never admits the {manifest.kind}.",
                    at=("resources",),
                )


def _cluster_queues(
    manifest: KubernetesObject, queue: str, review: Review
) -> list[KubernetesObject]:
    """The ClusterQueues that a queue of this name may use; empty if one of them is unknown."""
    found: list[KubernetesObject] = []
    for local in kueue_objects(review, "LocalQueue"):
        if local.name != queue or not share_namespace(local, manifest):
            continue
        if not share_folder(local, manifest):
            return []
        name = local.text("spec", "clusterQueue")
        named = [one for one in kueue_objects(review, "ClusterQueue") if one.name == name]
        if not named or not all(one.listed("spec", "resourceGroups") for one in named):
            return []
        found += named
    return found


def _covered(cluster: KubernetesObject) -> set[object]:
    return {
        resource
        for index, _ in cluster.mappings("spec", "resourceGroups")
        for resource in cluster.listed("spec", "resourceGroups", index, "coveredResources")
        if isinstance(resource, str)
    }


def _closed(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    # Without a LocalQueue, it may exist only to lend its quota to others.
    is_used = any(
        one.text("spec", "clusterQueue") == manifest.name and share_folder(one, manifest)
        for one in kueue_objects(review, "LocalQueue")
    )
    if is_used and manifest.get("spec", "namespaceSelector") is None and not manifest.is_base:
        yield manifest.fault(
            "The ClusterQueue has no namespaceSelector, so it admits nothing from any namespace.",
            at=("spec", "namespaceSelector"),
            hint="Set namespaceSelector to {} for all namespaces, or select some.",
        )


def _not_admitted(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    """A LocalQueue in a namespace that no ClusterQueue of that name admits."""
    name = manifest.text("spec", "clusterQueue")
    selector = ("spec", "namespaceSelector", "matchLabels", _NAMESPACE_LABEL)
    chosen = [
        one.text(*selector) if share_folder(one, manifest) else None
        for one in kueue_objects(review, "ClusterQueue")
        if one.name == name
    ]
    if (
        chosen
        and manifest.namespace
        and all(one not in (None, manifest.namespace) for one in chosen)
    ):
        yield manifest.fault(
            f"ClusterQueue {name!r} admits only namespace {chosen[0]!r}, but this LocalQueue is in "
            f"{manifest.namespace!r}.",
            at=("metadata", "namespace"),
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
