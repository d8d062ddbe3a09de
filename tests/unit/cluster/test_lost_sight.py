"""What is shown when objects vanish between two looks, or the cluster is out of sight."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from outlast.cluster.connection.api import ClusterReader, Update, UpdateKind
from outlast.cluster.connection.client import connect
from outlast.cluster.diagnosis.engine import endings
from outlast.cluster.diagnosis.facts import job_fact
from outlast.cluster.errors import ClusterError, ClusterUnreachable
from outlast.cluster.resources import JOBS, Object, Query
from outlast.cluster.runs.logs import LogFollower
from outlast.cluster.runs.selection import select_run, selection_of
from outlast.cluster.runs.target import RunTarget
from outlast.cluster.submitting.waiting import WaitFor, wait_for
from outlast.cluster.watching.board import board_of
from outlast.cluster.watching.join import Retries, is_alive, retries_of
from outlast.cluster.watching.picture import ClusterPicture, RunKey
from outlast.cluster.watching.session import RunCluster, WatchSession
from outlast.cluster.watching.sources import run_sources
from outlast.cluster.watching.view import RunSources, RunState, progress_of, view_of
from outlast.journal.events import AttemptExited, AttemptStarted
from outlast.journal.reader import AttemptRecord
from outlast.journal.run_journal import journal_of
from tests.patience import PATIENCE_SECONDS, eventually
from tests.unit.cli.journal_files import START, write_journal
from tests.unit.cluster.fake_cluster import FakeCluster
from tests.unit.cluster.served_runs import NAMESPACE, Served, named_job, served
from tests.unit.cluster.snapshots import snapshot_of
from tests.unit.cluster.test_runs import ended, running, stamped
from tests.unit.cluster.watched_runs import job, placed, pod, records_of, stamp, three_attempts

COMPLETE = {"conditions": [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}


@pytest.mark.parametrize(
    ("status", "state"), [(COMPLETE, RunState.FINISHED), (FAILED, RunState.FAILED)]
)
def test_a_job_that_is_deleted_right_after_its_end_has_ended(
    status: Object, state: RunState, tmp_path: Path
) -> None:
    """As with ttlSecondsAfterFinished: 0. Both changes come before the next look at the screen."""
    with served(tmp_path) as cluster, connect(kubeconfig=cluster.kubeconfig) as client:
        cluster.add_job()
        watched = RunCluster(
            client, select_run(client, "tiny", NAMESPACE), cut_streams=client.cut_streams
        )
        with WatchSession(RunTarget(name="tiny"), cluster=watched, namespace=NAMESPACE) as session:
            session.collect(20.0)
            cluster.api.store.merge(JOBS, NAMESPACE, "tiny", {"status": status}, "controller")
            cluster.api.store.remove(JOBS, NAMESPACE, "tiny")

            def is_gone() -> bool:
                session.wait(0.05)
                return not list(watched.picture.runs)

            eventually(is_gone, "the deletion was seen")
            view = session.view()

    assert view.state is state


def test_the_back_off_after_an_eviction_that_deleted_its_pod_is_known_from_the_journal(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as cluster:
        cluster.api.store.controllers = []
        cluster.add_job()
        now = datetime.now(UTC)
        begun = AttemptStarted(at=now, attempt=1, host="node", pid=1, pod_uid="uid-1")
        events = (begun, AttemptExited(at=now, exit_code=75, step=0))
        url = write_journal(tmp_path / "run", [AttemptRecord(attempt=1, events=events)])
        done = cluster.outlast("watch", "tiny", "--once", "--format", "json", "--journal", url)

    assert done.json["why"]["cause"] == "P32"
    assert "waits for its back-off after 1 attempt: " in done.json["why"]["summary"]
    assert done.json["why"]["evidence"][0]["where"] == "journal"


def test_the_last_events_of_a_run_are_read_after_it_has_ended(tmp_path: Path) -> None:
    """They are newer than the last look, and the run must not be taken for unfinished."""
    run = three_attempts()
    url = write_journal(tmp_path / "run", records_of(run))
    with served(tmp_path) as cluster, connect(kubeconfig=cluster.kubeconfig) as client:
        cluster.add_job()
        watched = RunCluster(
            client, select_run(client, "tiny", NAMESPACE), cut_streams=client.cut_streams
        )
        target = RunTarget(name="tiny", url=url)
        with WatchSession(target, cluster=watched, namespace=NAMESPACE) as session:
            session.collect(20.0)
            write_journal(tmp_path / "run", placed(run.finish()))
            cluster.api.store.merge(JOBS, NAMESPACE, "tiny", {"status": COMPLETE}, "controller")

            def is_over() -> bool:
                session.wait(0.05)
                return session.view().state is RunState.FINISHED

            eventually(is_over, "the end was seen")
            before, after = session.view(), session.final_view(PATIENCE_SECONDS)

    assert before.progress is not None and after.progress is not None
    assert (before.progress.is_finished, after.progress.is_finished) == (False, True)
    assert before.alarms == after.alarms == ()


def test_a_job_that_is_deleted_while_it_runs_is_gone_and_one_made_again_is_there() -> None:
    fake = FakeCluster(job())
    selection = selection_of("tiny", "team-a", kind="Job")
    sources = run_sources(cast("ClusterReader", fake), selection)
    picture = ClusterPicture(sources.queries, has_kueue=False)
    key = RunKey(namespace="team-a", name="tiny")

    def report(kind: UpdateKind, item: Object) -> None:
        fact = (item["metadata"]["uid"], job_fact(item))
        picture.take(Update(kind=kind, query=selection.jobs, objects=(fact,)), START)

    report(UpdateKind.CHANGED, job())
    report(UpdateKind.DELETED, job())
    assert (list(picture.runs), list(picture.over)) == ([], [])

    over = {**job(), "status": FAILED}
    report(UpdateKind.CHANGED, over)
    report(UpdateKind.DELETED, over)
    assert list(picture.over) == [key]
    again = job()
    again["metadata"]["uid"] = "job-2"
    report(UpdateKind.CHANGED, again)
    assert (list(picture.runs), list(picture.over)) == ([key], [])
    assert [one.uid for one in picture.snapshot(key, START).jobs] == ["job-2"]


def test_waiting_for_a_job_that_is_deleted_with_its_end_reports_the_end() -> None:
    item = {**named_job(), "status": COMPLETE}
    item["metadata"]["uid"] = "job"

    class Reader:
        def follow(
            self, query: Query, read: Callable[[Object], Any], *, stop: threading.Event
        ) -> Iterator[Update[Any]]:
            yield Update(kind=UpdateKind.LISTED, query=query, objects=(named_job(),))
            yield Update(kind=UpdateKind.DELETED, query=query, objects=(item,))

    result = wait_for(cast("ClusterReader", Reader()), [(JOBS, item)], WaitFor.FINISHED)

    assert result.is_success and result.deleted == ()


def test_an_attempt_that_started_while_the_cluster_was_away_is_not_counted_as_evicted() -> None:
    """The journal is newer than what is known of the Pods, so its newest Pod is not known."""
    journal = journal_of("gs://lab-runs/tiny", records_of(three_attempts()))
    old = snapshot_of([job(), pod(2, "Running")], [], {})

    for snapshot, evictions in ((old, 3), (replace(old, is_current=False), 2)):
        progress = progress_of([journal], snapshot)
        assert progress is not None and progress.evictions == evictions
        assert is_alive(journal, snapshot) is (evictions == 2)
    ended_pod = snapshot_of([job(), pod(3, "Failed")], [], {})
    assert not is_alive(journal, replace(ended_pod, is_current=False))


def test_a_picture_without_a_connection_is_not_current(tmp_path: Path) -> None:
    fake = FakeCluster(job())
    selection = selection_of("tiny", "team-a", kind="Job")
    picture = ClusterPicture(run_sources(cast("ClusterReader", fake), selection).queries)
    key = RunKey(namespace="team-a", name="tiny")
    assert not picture.snapshot(key, START).is_current and not picture.has_required

    for query in picture.sources:
        picture.take(Update(kind=UpdateKind.LISTED, query=query), START)
    assert picture.snapshot(key, START).is_current and picture.has_required
    lost: Update[Any] = Update(
        kind=UpdateKind.LOST, query=selection.pods, problem=ClusterUnreachable("It is away.")
    )
    picture.take(lost, START)

    assert not picture.snapshot(key, START).is_current


def test_nothing_is_concluded_before_the_pods_were_listed() -> None:
    """Without them the newest attempt would be shown as killed, and the run as waiting."""

    class Slow(FakeCluster):
        def follow(
            self,
            query: Query,
            read: Callable[[Object], Any],
            *,
            stop: threading.Event | None = None,
        ) -> Iterator[Update[Any]]:
            if query.resource.kind == "Pod":
                yield Update(kind=UpdateKind.LOST, query=query, problem=ClusterUnreachable("Away."))
                assert stop is not None
                stop.wait()
            else:
                yield from super().follow(query, read, stop=stop)

    watched = RunCluster(
        cast("ClusterReader", Slow(job())), selection_of("tiny", "team-a", kind="Job")
    )
    with WatchSession(RunTarget(name="tiny"), cluster=watched, namespace="team-a") as session:
        with pytest.raises(ClusterError, match="Away"):
            session.collect(1.0)


def exited(number: int, code: int, at: datetime) -> Object:
    state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": stamp(at)}}
    return pod(number, "Failed", containerStatuses=[{"name": "main", "state": state}])


def suspended(since: datetime, failed: int) -> Object:
    condition = {"type": "Suspended", "status": "True", "lastTransitionTime": stamp(since)}
    return {**job(suspend=True), "status": {"failed": failed, "conditions": [condition]}}


def test_failures_from_before_a_job_was_stopped_stay_failures_of_the_program() -> None:
    noon = START + timedelta(hours=2)
    objects = [
        suspended(noon, failed=1),
        exited(1, 1, noon - timedelta(hours=1)),
        exited(2, 143, noon + timedelta(seconds=20)),
    ]
    snapshot = snapshot_of(objects, [], {})

    found = endings(snapshot)
    retries = retries_of(snapshot, found)

    assert [(one.diagnosis.cause, one.is_counted) for one in found] == [
        ("E21", True),
        ("E13", False),
    ]
    assert retries == Retries(used=1, limit=13, is_per_index=False, by_nodes=0, by_program=1)


def retries_row(*objects: Object) -> str:
    snapshot = snapshot_of([*objects], [], {})
    view = view_of(RunSources(name="tiny", namespace="", now=START, snapshot=snapshot))
    return next(row.text for row in board_of(view).rows if row.label == "retries")


def test_nobody_is_named_if_more_pods_seem_to_count_than_the_job_has_counted() -> None:
    """As after a resume: that a Pod was ended by the suspension is not visible any more."""
    objects = [exited(number, 143, START) for number in (1, 2)]

    row = retries_row({**job(), "status": {"failed": 1}}, *objects)

    assert row == "1 of 13 used: 1 of unknown cause"


def test_the_retries_of_all_indexes_are_not_shown_as_a_part_of_the_limit_of_one() -> None:
    row = retries_row(
        {**job(backoffLimitPerIndex=3), "status": {"failed": 5}},
        *(exited(number, 1, START) for number in range(1, 6)),
    )

    assert row == "5 used (each index has 3): 5 by the program"


class Relisting(FakeCluster):
    """Reports a new list instead of changes, as after an expired resource version."""

    def __init__(self, *objects: Object) -> None:
        super().__init__(*objects)
        self.lists: dict[str, list[list[Object]]] = {}
        self.may_go_on = threading.Event()

    def follow(
        self, query: Query, read: Callable[[Object], Any], *, stop: threading.Event | None = None
    ) -> Iterator[Update[Any]]:
        for number, found in enumerate(self.lists[query.resource.kind]):
            if number == 1:
                self.may_go_on.wait()
            yield Update(
                kind=UpdateKind.LISTED, query=query, objects=tuple(read(one) for one in found)
            )
        assert stop is not None
        stop.wait()


def test_a_log_is_not_lost_if_its_pod_came_and_ended_between_two_lists() -> None:
    """And the Job that is gone since then does not keep the follower waiting for ever."""
    fake = Relisting()
    second, third = ended(2), ended(3)
    fake.lists = {
        "Pod": [[running(1)], [ended(1), second, third]],
        "Job": [[job()], []],
    }
    for number in (1, 2, 3):
        fake.logs_of[f"tiny-{number}"] = [[stamped(number, 0, f"line {number}")]]
    follower = LogFollower(cast("ClusterReader", fake), selection_of("tiny", "team-a", kind="Job"))
    seen = []

    with follower:
        for line in follower.lines():
            if line.data:
                seen.append(line.data)
                fake.may_go_on.set()

    assert seen == [b"line 1", b"line 2", b"line 3"]


def test_two_runs_of_one_name_are_told_apart_by_namespace(tmp_path: Path) -> None:
    with served(tmp_path) as cluster:
        _two_runs(cluster)
        shown = cluster.outlast("watch", "--all", "--once", "--format", "json").json["runs"]
        states = {
            namespace: cluster.outlast(
                "watch", "tiny", "--once", "--format", "json", "--namespace", namespace
            ).json["state"]
            for namespace in ("team-a", "team-b")
        }
        cluster.outlast("stop", "tiny", "--namespace", "team-b", "--journal", tmp_path)
        jobs = cluster.api.store.all(JOBS)

    assert {(one["namespace"], one["state"]) for one in shown} == {
        ("team-a", "running"),
        ("team-b", "failed"),
    }
    assert states == {"team-a": "running", "team-b": "failed"}
    assert [one["spec"].get("suspend") for one in jobs] == [False, False]


def _two_runs(cluster: Served) -> None:
    cluster.add_job()
    other = named_job()
    other["metadata"]["namespace"] = "team-b"
    cluster.api.store.put(JOBS, {**other, "status": FAILED})
