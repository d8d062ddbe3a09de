"""Whether these credentials may submit and watch, by SelfSubjectAccessReview.

One question per verb and resource: a list of all rules is incomplete on GKE.
"""

from collections.abc import Iterator

from outlast.cluster.checks.result import CheckResult, Subject, fail, ok, warn
from outlast.cluster.resources import EVENTS, JOBS, NODES, PODS, Resource, namespace_of
from outlast.cluster.roles import role_line
from outlast.cluster.submitting.submitting import is_setup

_APPLY = ("get", "create", "patch")


def check_permissions(subject: Subject) -> Iterator[CheckResult]:
    wanted = _wanted(subject)
    for namespace in dict.fromkeys(place for place, _, _ in wanted):
        mine = [one for one in wanted if one[0] == namespace]
        missing = [one for one in mine if not _may(subject, *one)]
        where = f"in namespace {namespace}" if namespace else "in the cluster"
        for resource in dict.fromkeys(resource for _, resource, _ in missing):
            verbs = [verb for _, one, verb in missing if one == resource]
            yield fail(
                f"you may not {'/'.join(verbs)} {resource} {where}",
                role_line(resource.group, resource.plural, *verbs, is_cluster_wide=not namespace),
            )
        if not missing:
            names = ", ".join(dict.fromkeys(resource.plural for _, resource, _ in mine))
            yield ok(f"you may {'/'.join(_APPLY)} {names} {where}")
    yield from _to_watch(subject)
    if not _may(subject, None, NODES, "list"):
        yield warn(
            "you may not list nodes, so checks of nodes are not possible",
            role_line(NODES.group, NODES.plural, "list", is_cluster_wide=True),
        )


def _wanted(subject: Subject) -> list[tuple[str | None, Resource, str]]:
    """Namespace, resource and verb of each permission that submitting needs."""
    found: dict[tuple[str | None, Resource], None] = {}
    for item in subject.objects:
        resource = subject.cluster.find(str(item.get("apiVersion")), str(item.get("kind")))
        if resource is not None and not is_setup(item, resource):
            found[(namespace_of(item) or subject.namespace, resource)] = None
    if not found:
        found[(subject.namespace, JOBS)] = None
    return [(*one, verb) for one in found for verb in _APPLY]


def _to_watch(subject: Subject) -> Iterator[CheckResult]:
    for resource in (PODS, EVENTS, JOBS):
        if not _may(subject, subject.namespace, resource, "watch"):
            yield warn(
                f"you may not watch {resource} in namespace {subject.namespace}",
                f"{role_line(resource.group, resource.plural, 'watch')} "
                "`outlast doctor --role watch` prints all of them.",
            )


def _may(subject: Subject, namespace: str | None, resource: Resource, verb: str) -> bool:
    return subject.cluster.can_i(verb, resource, namespace)
