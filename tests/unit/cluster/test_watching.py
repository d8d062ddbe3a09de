"""What a person reads about a run: the board, the join of journal and Pods, and degraded modes."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast._base.terminal import escaped
from outlast.cluster.connection.api import Update, UpdateKind
from outlast.cluster.diagnosis.engine import endings
from outlast.cluster.diagnosis.facts import event_fact, job_fact, pod_fact
from outlast.cluster.diagnosis.snapshot import Snapshot
from outlast.cluster.errors import ApiRefusal, ClusterUnreachable
from outlast.cluster.resources import EVENTS, JOBS, NODES, PODS, Query
from outlast.cluster.runs.final_save import final_save_in
from outlast.cluster.runs.journals import JournalReader, JournalReading
from outlast.cluster.runs.target import reachable_url, read_target
from outlast.cluster.watching.board import board_lines, board_of
from outlast.cluster.watching.estimate import finish_of, remaining_seconds
from outlast.cluster.watching.figures import FinishTimes, NoEstimate
from outlast.cluster.watching.gaps import source_gaps
from outlast.cluster.watching.join import attempt_rows, retries_of
from outlast.cluster.watching.money import money_of
from outlast.cluster.watching.picture import ClusterPicture, RunKey
from outlast.cluster.watching.view import RunSources, RunState, RunView, view_of
from outlast.cluster.watching.view_json import view_json
from outlast.cluster.watching.wording import count, size, span
from outlast.errors import OutlastError
from outlast.journal.run_journal import RunJournal, journal_of
from tests.unit.cli.journal_files import START, Simulated, write_journal
from tests.unit.cluster.snapshots import snapshot_of
from tests.unit.cluster.watched_runs import (
    event,
    job,
    pod,
    records_of,
    shut_down,
    three_attempts,
    unschedulable,
    workload,
)

URL = "gs://lab-runs/tiny"
KEY = RunKey(namespace="team-a", name="tiny")
STOCKOUT = (
    "Node scale up in zones us-central1-a associated with this pod failed: GCE out of resources. "
    "Pod is at risk of not being scheduled."
)


def journal(run: Simulated) -> RunJournal:
    return journal_of(URL, records_of(run))


def view(
    run: Simulated | None, objects: list[dict[str, Any]] | None, *, later: float = 40.0, **more: Any
) -> RunView:
    seconds = (run.clock_seconds if run else 0.0) + later
    now = START + timedelta(seconds=seconds)
    snapshot = None if objects is None else replace(snapshot_of(objects, [], {}), now=now)
    journals = (journal(run),) if run else ()
    is_running = snapshot is not None and any(one.phase == "Running" for one in snapshot.pods)
    finish = (
        finish_of(journals[0], workload(), is_running=is_running, now=now) if journals else None
    )
    return view_of(
        RunSources(
            name="tiny",
            namespace="team-a",
            now=now,
            snapshot=snapshot,
            journals=journals,
            money=money_of(journals, workload()),
            finish=finish,
            url=URL,
            **more,
        )
    )


def lines(shown: RunView) -> list[str]:
    return board_lines(board_of(shown), 100)


def row(shown: RunView, label: str) -> str:
    return next(one.text for one in board_of(shown).rows if one.label == label)


def test_a_running_run_reads_like_this() -> None:
    run = three_attempts()
    ended = START + timedelta(hours=2, minutes=32)

    shown = view(run, [job(), pod(1, "Failed", **shut_down(75, ended)), pod(3, "Running")])

    without_estimate = [line for line in lines(shown) if not line.startswith("finish")]
    assert without_estimate == [
        "tiny  RUNNING for 1 h 2 min" + " " * 50 + "2026-08-21 16:07:27 UTC",
        "namespace team-a · spot g2-standard-24 · attempt 3 · gs://lab-runs/tiny",
        "",
        "steps    620 of 1,440 (43%)",
        "saved    step 600, 10 min ago (15:57), 953.7 MiB",
        "lost     40 steps (about 20 min of work) in 2 evictions: 1 saved in time, 1 without "
        "notice",
        "retries  0 of 13 used; evictions do not count",
        "cost     6.74 USD so far; the same steps on demand: 10.42 USD (35% saved); goodput 85%",
        "",
        "#  started  ended  ran for     how it ended                                   node",
        "3  15:04           1 h 2 min   running                                        gke-spot-3 "
        "us-central…",
        "2  12:42    14:44  2 h 2 min   killed without notice, at least 40 steps lost  gke-spot-2 "
        "us-central…",
        "1  10:00    12:32  2 h 32 min  node shutdown, all work saved with 2.0 s left  gke-spot-1 "
        "us-central…",
    ]
    assert row(shown, "finish").endswith("deadline Aug 22 10:00 UTC: more than 99% likely")


def test_a_waiting_run_says_why_in_one_sentence_and_what_to_do() -> None:
    run = three_attempts()
    run.evict(final_seconds=9)
    now = START + timedelta(seconds=run.clock_seconds + 400)
    refused = {"phase": "Failed", "reason": "NodeAffinity", "message": "Pod was rejected: x"}
    objects = [
        {**job(), "status": {"failed": 1}},
        pod(3, "Failed", **shut_down(75, now - timedelta(seconds=360))),
        {**pod(0, "Failed"), "status": refused},
        pod(4, "Pending", **unschedulable("0/4 nodes are available.", now)),
        event("uid-4", "FailedScaleUp", STOCKOUT, now),
    ]

    shown = view(run, objects, later=400)

    assert shown.state is RunState.WAITING
    assert lines(shown)[0].startswith("tiny  WAITING for 6 min ")
    assert lines(shown)[3:7] == [
        "why      Compute Engine has no such machines left in us-central1-a (out of resources).",
        "         event FailedScaleUp at 16:13: Node scale up in zones us-central1-a associated "
        "with this pod",
        "         failed: GCE out of resources. Pod is at risk of not being scheduled.",
        "next     Use another zone, machine type or tier: `outlast plan` compares them.",
    ]
    assert row(shown, "saved") == "step 620, 6 min ago (16:06), 953.7 MiB, when it was interrupted"
    assert row(shown, "retries") == "1 of 13 used: 1 by nodes"
    assert "refused by the kubelet (NodeAffinity), spent a retry" in "\n".join(lines(shown))


def test_the_journal_alone_is_enough_and_says_so() -> None:
    shown = view(three_attempts(), None, gaps=("Only the journal is shown.",))

    assert shown.state is RunState.UNKNOWN
    assert lines(shown)[0].startswith("tiny  LAST EVENT 40 s ago")
    assert lines(shown)[-1] == "note     Only the journal is shown."
    assert shown.retries is None
    newest = shown.attempts[0]
    assert (newest.is_running, newest.how) == (False, "no end in the journal so far")


def test_the_cluster_alone_is_enough() -> None:
    shown = view(None, [job(), pod(1, "Running")], later=4 * 3600)

    assert (shown.state, shown.progress, shown.money) == (RunState.RUNNING, None, None)
    assert [one.how for one in shown.attempts] == ["running, nothing in the journal yet"]


def test_a_lost_connection_shows_its_age() -> None:
    run = three_attempts()
    as_of = START + timedelta(seconds=run.clock_seconds - 100)

    shown = view(run, [job(), pod(3, "Running")], as_of=as_of)

    assert row(shown, "as of") == "16:05:07 UTC, 2 min ago: the cluster does not answer. Retrying."


def test_a_stopped_run_says_how_to_resume() -> None:
    shown = view(three_attempts(), [job(suspend=True)])

    assert shown.state is RunState.STOPPED
    assert row(shown, "why") == "It was stopped: its Job is suspended."
    assert row(shown, "next") == "outlast resume tiny --namespace team-a"
    assert row(shown, "finish").startswith("if resumed now: ")


def test_a_queued_run_waits_and_is_not_stopped() -> None:
    queued = job(suspend=True)
    queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"

    assert view(None, [queued]).state is RunState.WAITING


def test_a_complete_job_without_an_end_in_the_journal_is_an_alarm() -> None:
    done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-08-21T16:00:00Z"}
    complete = {**job(), "status": {"succeeded": 1, "conditions": [done]}}

    objects = [complete, pod(3, "Succeeded")]

    shown = view(three_attempts(), objects, is_final=True)
    read_before = view(three_attempts(), objects)

    assert shown.state is read_before.state is RunState.FINISHED
    assert "the journal has no end of the run" in row(shown, "ALARM")
    assert read_before.alarms == ()


def test_work_that_a_failure_lost_is_not_called_nothing() -> None:
    failed, quiet = Simulated(step_seconds=30.0), Simulated(step_seconds=30.0)
    quiet.start()
    quiet.work(10)
    failed.start()
    failed.work(20, save_every=15)
    failed.fail("ValueError: NaN")
    failed.start()
    failed.work(1)
    only_failed = row(view(failed, None), "lost")
    failed.kill()
    failed.start()
    failed.work(1)

    assert row(view(quiet, None), "lost") == "nothing: no evictions"
    assert only_failed == "5 steps (about 2 min of work) in 1 failure; no evictions"
    assert row(view(failed, None), "lost") == (
        "6 steps (about 3 min of work) in 1 failure and 1 eviction: 1 without notice"
    )


def test_evictions_are_those_of_the_journal_whatever_pods_are_left() -> None:
    run = three_attempts()

    for objects in ([job()], [job(), pod(3, "Running")], [job(), pod(1, "Failed")]):
        progress = view(run, objects).progress
        assert progress is not None
        # Without its Pod, the newest attempt has been killed too.
        assert progress.evictions == (2 if len(objects) > 1 and "Running" in str(objects) else 3)


def test_attempts_are_joined_with_pods_by_uid_not_by_name() -> None:
    run = three_attempts()
    other = pod(3, "Running")
    other["metadata"]["uid"] = "another"
    snapshot = snapshot_of([job(), other], [], {})

    rows = attempt_rows([journal(run)], snapshot, endings(snapshot))

    assert [(one.number, one.is_running) for one in rows] == [
        (None, True),
        (3, False),
        (2, False),
        (1, False),
    ]


def test_retries_are_shared_out_between_nodes_and_the_program() -> None:
    def exited(number: int, code: int, reason: str) -> dict[str, Any]:
        ended = {"terminated": {"exitCode": code, "reason": reason}}
        return pod(number, "Failed", containerStatuses=[{"name": "main", "state": ended}])

    objects = [
        {**job(), "status": {"failed": 5}},
        exited(1, 1, "Error"),
        exited(2, 137, "OOMKilled"),
        exited(3, 137, "ContainerStatusUnknown"),
        pod(4, "Failed", reason="OutOfcpu", message="Pod was rejected: x"),
    ]
    snapshot = snapshot_of(objects, [], {})

    retries = retries_of(snapshot, endings(snapshot))

    assert retries is not None
    assert (retries.used, retries.by_nodes, retries.by_program, retries.by_unknown) == (5, 2, 2, 1)


def test_hostile_texts_are_escaped_and_cut() -> None:
    evil = "\x1b]0;owned\x07<script>\u202e" + "x" * 250_000
    objects = [
        job(),
        pod(4, "Pending", **unschedulable(evil, START)),
        event("uid-4", "FailedScaleUp", evil, START),
    ]
    hostile = {**objects[0], "metadata": {**objects[0]["metadata"], "name": evil}}

    for given in (objects, [hostile, *objects[1:]]):
        shown = view(None, given, gaps=())
        text = lines(replace(shown, name=evil, url=evil, tier=evil))
        assert all(line == escaped(line, keep="") for line in text)
        assert sum(map(len, text)) < 5000
        assert len(str(view_json(shown))) < 20_000


def test_money_equals_what_outlast_why_computes(tmp_path: Path) -> None:
    from outlast.capacity.planning.run_price import workload_price
    from outlast.capacity.planning.why import cost_breakdown, total_amount
    from outlast.capacity.vocabulary import Tier
    from outlast.measured import open_journal, time_breakdown

    run = three_attempts()
    url = write_journal(tmp_path, records_of(run))
    spent = time_breakdown(open_journal(url))
    price = workload_price(workload(), Tier.SPOT).amount
    followed = JournalReader(url).look(JournalReading(url=url))

    with_file = money_of(followed.journals, workload())
    without = money_of(followed.journals, None)

    assert with_file is not None and without is not None
    assert with_file.spent == total_amount(cost_breakdown(spent, price=price))
    # The journal states machine, zone and tier, so the file is not needed.
    assert without.spent == with_file.spent
    assert with_file.on_demand is not None and with_file.on_demand > with_file.spent


def test_the_finish_depends_on_the_work_that_is_left() -> None:
    run = three_attempts()
    found = journal(run)
    now = START + timedelta(seconds=run.clock_seconds)
    seconds = remaining_seconds(found, workload())

    finish = finish_of(found, workload(), is_running=True, now=now)

    assert seconds == pytest.approx(820 * 30, rel=0.01)
    assert isinstance(finish, FinishTimes)
    assert now + timedelta(seconds=seconds or 0) <= finish.p10 <= finish.p50 <= finish.p90
    assert finish.chance is not None and finish.chance > 0.9
    assert finish_of(found, workload(), is_running=True, now=now) == finish


def test_a_deadline_that_cannot_be_met_is_unlikely() -> None:
    run = three_attempts()
    now = START + timedelta(seconds=run.clock_seconds)
    late = workload().model_copy(update={"deadline": timedelta(hours=7)})

    finish = finish_of(journal(run), late, is_running=True, now=now)

    assert isinstance(finish, FinishTimes)
    assert finish.chance == 0.0


def test_without_a_plan_there_is_no_estimate() -> None:
    run = three_attempts()
    unplanned = workload().model_copy(update={"work": None})
    found = journal_of(URL, run.records)

    finish = finish_of(found, unplanned, is_running=True, now=START)

    assert isinstance(finish, NoEstimate)


def picture_of(*updates: tuple[Query, UpdateKind, list[dict[str, Any]]]) -> ClusterPicture:
    reads = {"Job": job_fact, "Pod": pod_fact, "Event": event_fact}
    picture = ClusterPicture([JOBS_QUERY, PODS_QUERY, EVENTS_QUERY], has_kueue=False)
    for query, kind, objects in updates:
        read = reads[query.resource.kind]
        facts = tuple((one["metadata"]["uid"], read(one)) for one in objects)
        picture.take(Update(kind=kind, query=query, objects=facts), START)
    return picture


JOBS_QUERY = Query(resource=JOBS, namespace="team-a")
PODS_QUERY = Query(resource=PODS, namespace="team-a")
EVENTS_QUERY = Query(resource=EVENTS, namespace="team-a")


def test_a_pod_that_is_gone_is_remembered_if_it_had_ended() -> None:
    ended, running = pod(1, "Failed", **shut_down(75, START)), pod(2, "Running")

    picture = picture_of(
        (PODS_QUERY, UpdateKind.LISTED, [ended, running]),
        (JOBS_QUERY, UpdateKind.LISTED, [job()]),
        (PODS_QUERY, UpdateKind.DELETED, [ended]),
        (PODS_QUERY, UpdateKind.DELETED, [running]),
    )

    assert [one.name for one in picture.snapshot(KEY, START).pods] == ["tiny-1"]


def test_a_new_list_replaces_what_was_known() -> None:
    picture = picture_of(
        (JOBS_QUERY, UpdateKind.LISTED, [job()]),
        (PODS_QUERY, UpdateKind.LISTED, [pod(1, "Running")]),
        (EVENTS_QUERY, UpdateKind.LISTED, [event("uid-1", "Failed", "x", START)]),
        (PODS_QUERY, UpdateKind.LISTED, [pod(2, "Running")]),
    )

    snapshot = picture.snapshot(KEY, START)

    assert [one.name for one in snapshot.pods] == ["tiny-2"]
    assert snapshot.events == ()
    assert picture.is_complete and picture.unread == frozenset()


def test_only_runs_that_changed_are_reported() -> None:
    picture = picture_of((JOBS_QUERY, UpdateKind.LISTED, [job()]))
    facts = (("uid-1", pod_fact(pod(1, "Running"))),)

    changed = picture.take(Update(kind=UpdateKind.CHANGED, query=PODS_QUERY, objects=facts), START)

    assert changed == {KEY}
    gone = (("job", job_fact(job())),)
    assert picture.take(Update(kind=UpdateKind.DELETED, query=JOBS_QUERY, objects=gone), START) == {
        KEY
    }
    assert list(picture.runs) == []


def test_a_lost_source_makes_the_picture_old_and_an_ended_one_does_not() -> None:
    picture = picture_of((JOBS_QUERY, UpdateKind.LISTED, [job()]))
    lost: Update[Any] = Update(
        kind=UpdateKind.LOST, query=JOBS_QUERY, problem=ClusterUnreachable("It is away.")
    )

    picture.take(lost, START + timedelta(minutes=1))

    assert picture.as_of() == START
    assert picture.as_of({JOBS_QUERY}) is None
    assert picture.unread == {"pods", "events"}


def test_a_missing_permission_names_the_line_of_the_role() -> None:
    refused = ApiRefusal("x", status=403, answer={"message": "no"})

    [nodes, events] = source_gaps({Query(resource=NODES): refused, EVENTS_QUERY: refused})

    assert nodes == (
        "No permission for nodes: taints and sizes of nodes are not checked. Add to a "
        'ClusterRole: {apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch"]}.'
    )
    assert 'Add to a Role: {apiGroups: [""], resources: ["events"]' in events


def test_journals_of_an_indexed_job_are_read_together(tmp_path: Path) -> None:
    for index in (0, 10, 2):
        write_journal(tmp_path / str(index), records_of(three_attempts()))
    reader = JournalReader(str(tmp_path))

    reading = reader.look(JournalReading(url=str(tmp_path)))

    assert [one.url.rpartition("/")[2] for one in reading.journals] == ["0", "2", "10"]
    money = money_of(reading.journals, workload())
    alone = money_of(reading.journals[:1], workload())
    assert money is not None and alone is not None
    assert money.spent == 3 * alone.spent


def test_a_part_that_starts_later_is_found(tmp_path: Path) -> None:
    reader = JournalReader(str(tmp_path))
    reading = JournalReading(url=str(tmp_path))

    def parts(*, is_complete: bool = False) -> int:
        nonlocal reading
        reading = reader.look(reading, is_complete=is_complete)
        return len(reading.journals)

    assert parts() == 0
    for number in range(1, 5):
        write_journal(tmp_path / str(number), records_of(three_attempts()))
        assert parts() == number
    # Every part has to be listed for a search, so that is done less often later.
    write_journal(tmp_path / "5", records_of(three_attempts()))
    assert parts() == 4
    assert parts(is_complete=True) == 5


def test_a_store_that_cannot_be_read_keeps_what_was_known(tmp_path: Path) -> None:
    url = write_journal(tmp_path / "run", records_of(three_attempts()))
    reader = JournalReader(url)
    known = reader.look(JournalReading(url=url))
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    (tmp_path / "run").touch()

    again = reader.look(known)

    assert again.problem
    assert again.journals == known.journals


@pytest.mark.parametrize(
    ("url", "reachable"),
    [
        ("gs://bucket/run", "gs://bucket/run"),
        ("s3://bucket/run", "s3://bucket/run"),
        # What a Pod calls a folder is not a folder here.
        ("/mnt/checkpoints", ""),
        ("file:///etc", ""),
    ],
)
def test_only_addresses_that_mean_the_same_here_are_taken_from_a_job(
    url: str, reachable: str
) -> None:
    assert reachable_url(url) == reachable


def test_a_run_may_be_named_in_three_ways(tmp_path: Path) -> None:
    from tests.unit.cluster.watched_runs import WORKLOAD

    file = tmp_path / "tiny.yaml"
    file.write_text(WORKLOAD)
    write_journal(tmp_path / "run", [])

    by_file = read_target(str(file))

    assert (by_file.name, by_file.namespace, by_file.url) == ("tiny", "team-a", URL)
    assert read_target("tiny").name == "tiny"
    assert read_target("gs://lab-runs/tiny/").is_url
    assert read_target(str(tmp_path / "run")).url == str(tmp_path / "run")
    with pytest.raises(OutlastError, match="does not exist"):
        read_target("nosuch.yaml")


@pytest.mark.parametrize(("count", "text"), [(0, "has no Job, so"), (2, "has 2 Jobs, so")])
def test_a_manifest_names_a_run_by_its_only_job(count: int, text: str, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: tiny, namespace: team-a}\n"
    file.write_text(f"{config}---\n{job}")
    found = read_target(str(file))
    file.write_text("---\n".join([config, *[job] * count]))

    assert (found.name, found.namespace, found.workload) == ("tiny", "team-a", None)
    with pytest.raises(OutlastError, match=text):
        read_target(str(file))


def test_what_a_stopped_run_has_saved() -> None:
    saved, killed = three_attempts(), three_attempts()
    saved.evict(final_seconds=9)
    killed.kill()

    def text(run: Simulated) -> tuple[bool, str]:
        found = final_save_in([journal(run).summary], JournalReading(url=URL))
        return found.is_complete, found.text

    assert text(saved) == (True, "Stopped. All work is saved, up to step 620.")
    assert text(killed) == (
        False,
        "Stopped without a final save: 20 steps after step 600 are repeated.",
    )
    assert final_save_in([], JournalReading(url=URL)).is_complete is False


def test_durations_and_sizes_read_well() -> None:
    assert [span(one) for one in (0, 59, 60, 3599, 3600, 7800, 90_000, 172_800)] == [
        "0 s",
        "59 s",
        "1 min",
        "59 min",
        "1 h",
        "2 h 10 min",
        "1 d 1 h",
        "2 d",
    ]
    assert (size(12), size(12 * 1024**3)) == ("12 B", "12.0 GiB")
    assert (count(1, "step"), count(8200, "step")) == ("1 step", "8,200 steps")


def test_an_empty_snapshot_shows_something() -> None:
    shown = view_of(
        RunSources(name="tiny", namespace="team-a", now=START, snapshot=Snapshot(now=START))
    )

    assert shown.state is RunState.GONE
    assert lines(shown)[0].startswith("tiny  GONE: its Job was deleted")
