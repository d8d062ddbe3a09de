"""Every option of a drill, on programs that take about a second."""

import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from outlast.drills.errors import DrillError
from outlast.drills.judge.verdict import CheckResult, Verdict
from outlast.drills.rehearsal import drill
from outlast.drills.run import events
from outlast.drills.run.node import GROUP
from outlast.drills.run.records import AttemptEnd, EvictionMoment, JobRunEnd
from tests.drill.drilling import (
    AMPLE,
    SHORT,
    conclusive_drill,
    control,
    failing,
    nothing_left_behind,
)

WELL_BEHAVED = control("well_behaved")


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


def test_without_namespaces_a_process_group_has_to_do_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("outlast.drills.rehearsal.best_isolation", lambda: GROUP)

    good = conclusive_drill(WELL_BEHAVED, evictions=2, grace=AMPLE, seed=1, expect=["result.json"])
    shell = ["sh", "-c", f"{sys.executable} -m tests.faults.controls.well_behaved; true"]
    bad = drill(shell, evictions=1, grace=SHORT, seed=1, skip_baseline=True)

    assert failing(good) == {}, good.story()
    assert good.isolation == "process group"
    assert "each node a process group" in good.story()
    assert "Process 1 is the shell" in failing(bad)["left-in-time"], bad.story()


def test_a_rate_evicts_until_the_job_is_done() -> None:
    report = drill(
        WELL_BEHAVED, every=timedelta(seconds=0.5), grace=AMPLE, seed=4, expect=["result.json"]
    )

    assert report.evictions_landed >= 1
    assert report.evictions_planned is None
    assert f"\n{report.evictions_landed} evictions, grace" in report.story()
    assert set(failing(report)) <= {"resumed", "conclusive"}, report.story()


def test_a_trace_is_replayed_with_its_outages(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    data = [1, 1, 1, 0, 0, 1, 1, 1, 1, 0]
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": data}))

    report = conclusive_drill(
        WELL_BEHAVED,
        trace=trace,
        no_notice=0,
        hostile=0,
        grace=AMPLE,
        seed=1,
        expect=["result.json"],
    )

    # On a busy machine, the evictions of a trace can come before any work that could be resumed.
    assert set(failing(report)) <= {"conclusive"}, report.story()
    assert report.evictions_landed == 2
    assert report.evicted is not None
    first, second = report.evicted.attempts[:2]
    # Two of the nine gaps up to the last loss, of the part of the job in which evictions fall.
    assert report.figures is not None
    outage = 0.8 * report.figures.work_seconds * 2 / 9
    assert second.started_seconds - first.ended_seconds >= outage * 0.95


def test_without_a_baseline_there_is_nothing_to_compare_but_the_rest_is_judged() -> None:
    report = drill(control("exits_zero"), evictions=1, skip_baseline=True, grace=AMPLE, seed=1)

    assert "exit-code" in failing(report), report.story()
    assert {*report.names_with(CheckResult.NOT_APPLICABLE)} >= {"identical", "resumed"}
    assert report.baseline is None and report.figures is None


def test_a_recorded_baseline_is_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    runs: list[str] = []

    def listen(event: events.DrillEvent) -> None:
        if isinstance(event, events.JobRunStarted):
            runs.append(event.job_run)

    for _ in range(2):
        report = drill(
            WELL_BEHAVED,
            evictions=1,
            grace=AMPLE,
            seed=1,
            expect=["result.json"],
            recording=folder,
            listener=listen,
        )
        assert failing(report) == {}, report.story()

    assert runs == ["baseline", "evicted", "evicted"]
    assert "recorded earlier" in report.remarks[0]


def test_a_working_folder_is_copied_and_never_touched(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "job.sh").write_text("cat data; sleep 0.6; cp data out; echo x >> data\n")
    (work / "data").write_text("1")

    report = conclusive_drill(
        ["sh", "job.sh"], workdir=work, evictions=1, no_notice=1, seed=1, expect=["{dir}/out"]
    )

    assert report.comparisons[0].difference is None, report.story()
    assert (work / "data").read_text() == "1"
    assert not (work / "out").exists()


def test_what_lies_elsewhere_is_reset_before_each_run_and_removed_if_expected(
    tmp_path: Path,
) -> None:
    elsewhere, result = tmp_path / "elsewhere", tmp_path / "result.txt"
    result.write_text("from yesterday")
    script = f"echo x >> {elsewhere}; sleep 0.6; [ -e {result} ] || wc -l < {elsewhere} > {result}"

    report = conclusive_drill(
        ["sh", "-c", script],
        reset=f"rm -f {elsewhere}",
        evictions=1,
        no_notice=1,
        seed=1,
        expect=[str(result)],
    )

    # Undisturbed one line, evicted two: both runs began clean.
    assert "line 1 is '2', not '1'" in failing(report)["identical"], report.story()


def test_the_users_own_test_decides_whether_it_is_finished() -> None:
    script = "trap 'exit 0' TERM; echo up; touch started; sleep 0.7 & wait; touch done"

    report = conclusive_drill(
        ["sh", "-c", script],
        evictions=1,
        no_notice=0,
        grace=AMPLE,
        seed=1,
        finished_when="test -e {dir}/done",
    )

    found = failing(report)
    assert set(found) == {"exit-code", "finished"}, report.story()
    assert "the --finished-when test failed" in found["finished"]


def test_a_duplicate_lives_on_beside_its_replacement() -> None:
    # The first ends only once the second has begun.
    wait = "until [ -e second ]; do sleep 0.05; done"
    script = f"trap '' TERM; echo up; if mkdir first; then {wait}; else touch second; fi"

    report = drill(
        ["sh", "-c", script],
        evictions=1,
        overlap=1,
        no_notice=0,
        skip_baseline=True,
        grace=AMPLE,
        seed=1,
    )

    assert report.evicted is not None
    [eviction] = report.evicted.evictions
    first, second = report.evicted.attempts[:2]
    assert eviction.overlap
    assert second.started_seconds < first.ended_seconds


def test_a_silent_duplicate_hears_nothing_and_vanishes_later() -> None:
    # The first never ends by itself, and the second not before it.
    first = "flock 9; while :; do sleep 0.05; done"
    script = f"trap 'touch heard; exit 75' TERM; echo up; mkdir first && {{ {first}; }}; flock 9"

    report = drill(
        ["sh", "-c", f"exec 9>lock; {script}"],
        evictions=1,
        overlap=1,
        no_notice=1,
        skip_baseline=True,
        grace=timedelta(seconds=0.3),
        seed=1,
        finished_when="test ! -e {dir}/heard",
    )

    assert report.evicted is not None, report.story()
    [eviction] = report.evicted.evictions
    assert eviction.killed and not eviction.notice
    assert eviction.left_seconds > 0.25
    assert "finished" not in failing(report), report.story()


def test_hostile_moments_are_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.drills.runner._PATIENCE_SECONDS_MIN", 300.0)
    # Outside the folder of the job, so that counting is not taken for a save or a sign of life.
    starts = tmp_path / "starts"
    # The second and third process save until they are evicted, and the fourth never starts up.
    script = f"""
        echo start >> {starts}
        number=$(wc -l < {starts})
        if [ $number -eq 4 ]; then while :; do sleep 0.05; done; fi
        trap 'exit 75' TERM
        echo up
        if [ $number -eq 1 ]; then
            for step in 1 2 3 4 5; do echo $step > save; sleep 0.1; done
        elif [ $number -lt 4 ]; then
            while :; do echo $number; done > save
        fi
    """

    report = drill(["sh", "-c", script], evictions=3, hostile=1, no_notice=0.6, grace=AMPLE, seed=1)

    assert report.evicted is not None, report.story()
    hits = [one.moment for one in report.evicted.evictions if one.hit]
    save, start_up = EvictionMoment.SAVE, EvictionMoment.START_UP
    assert hits == [save, save, start_up], report.story()


def test_the_back_off_of_a_job_makes_a_restart_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.drills.run.controller.BACKOFF_FIRST_SECONDS", 0.7)

    report = conclusive_drill(
        WELL_BEHAVED, evictions=2, no_notice=0, hostile=0, job_backoff=True, grace=AMPLE, seed=1
    )

    assert report.evicted is not None, report.story()
    first, second, third = report.evicted.attempts[:3]
    assert second.started_seconds - first.ended_seconds >= 0.7
    assert third.started_seconds - second.ended_seconds >= 1.4


def test_a_command_that_fails_at_once_is_tried_twice_and_quoted() -> None:
    report = drill(["sh", "-c", "echo no such data set; exit 3"], evictions=1)

    assert report.baseline is not None and report.evicted is None
    assert report.baseline.end is JobRunEnd.CRASH_LOOP
    # Without any eviction, a third failure would show no more than the second.
    assert len(report.baseline.attempts) == 2
    assert (
        "failed 2 times without any eviction, the last time with exit code 3: 'no such data set'."
        in failing(report)["finished"]
    )
    assert "  | no such data set" in report.story()


def test_the_time_of_the_whole_drill_is_limited() -> None:
    report = drill(["sleep", "infinity"], evictions=1, timeout=timedelta(seconds=1))

    assert report.baseline is not None
    assert report.baseline.attempts[0].ended is AttemptEnd.STOPPED
    assert report.baseline.seconds >= 1
    measured = f"{report.baseline.seconds:.1f} s"
    assert f"not finished after {measured}" in failing(report)["finished"]


def test_a_command_too_short_to_be_evicted_is_inconclusive() -> None:
    # It is over long before it could save, which is what these evictions wait for.
    report = drill(["true"], evictions=1, hostile=1, no_notice=0, seed=1)

    assert "before the job finished" in failing(report)["conclusive"], report.story()
    assert report.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"expect": ["never.txt"]}, "The baseline run did not write 'never.txt'."),
        ({"finished_when": "false"}, "The test 'false' failed after the baseline run."),
        ({"reset": "exit 4"}, "The reset command 'exit 4' failed with exit code 4"),
        ({"trace": "none.csv"}, "Could not read the trace 'none.csv': No such file"),
        ({"workdir": "none"}, "'none' is not a folder"),
    ],
)
def test_a_drill_that_cannot_run_is_refused_with_the_reason(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(DrillError) as caught:
        drill(["sleep", "0.1"], **options)  # type: ignore[arg-type]  # each is of its type

    assert words in str(caught.value)


def test_a_command_that_is_not_there_is_refused() -> None:
    with pytest.raises(DrillError, match="Cannot start 'no-such-command'"):
        drill(["no-such-command"])


def test_the_events_tell_the_whole_story_in_order() -> None:
    seen: list[events.DrillEvent] = []

    report = drill(
        WELL_BEHAVED,
        evictions=1,
        no_notice=0,
        hostile=0,
        grace=AMPLE,
        seed=1,
        listener=seen.append,
    )

    kinds = [type(event).__name__ for event in seen if event.job_run == "evicted"]
    assert [kind for kind in kinds if kind != "SaveSeen"] == [
        "JobRunStarted",
        "AttemptStarted",
        "AttemptReady",
        "EvictionSent",
        "AttemptEnded",
        "AttemptStarted",
        "AttemptReady",
        "AttemptEnded",
        "JobRunFinished",
    ], report.story()
    assert "SaveSeen" in kinds
    times = [event.at_seconds for event in seen if event.job_run == "evicted"]
    assert times == sorted(times)


def test_an_error_in_the_listener_leaves_nothing_behind() -> None:
    def break_down(event: events.DrillEvent) -> None:
        if isinstance(event, events.AttemptReady):
            raise RuntimeError("the view broke")

    with pytest.raises(RuntimeError, match="the view broke"):
        drill(WELL_BEHAVED, listener=break_down)


def test_the_top_level_name_runs_a_drill() -> None:
    import outlast

    with pytest.raises(DrillError, match="Cannot start"):
        outlast.drill(["no-such-command"])


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="duplicates"):
        drill(["true"], duplicates=0.5)  # type: ignore[call-arg]  # that is what is tested


def test_everything_can_be_kept(tmp_path: Path) -> None:
    report = conclusive_drill(
        WELL_BEHAVED, evictions=1, grace=AMPLE, seed=1, expect=["result.json"], keep=tmp_path / "k"
    )

    assert failing(report) == {}
    assert (tmp_path / "k/evicted/result.json").exists()
    assert "step 1" in (tmp_path / "k/evicted-logs/attempt-0001.log").read_text()
    shutil.rmtree(tmp_path / "k")


def test_the_steps_lost_to_a_kill_are_those_that_were_really_done(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    report = conclusive_drill(
        control("with_outlast"),
        evictions=3,
        no_notice=1,
        hostile=0,
        overlap=0,
        grace=AMPLE,
        seed=6,
        keep=kept,
    )

    logs = [path.read_text().split() for path in sorted(kept.glob("evicted-logs/*"))]
    steps = [[int(word) for word in words if word.isdigit()] for words in logs]
    lost = [done[-1] - then[0] + 1 for done, then in itertools.pairwise(steps)]
    assert sum(lost) > 0
    # A kill may come between the line of a step and the end of it.
    told = zip(lost, report.steps_lost.values(), strict=True)
    assert all(done - known in (0, 1) for done, known in told), report.story()
    shutil.rmtree(kept)
