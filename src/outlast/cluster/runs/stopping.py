"""Stop and resume a run. Both may be repeated, and killed at any point.

A Job or JobSet is suspended, which gives its Pods their grace period to save. One that Kueue
manages is deactivated instead, because Kueue owns `suspend`.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from outlast.cluster.connection.api import Cluster, Update, UpdateKind
from outlast.cluster.connection.feed import Feed
from outlast.cluster.diagnosis.causes.endings import has_ended
from outlast.cluster.diagnosis.facts import PodFact, pod_fact, queue_of
from outlast.cluster.diagnosis.fields import map_of, maps_of, text_of
from outlast.cluster.errors import ClusterError, ClusterUnreachable, shown
from outlast.cluster.resources import JOBS, JOBSETS, Object, Query, Resource, name_of, title_of
from outlast.cluster.runs.selection import RunSelection
from outlast.cluster.submitting.state import ending_of
from outlast.cluster.submitting.submitting import is_kueue

KUEUE_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")


class WorkloadNotCreated(ClusterError):
    """Kueue has not created the Workload of a queued Job yet, so it would still start the Job."""

    exit_code = 1


class Change(StrEnum):
    """What was done with an object, or would be."""

    STOPPED = "stopped"
    RESUMED = "resumed"
    UNCHANGED = "unchanged"
    ENDED = "ended"


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedObject:
    """An object and what was done with it. `note` is for the user."""

    title: str
    change: Change
    note: str = ""


def stop_run(
    cluster: Cluster, selection: RunSelection, *, dry_run: bool = False
) -> Iterator[ChangedObject]:
    """Suspend all Jobs of a run, or its JobSet. Does not wait for its Pods."""
    yield from _switched(cluster, selection, is_stop=True, dry_run=dry_run)


def resume_run(
    cluster: Cluster, selection: RunSelection, *, dry_run: bool = False
) -> Iterator[ChangedObject]:
    """Let all Jobs of a run, or its JobSet, run again."""
    yield from _switched(cluster, selection, is_stop=False, dry_run=dry_run)


def wait_until_stopped(
    cluster: Cluster,
    selection: RunSelection,
    *,
    timeout_seconds: float,
    cut_streams: Callable[[], object] = lambda: None,
    now: Callable[[], float] = time.monotonic,
) -> tuple[str, ...]:
    """Wait until no Pod of the run may still run. Returns those that may, if time ran out."""
    until = now() + timeout_seconds
    pods: dict[str, PodFact] | None = None
    with Feed(cluster, {selection.pods: pod_fact}, cut_streams=cut_streams) as feed:
        while pods is None or any(not has_ended(pod) for pod in pods.values()):
            update = feed.next(max(0.0, until - now()))
            if update is None and pods is None:
                raise ClusterUnreachable(
                    "Whether its Pods have ended is not known: the cluster did not list them.",
                    hint="It is being stopped. Run the same command again to wait for it.",
                )
            if update is None:
                known = (pods or {}).values()
                return tuple(sorted(pod.name for pod in known if not has_ended(pod)))
            if update.query in feed.ended:
                raise feed.ended[update.query]
            pods = _updated(pods, update)
    return ()


def _updated(pods: dict[str, PodFact] | None, update: Update[PodFact]) -> dict[str, PodFact] | None:
    found = {pod.uid: pod for pod in update.objects}
    if update.kind is UpdateKind.LISTED:
        return found
    if update.kind is UpdateKind.DELETED:
        return {uid: pod for uid, pod in (pods or {}).items() if uid not in found}
    return {**pods, **found} if pods is not None else None


def _switched(
    cluster: Cluster, selection: RunSelection, *, is_stop: bool, dry_run: bool
) -> Iterator[ChangedObject]:
    targets = list(_targets(cluster, selection))
    if not targets:
        raise ClusterError(
            f"{shown(selection.name)!r} has no Job any more.", hint="Submit it again."
        )
    workloads = _workloads(cluster, selection.namespace)
    for resource, item in targets:
        workload = workloads.get(item["metadata"]["uid"]) if workloads is not None else None
        if ending_of(item) is not None:
            yield _ended(item)
        elif workload is not None:
            yield _switch_workload(cluster, workload, is_stop=is_stop, dry_run=dry_run)
        elif workloads is not None and _is_left_to_kueue(item):
            yield _left_to_kueue(item, is_stop=is_stop)
        else:
            yield _switch(cluster, resource, item, is_stop=is_stop, dry_run=dry_run)


def _targets(cluster: Cluster, selection: RunSelection) -> Iterator[tuple[Resource, Object]]:
    query = selection.job_sets or selection.jobs
    resource = JOBSETS if selection.job_sets is not None else JOBS
    for item in cluster.list(query):
        item.setdefault("kind", resource.kind)
        yield resource, item


def _workloads(cluster: Cluster, namespace: str) -> dict[str, tuple[Resource, Object]] | None:
    """Kueue's Workloads by the UID of what they belong to, None if there is no Kueue."""
    served = (cluster.find(version, "Workload") for version in KUEUE_VERSIONS)
    resource = next((one for one in served if one is not None), None)
    if resource is None:
        return None
    found = {}
    for item in cluster.list(Query(resource=resource, namespace=namespace)):
        item.setdefault("kind", resource.kind)
        for owner in maps_of(map_of(item, "metadata"), "ownerReferences"):
            found[str(owner.get("uid"))] = (resource, item)
    return found


def _is_left_to_kueue(item: Object) -> bool:
    """Whether Kueue decides about `suspend`, although there is no Workload.

    It has set the field, or will: a queued Job is suspended until it is admitted.
    """
    if not queue_of(item):
        return False
    return _is_suspended(item) or any(
        is_kueue(text_of(one, "manager"))
        for one in maps_of(map_of(item, "metadata"), "managedFields")
        if "f:suspend" in map_of(map_of(one, "fieldsV1"), "f:spec")
    )


def _left_to_kueue(item: Object, *, is_stop: bool) -> ChangedObject:
    if is_stop:
        # It may look stopped, but Kueue would start it.
        raise WorkloadNotCreated(
            f"{title_of(item)} cannot be stopped yet: Kueue has not created its Workload.",
            hint="Run the same command again in a moment. If it persists, check that Kueue "
            "runs and manages such Jobs.",
        )
    note = "it is in a queue: Kueue starts it" if _is_suspended(item) else "it is not suspended"
    return ChangedObject(title=title_of(item), change=Change.UNCHANGED, note=note)


def _switch(
    cluster: Cluster, resource: Resource, item: Object, *, is_stop: bool, dry_run: bool
) -> ChangedObject:
    if _is_suspended(item) == is_stop:
        note = "it is suspended already" if is_stop else "it is not suspended"
        return ChangedObject(title=title_of(item), change=Change.UNCHANGED, note=note)
    if not dry_run:
        namespace = item["metadata"]["namespace"]
        changes = {"metadata": {"uid": item["metadata"]["uid"]}, "spec": {"suspend": is_stop}}
        cluster.patch(resource, name_of(item), changes, namespace)
    return _changed(item, is_stop=is_stop)


def _is_suspended(item: Object) -> bool:
    return map_of(item, "spec").get("suspend") is True


def _switch_workload(
    cluster: Cluster, found: tuple[Resource, Object], *, is_stop: bool, dry_run: bool
) -> ChangedObject:
    resource, item = found
    is_active = map_of(item, "spec").get("active") is not False
    if is_active != is_stop:
        note = "it is deactivated already" if is_stop else "it is active"
        return ChangedObject(title=title_of(item), change=Change.UNCHANGED, note=note)
    if not dry_run:
        changes = {"metadata": {"uid": item["metadata"]["uid"]}, "spec": {"active": not is_stop}}
        cluster.patch(resource, name_of(item), changes, item["metadata"]["namespace"])
    return _changed(item, is_stop=is_stop)


def _changed(item: Object, *, is_stop: bool) -> ChangedObject:
    change = Change.STOPPED if is_stop else Change.RESUMED
    return ChangedObject(title=title_of(item), change=change)


def _ended(item: Object) -> ChangedObject:
    ending = ending_of(item)
    assert ending is not None
    note = "it has finished" if ending.is_success else f"it has failed ({shown(ending.reason)})"
    return ChangedObject(title=title_of(item), change=Change.ENDED, note=note)
