"""Finding, stopping and resuming runs, and following their logs from Pod to Pod."""

import threading
from typing import Any, cast

import pytest

from outlast.cluster.connection.api import Cluster
from outlast.cluster.resources import JOBSETS, Object
from outlast.cluster.runs.logs import LogFollower
from outlast.cluster.runs.selection import RunNotFound, find_by_url, select_run, selection_of
from outlast.cluster.runs.stopping import (
    Change,
    WorkloadNotCreated,
    resume_run,
    stop_run,
    wait_until_stopped,
)
from tests.unit.cluster.fake_cluster import WORKLOADS, FakeCluster, cut_off
from tests.unit.cluster.watched_runs import job, pod


def cluster_of(*objects: Object, **more: Any) -> tuple[FakeCluster, Cluster]:
    fake = FakeCluster(*objects, **more)
    return fake, cast("Cluster", fake)


def workload(*, active: bool = True) -> Object:
    owner = [{"uid": "job", "controller": True}]
    metadata = {"name": "job-tiny", "namespace": "team-a", "uid": "w", "ownerReferences": owner}
    return {"kind": "Workload", "metadata": metadata, "spec": {"active": active}}


def labeled(number: int, phase: str, **status: Any) -> Object:
    made = pod(number, phase, **status)
    made["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "tiny"}
    return made


def running(number: int) -> Object:
    return labeled(
        number, "Running", containerStatuses=[{"name": "main", "state": {"running": {}}}]
    )


def ended(number: int) -> Object:
    state = {"terminated": {"exitCode": 75}}
    return labeled(number, "Failed", containerStatuses=[{"name": "main", "state": state}])


def test_a_job_is_suspended_and_resumed_and_repeating_changes_nothing() -> None:
    fake, cluster = cluster_of(job())
    selection = select_run(cluster, "tiny", "team-a")

    assert [one.change for one in stop_run(cluster, selection, dry_run=True)] == [Change.STOPPED]
    assert fake.patches == []
    assert [one.change for one in stop_run(cluster, selection)] == [Change.STOPPED]
    assert [one.change for one in stop_run(cluster, selection)] == [Change.UNCHANGED]
    assert [one.change for one in resume_run(cluster, selection)] == [Change.RESUMED]
    assert [one.change for one in resume_run(cluster, selection)] == [Change.UNCHANGED]

    assert fake.patches == [
        ("Job", "tiny", {"suspend": True}),
        ("Job", "tiny", {"suspend": False}),
    ]


def test_a_job_of_kueue_is_deactivated_and_its_suspend_left_alone() -> None:
    queued = job(suspend=False)
    queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
    fake, cluster = cluster_of(queued, workload(), served=(WORKLOADS,))
    selection = select_run(cluster, "tiny", "team-a")

    assert [one.title for one in stop_run(cluster, selection)] == ["Workload 'job-tiny'"]
    assert [one.change for one in stop_run(cluster, selection)] == [Change.UNCHANGED]
    assert [one.change for one in resume_run(cluster, selection)] == [Change.RESUMED]

    assert fake.patches == [
        ("Workload", "job-tiny", {"active": False}),
        ("Workload", "job-tiny", {"active": True}),
    ]


def test_a_queued_job_without_a_workload_is_not_started_past_kueue() -> None:
    queued = job(suspend=True)
    queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
    fake, cluster = cluster_of(queued, served=(WORKLOADS,))

    [change] = resume_run(cluster, select_run(cluster, "tiny", "team-a"))

    assert (change.change, fake.patches) == (Change.UNCHANGED, [])


def test_a_queued_job_that_kueue_would_still_start_is_not_called_stopped() -> None:
    """It is suspended until Kueue has seen it, which looks as if it had been stopped."""
    queued = job(suspend=True)
    queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
    _, cluster = cluster_of(queued, served=(WORKLOADS,))

    with pytest.raises(WorkloadNotCreated, match="Kueue has not created its Workload"):
        list(stop_run(cluster, select_run(cluster, "tiny", "team-a")))


def test_suspend_that_kueue_has_set_is_left_alone_without_a_workload_too() -> None:
    queued = job(suspend=False)
    queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
    queued["metadata"]["managedFields"] = [
        {"manager": "kueue", "fieldsV1": {"f:spec": {"f:suspend": {}}}}
    ]
    fake, cluster = cluster_of(queued, served=(WORKLOADS,))
    selection = select_run(cluster, "tiny", "team-a")

    with pytest.raises(WorkloadNotCreated):
        list(stop_run(cluster, selection))
    [change] = resume_run(cluster, selection)

    assert (change.note, fake.patches) == ("it is not suspended", [])


def test_a_queued_job_without_kueue_is_stopped_and_resumed_as_any_other() -> None:
    queued = job(suspend=True)
    queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
    fake, cluster = cluster_of(queued)
    selection = select_run(cluster, "tiny", "team-a")

    [stopped] = stop_run(cluster, selection)
    [resumed] = resume_run(cluster, selection)

    assert (stopped.change, resumed.change) == (Change.UNCHANGED, Change.RESUMED)
    assert fake.patches == [("Job", "tiny", {"suspend": False})]


def test_a_job_set_is_stopped_as_a_whole() -> None:
    metadata = {"name": "big", "namespace": "team-a", "uid": "set"}
    fake, cluster = cluster_of({"kind": "JobSet", "metadata": metadata}, served=(JOBSETS,))

    selection = select_run(cluster, "big", "team-a")
    list(stop_run(cluster, selection))

    assert fake.patches == [("JobSet", "big", {"suspend": True})]
    assert selection.pods.labels == "jobset.sigs.k8s.io/jobset-name=big"


def test_the_jobs_of_a_workload_in_parts_are_stopped_together() -> None:
    parts = []
    for index in range(3):
        part = job()
        part["metadata"] |= {"name": f"tiny-{index}", "uid": f"job-{index}"}
        parts.append(part)
    fake, cluster = cluster_of(*parts)

    list(stop_run(cluster, select_run(cluster, "tiny", "team-a")))

    assert [name for _, name, _ in fake.patches] == ["tiny-0", "tiny-1", "tiny-2"]


def test_a_run_that_has_ended_is_left_alone() -> None:
    done = {**job(), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    fake, cluster = cluster_of(done)

    [change] = stop_run(cluster, select_run(cluster, "tiny", "team-a"))

    assert (change.change, change.note, fake.patches) == (Change.ENDED, "it has finished", [])


def test_a_run_is_found_by_the_url_it_saves_to() -> None:
    _, cluster = cluster_of(job())

    found = find_by_url(cluster, "gs://lab-runs/tiny/", "team-a")

    assert found is not None and found.name == "tiny"
    assert find_by_url(cluster, "gs://lab-runs/other", "team-a") is None


@pytest.mark.parametrize("name", ["nosuch", "a,b=c", "../x", ""])
def test_a_run_that_does_not_exist_names_those_that_do(name: str) -> None:
    _, cluster = cluster_of(job())

    with pytest.raises(RunNotFound) as caught:
        select_run(cluster, name, "team-a")

    assert caught.value.hint
    assert "tiny" in caught.value.hint or "name" in str(caught.value)


def test_stopping_waits_until_every_pod_has_ended() -> None:
    fake, cluster = cluster_of(job(), running(1))
    selection = selection_of("tiny", "team-a", kind="Job")
    left: list[tuple[str, ...]] = []

    def wait() -> None:
        left.append(wait_until_stopped(cluster, selection, timeout_seconds=600))

    thread = threading.Thread(target=wait)
    thread.start()
    fake.change(ended(1))
    thread.join()

    assert left == [()]


def test_stopping_names_the_pods_that_are_left_when_time_is_up() -> None:
    fake, cluster = cluster_of(job(), running(1))
    selection = selection_of("tiny", "team-a", kind="Job")
    is_over = threading.Event()

    def change() -> None:
        while not is_over.wait(0.01):
            fake.change(running(1))

    thread = threading.Thread(target=change)
    thread.start()
    left = wait_until_stopped(
        cluster, selection, timeout_seconds=600, now=lambda: 1e6 if fake.is_listed else 0.0
    )
    is_over.set()
    thread.join()

    assert left == ("tiny-1",)


def stamped(second: int, nanos: int, text: str) -> bytes:
    return f"2026-11-16T11:00:{second:02}.{nanos:09}Z {text}".encode()


def test_a_log_goes_on_where_it_was_cut_and_then_with_the_next_pod() -> None:
    fake, cluster = cluster_of(job(), running(1))
    fake.logs_of["tiny-1"] = [
        [stamped(1, 5, "one"), stamped(1, 6, "two \x1b[31m"), cut_off()],
        # From the second of the last line on: what has arrived already is not repeated.
        [stamped(1, 5, "one"), stamped(1, 6, "two \x1b[31m"), stamped(2, 0, "three")],
    ]
    fake.logs_of["tiny-2"] = [[stamped(9, 0, "four")]]
    selection = selection_of("tiny", "team-a", kind="Job")
    follower = LogFollower(cluster, selection)
    seen = []

    with follower:
        for line in follower.lines():
            seen.append((line.pod, line.data))
            if line.data == b"three":
                fake.change(ended(1))
                fake.change(running(2))
            if line.data == b"four":
                fake.change(ended(2))
                done = {"conditions": [{"type": "Complete", "status": "True"}]}
                fake.change({**job(), "status": done})

    assert [one for one in seen if one[1]] == [
        ("tiny-1", b"one"),
        ("tiny-1", b"two \x1b[31m"),
        ("tiny-1", b"three"),
        ("tiny-2", b"four"),
    ]
    assert "2026-11-16T11:00:01Z" in fake.since


def test_following_can_be_left_at_any_time() -> None:
    fake, cluster = cluster_of(job(), running(1))
    fake.logs_of["tiny-1"] = [[stamped(1, 1, "one")]]

    with LogFollower(cluster, selection_of("tiny", "team-a", kind="Job")) as follower:
        first = next(follower.lines())

    assert first.note == "Pod tiny-1 on gke-spot-1"
