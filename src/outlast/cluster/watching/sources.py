"""What is followed in a cluster: one source for each kind of object.

A source that cannot be read is left out, and says which line of a Role would allow it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from outlast.cluster.connection.api import ClusterReader
from outlast.cluster.diagnosis.facts import (
    MANAGER,
    MANAGER_LABEL,
    event_fact,
    job_fact,
    node_fact,
    pod_fact,
)
from outlast.cluster.diagnosis.fields import map_of, text_of
from outlast.cluster.diagnosis.queue_facts import (
    compute_class_fact,
    job_set_fact,
    provisioning_request_fact,
    workload_fact,
)
from outlast.cluster.resources import EVENTS, JOBS, JOBSETS, NODES, PODS, Object, Query, Resource
from outlast.cluster.runs.selection import RunSelection

Reading = Callable[[Object], tuple[str, Any]]
"""Makes of an object its UID and what is kept of it."""

_OPTIONAL = (
    # The newest version first; older releases serve only the others.
    (("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"), "Workload", workload_fact),
    (
        ("autoscaling.x-k8s.io/v1", "autoscaling.x-k8s.io/v1beta1"),
        "ProvisioningRequest",
        provisioning_request_fact,
    ),
    (("cloud.google.com/v1",), "ComputeClass", compute_class_fact),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """The queries to follow, each with how to read its objects. `has_kueue` by discovery."""

    queries: dict[Query, Reading]
    has_kueue: bool


def run_sources(cluster: ClusterReader, selection: RunSelection) -> Sources:
    """The sources for one run."""
    given: dict[Query, Callable[[Object], Any]] = {
        selection.jobs: job_fact,
        selection.pods: pod_fact,
    }
    if selection.job_sets is not None:
        given[selection.job_sets] = job_set_fact
    return _sources(cluster, given, selection.namespace)


def fleet_sources(cluster: ClusterReader, namespace: str | None) -> Sources:
    """The sources for all runs that Outlast has rendered. None for all namespaces."""
    labels = f"{MANAGER_LABEL}={MANAGER}"
    # The Jobs of a JobSet do not have the label, so all Jobs are followed.
    given: dict[Query, Callable[[Object], Any]] = {
        Query(resource=JOBS, namespace=namespace): job_fact,
        Query(resource=PODS, namespace=namespace, labels=labels): pod_fact,
    }
    if cluster.find(JOBSETS.api_version, JOBSETS.kind) is not None:
        given[Query(resource=JOBSETS, namespace=namespace, labels=labels)] = job_set_fact
    return _sources(cluster, given, namespace)


def _sources(
    cluster: ClusterReader,
    given: dict[Query, Callable[[Object], Any]],
    namespace: str | None,
) -> Sources:
    queries = {query: _keyed(read) for query, read in given.items()}
    queries[Query(resource=EVENTS, namespace=namespace)] = _keyed(event_fact)
    queries[Query(resource=NODES)] = _keyed(node_fact)
    found = list(_served(cluster))
    for resource, read in found:
        of = namespace if resource.is_namespaced else None
        queries[Query(resource=resource, namespace=of)] = _keyed(read)
    return Sources(queries=queries, has_kueue=any(one.kind == "Workload" for one, _ in found))


def _served(cluster: ClusterReader) -> Iterator[tuple[Resource, Callable[[Object], Any]]]:
    for versions, kind, read in _OPTIONAL:
        resources = (cluster.find(version, kind) for version in versions)
        served = next((one for one in resources if one is not None), None)
        if served is not None:
            yield served, read


def _keyed(read: Callable[[Object], Any]) -> Reading:
    def keyed(found: Object) -> tuple[str, Any]:
        return text_of(map_of(found, "metadata"), "uid"), read(found)

    return keyed


def is_required(query: Query) -> bool:
    """Whether nothing can be shown without it."""
    return query.resource.kind in (JOBS.kind, PODS.kind)
