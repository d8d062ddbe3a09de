"""Which objects of a cluster belong to a run, by its name."""

from collections.abc import Iterator
from dataclasses import dataclass

from outlast.cluster.connection.api import ClusterReader
from outlast.cluster.diagnosis.facts import (
    APP_LABEL,
    JOB_SET_LABEL,
    MANAGER,
    MANAGER_LABEL,
    JobFact,
    job_fact,
)
from outlast.cluster.errors import (
    ApiRefusal,
    ClusterError,
    forbidden_error,
    is_forbidden,
    shown,
)
from outlast.cluster.resources import JOBS, JOBSETS, PODS, Query, name_of

_JOB_LABEL = "batch.kubernetes.io/job-name"
_LISTED_MAX = 8


class RunNotFound(ClusterError):
    """The namespace has no Job or JobSet of this name."""

    exit_code = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSelection:
    """The queries for the objects of one run. `job_sets` is None unless it is a JobSet."""

    name: str
    namespace: str
    jobs: Query
    pods: Query
    job_sets: Query | None = None


def select_run(cluster: ClusterReader, name: str, namespace: str) -> RunSelection:
    """Find a run by the name of its Job, its JobSet, or the workload that it was rendered from."""
    if not name or "/" in name or "," in name:
        raise RunNotFound(
            f"{shown(name, characters_max=100)!r} is not the name of a run.",
            hint="Pass a name, an existing workload file, or a URL such as gs://bucket/run.",
        )
    if _has_job_set(cluster, name, namespace):
        return selection_of(name, namespace, kind=JOBSETS.kind)
    labeled = Query(resource=JOBS, namespace=namespace, labels=f"{APP_LABEL}={name}")
    try:
        if cluster.get(JOBS, name, namespace) is not None:
            return selection_of(name, namespace, kind=JOBS.kind)
        if next(iter(cluster.list(labeled)), None) is not None:
            return selection_of(name, namespace, kind="")
    except ApiRefusal as refusal:
        raise forbidden_error(labeled, refusal) from refusal
    raise _not_found(cluster, name, namespace)


def _has_job_set(cluster: ClusterReader, name: str, namespace: str) -> bool:
    if cluster.find(JOBSETS.api_version, JOBSETS.kind) is None:
        return False
    try:
        return cluster.get(JOBSETS, name, namespace) is not None
    except ApiRefusal as refusal:
        if is_forbidden(refusal):
            return False
        raise


def selection_of(name: str, namespace: str, *, kind: str) -> RunSelection:
    """The queries for a run that is a Job, a JobSet, or several Jobs with the label of one name."""
    if kind == JOBSETS.kind:
        labels = f"{JOB_SET_LABEL}={name}"
        by_name = f"metadata.name={name}"
        return RunSelection(
            name=name,
            namespace=namespace,
            jobs=Query(resource=JOBS, namespace=namespace, labels=labels),
            pods=Query(resource=PODS, namespace=namespace, labels=labels),
            job_sets=Query(resource=JOBSETS, namespace=namespace, fields=by_name),
        )
    if kind == JOBS.kind:
        return RunSelection(
            name=name,
            namespace=namespace,
            jobs=Query(resource=JOBS, namespace=namespace, fields=f"metadata.name={name}"),
            pods=Query(resource=PODS, namespace=namespace, labels=f"{_JOB_LABEL}={name}"),
        )
    labels = f"{APP_LABEL}={name}"
    return RunSelection(
        name=name,
        namespace=namespace,
        jobs=Query(resource=JOBS, namespace=namespace, labels=labels),
        pods=Query(resource=PODS, namespace=namespace, labels=labels),
    )


def find_by_url(cluster: ClusterReader, url: str, namespace: str) -> RunSelection | None:
    """The run whose Pods save to a URL, None if the namespace has none."""
    wanted = url.rstrip("/")
    for job in _our_jobs(cluster, namespace):
        if job.run_url.rstrip("/") == wanted:
            return select_run(cluster, job.app or job.name, namespace)
    return None


def _our_jobs(cluster: ClusterReader, namespace: str) -> Iterator[JobFact]:
    labels = f"{MANAGER_LABEL}={MANAGER}"
    for query in (
        Query(resource=JOBS, namespace=namespace, labels=labels),
        Query(resource=JOBS, namespace=namespace, labels=JOB_SET_LABEL),
    ):
        yield from (job_fact(job) for job in cluster.list(query))


def _not_found(cluster: ClusterReader, name: str, namespace: str) -> RunNotFound:
    try:
        names = [name_of(one) for one in cluster.list(Query(resource=JOBS, namespace=namespace))]
    except ApiRefusal:
        names = []
    listed = ", ".join(shown(one, characters_max=60) for one in sorted(names)[:_LISTED_MAX])
    more = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
    there = f"It has {listed}{more}." if names else "It has no Jobs."
    return RunNotFound(
        f"No run is called {shown(name, characters_max=100)!r} in namespace {namespace!r}.",
        hint=f"{there} Use --namespace for another one, or `outlast submit` to start it.",
    )
