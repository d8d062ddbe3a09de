from dataclasses import replace
from datetime import UTC, datetime

import pytest

from outlast.drills.compare.artifacts import Comparison
from outlast.drills.compare.divergence import Divergence, HashComparison
from outlast.drills.compare.items import ItemDifference
from outlast.drills.judge.checks import control_needed, judge
from outlast.drills.judge.evidence import JournaledAttempt, JournaledRun, ProgressPoint
from outlast.drills.judge.verdict import Check, CheckResult, Observations, Verdict, verdict_of
from outlast.drills.run.baseline import BaselineFigures
from outlast.drills.run.evidence import AttemptEvidence
from outlast.drills.run.file_activity import FileActivity
from outlast.drills.run.printed import PrintedLines, printed_lines
from outlast.drills.run.records import (
    Attempt,
    AttemptEnd,
    Eviction,
    EvictionMoment,
    JobRun,
    JobRunEnd,
    SigtermHandling,
)

FIGURES = BaselineFigures(
    seconds=10.0,
    sign_seconds=1.0,
    hears_seconds=None,
    cpu_seconds=1.0,
    output_lines=0,
    saves=3,
    attempts=1,
)


def attempt(number: int, started: float, until: float, **changes: object) -> Attempt:
    plain = Attempt(
        number=number,
        worker=0,
        started_seconds=started,
        sign_seconds=started + 1,
        hears_seconds=None,
        ready_seconds=started + 1,
        ended_seconds=until,
        ended=AttemptEnd.EVICTED,
        exit_code=75,
        cpu_seconds=0.1,
        output_lines=0,
        output_tail="",
        eviction=number,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # the names are those of the class


def eviction(number: int, **changes: object) -> Eviction:
    plain = Eviction(
        number=number,
        attempt=number,
        at_seconds=5.0,
        moment=EvictionMoment.ANY,
        notice=True,
        overlap=False,
        hit=True,
        in_start_up=False,
        handling=SigtermHandling.CAUGHT,
        process="python",
        left_seconds=0.2,
        killed=False,
        exit_code=75,
        work_seconds=4.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # the names are those of the class


def job_run(
    *attempts: Attempt, evictions: tuple[Eviction, ...], end: JobRunEnd = JobRunEnd.COMPLETE
) -> JobRun:
    return JobRun(
        name="evicted",
        began=datetime.now(UTC),
        seconds=20.0,
        work_seconds=10.0,
        end=end,
        attempts=attempts,
        evictions=evictions,
        saves=(),
    )


def evidence(*steps: int, found: str | None = "c.json") -> AttemptEvidence:
    """Of an attempt that printed these steps and found a checkpoint."""
    there = frozenset() if found is None else frozenset({found})
    return AttemptEvidence(
        printed=printed_lines("".join(f"step {step}\n" for step in steps)),
        files=FileActivity(found=there, written={"c.json": len(steps)}, read=there, touched=there),
    )


FIRST = attempt(1, 0.0, 5.2)
LAST = attempt(2, 5.3, 11.3, ended=AttemptEnd.FINISHED, exit_code=0, eviction=None)
GOOD = Observations(
    job_run=job_run(FIRST, LAST, evictions=(eviction(1),)),
    workers=1,
    grace_seconds=15.0,
    needed=1,
    figures=FIGURES,
    comparisons=(Comparison(name="model.pt"),),
    evidence={1: evidence(0, 1, 2, 3, found=None), 2: evidence(4, 5, 6, 7, 8, 9)},
    baseline_evidence=evidence(*range(10), found=None),
    expected=("model.pt",),
)


def failing(observed: Observations) -> dict[str, str]:
    """The checks that failed or warned, with their reasons."""
    bad = (CheckResult.FAIL, CheckResult.WARN)
    return {one.name: one.reason for one in judge(observed) if one.result in bad}


def names_with(observed: Observations, result: CheckResult) -> set[str]:
    return {one.name for one in judge(observed) if one.result is result}


def with_job_run(observed: Observations, **changes: object) -> Observations:
    return replace(observed, job_run=replace(observed.job_run, **changes))  # type: ignore[arg-type]  # as above


def evicted(**changes: object) -> Observations:
    return with_job_run(GOOD, evictions=(eviction(1, **changes),))


def test_a_job_that_did_everything_right_survives() -> None:
    assert failing(GOOD) == {}
    assert verdict_of(judge(GOOD)) is Verdict.SURVIVED
    assert names_with(GOOD, CheckResult.NOT_APPLICABLE) == {"no-lost-items", "no-duplicates"}


def test_the_checks_are_named_for_what_they_prove() -> None:
    assert [one.name for one in judge(GOOD)] == [
        "finished",
        "exit-code",
        "left-in-time",
        "resumed",
        "files-intact",
        "no-crash",
        "identical",
        "no-lost-items",
        "no-duplicates",
        "conclusive",
    ]


def test_leaving_with_0_too_soon_is_explained() -> None:
    observed = replace(evicted(unfinished_zero=True, exit_code=0), missing=("model.pt",))

    found = failing(observed)

    assert set(found) == {"finished", "exit-code"}
    assert "a Job counts exit code 0 as complete" in found["exit-code"]
    assert "75" in found["exit-code"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"handling": SigtermHandling.IGNORED}, "It ignores SIGTERM."),
        ({"handling": SigtermHandling.DEFAULT}, "It has no handler for SIGTERM"),
        ({"handling": SigtermHandling.DEFAULT, "process": "sh"}, "Process 1 is the shell 'sh'"),
        ({"writing": ("model.new",)}, "It was still writing 'model.new'."),
        ({}, "It received SIGTERM and kept running."),
    ],
)
def test_a_kill_after_the_grace_period_comes_with_its_cause(
    changes: dict[str, object], words: str
) -> None:
    found = failing(evicted(killed=True, exit_code=137, left_seconds=15.0, **changes))

    assert words in found["left-in-time"]


KILLED = {"killed": True, "exit_code": 137, "left_seconds": 15.0}


def test_a_job_that_was_killed_but_lost_nothing_survived_with_a_warning() -> None:
    checks = judge(evicted(**KILLED))

    assert verdict_of(checks) is Verdict.SURVIVED_WITH_WARNINGS
    [warning] = [one for one in checks if one.result is CheckResult.WARN]
    assert warning.name == "left-in-time"
    assert "was still running after the grace period of 15 s and was killed" in warning.reason
    assert warning.reason.endswith("The job still finished with the same result as the baseline.")


@pytest.mark.parametrize(
    "changes",
    [
        {"evidence": {1: evidence(0, 1, 2, 3, found=None), 2: evidence(*range(10))}},
        {"comparisons": (Comparison(name="model.pt", difference="it differs"),)},
        {"missing": ("model.pt",), "comparisons": ()},
        {"finished_when": False},
    ],
    ids=["started over", "another result", "no result", "not finished"],
)
def test_a_job_that_was_killed_and_lost_something_did_not_survive(
    changes: dict[str, object],
) -> None:
    observed = replace(evicted(**KILLED), **changes)  # type: ignore[arg-type]  # as above

    assert verdict_of(judge(observed)) is Verdict.DID_NOT_SURVIVE
    assert "left-in-time" in names_with(observed, CheckResult.FAIL)


@pytest.mark.parametrize(("lost", "result"), [(0, CheckResult.WARN), (7, CheckResult.FAIL)])
def test_steps_that_a_kill_cost_turn_the_warning_into_a_failure(
    lost: int, result: CheckResult
) -> None:
    recorded = run((0, 40, 40), (40, 100, 100))
    first, second = recorded.attempts
    runs = (replace(recorded, attempts=(replace(first, steps_lost=lost), second)),)

    assert names_with(replace(evicted(**KILLED), runs=runs), result) >= {"left-in-time"}


def test_a_failed_check_outweighs_an_inconclusive_drill() -> None:
    inconclusive = replace(GOOD, needed=5)
    failed = replace(inconclusive, finished_when=False, needed=5)

    assert verdict_of(judge(inconclusive)) is Verdict.INCONCLUSIVE
    assert verdict_of(judge(failed)) is Verdict.DID_NOT_SURVIVE


@pytest.mark.parametrize(
    "changes",
    [
        {"notice": False},
        {"moment": EvictionMoment.LAST_SAVE},
        {
            "moment": EvictionMoment.START_UP,
            "in_start_up": True,
            "handling": SigtermHandling.DEFAULT,
        },
    ],
)
def test_a_kill_without_its_grace_period_is_not_held_against_the_program(
    changes: dict[str, object],
) -> None:
    observed = evicted(killed=True, exit_code=137, **changes)

    assert "left-in-time" not in failing(observed)
    assert "left-in-time" in names_with(observed, CheckResult.NOT_APPLICABLE)


def test_one_that_never_heard_the_notice_is_told_even_if_it_was_done_by_itself() -> None:
    found = failing(evicted(handling=SigtermHandling.DEFAULT, exit_code=0, left_seconds=3.0))

    assert "In 1 of 1 evictions it did not react to SIGTERM" in found["left-in-time"]


def test_one_that_finished_before_it_was_killed_has_not_shown_that_a_kill_is_harmless() -> None:
    observed = evicted(handling=SigtermHandling.DEFAULT, exit_code=0, left_seconds=3.0)

    assert "left-in-time" in names_with(observed, CheckResult.FAIL)


def test_one_that_was_about_to_leave_anyway_is_not_blamed() -> None:
    found = failing(evicted(handling=SigtermHandling.UNKNOWN, exit_code=0, left_seconds=0.02))

    assert "left-in-time" not in found


def test_a_supervisor_that_leaves_with_a_code_has_heard_the_notice() -> None:
    assert failing(evicted(handling=SigtermHandling.DEFAULT, exit_code=75)) == {}


def test_a_notice_before_the_handler_was_there_is_forgiven_if_others_were_heard() -> None:
    unheard = eviction(2, killed=True, exit_code=137, handling=SigtermHandling.DEFAULT)

    observed = with_job_run(GOOD, evictions=(eviction(1), unheard))
    [reason] = [one.reason for one in judge(observed) if one.name == "left-in-time"]
    assert "left-in-time" not in failing(observed)
    assert "It exited in time in 1 of 1 evictions" in reason
    assert reason.endswith("1 more came during startup, before it could handle SIGTERM.")
    assert "left-in-time" in failing(with_job_run(GOOD, evictions=(unheard,)))


def run(*attempts: tuple[int | None, int, int | None]) -> JournaledRun:
    return JournaledRun(
        folder="run",
        finished=True,
        steps_done=100,
        attempts=tuple(
            JournaledAttempt(
                run_attempt=number,
                attempt=number,
                first_step=first,
                last_step=last,
                saved_step=saved,
                steps_lost=0,
            )
            for number, (first, last, saved) in enumerate(attempts, start=1)
        ),
        saves=2,
        save_seconds=None,
        resume_seconds=None,
        progress=(),
        metrics=(),
    )


@pytest.mark.parametrize(
    ("attempts", "words"),
    [
        ([(0, 40, 40), (0, 100, 100)], "started at step 0, although step 40 had been saved"),
        ([(0, 40, None), (0, 100, 100)], "nothing had been saved"),
        ([(0, 40, 40), (40, 100, 100)], None),
        ([(0, 5, None), (0, 100, 100)], None),
        ([(0, 40, 40), (None, 0, None), (40, 100, 100)], None),
        ([(0, 20, None), (0, 20, None), (0, 100, 100)], "earlier attempts had done 40 steps"),
    ],
)
def test_with_a_journal_the_steps_tell_who_started_over(
    attempts: list[tuple[int | None, int, int | None]], words: str | None
) -> None:
    again = replace(LAST, ended_seconds=LAST.started_seconds + 10.0)
    observed = replace(with_job_run(GOOD, attempts=(FIRST, again)), runs=(run(*attempts),))

    found = failing(observed)

    assert ("resumed" in found) == (words is not None)
    assert words is None or words in found["resumed"]


CRASH = attempt(
    2,
    5.3,
    5.5,
    ended=AttemptEnd.FAILED,
    exit_code=1,
    eviction=None,
    output_tail="Traceback\njson.JSONDecodeError: Expecting value",
)


def test_a_crash_on_what_a_kill_left_half_written_is_torn() -> None:
    kill = eviction(1, notice=False, killed=True, left_seconds=0.0, writing=("c.json",))
    observed = with_job_run(
        GOOD, attempts=(FIRST, CRASH), evictions=(kill,), end=JobRunEnd.CRASH_LOOP
    )

    found = failing(observed)

    assert set(found) == {"finished", "files-intact"}
    assert "half written when attempt 1 was killed (c.json)" in found["files-intact"]
    assert "JSONDecodeError" in found["finished"]


def test_a_crash_without_a_kill_is_only_a_crash() -> None:
    other = replace(CRASH, output_tail="port 80 is in use")
    observed = with_job_run(GOOD, attempts=(FIRST, other, replace(LAST, number=3)))
    observed = replace(observed, evidence={1: GOOD.evidence[1], 3: GOOD.evidence[2]})

    found = failing(observed)

    assert set(found) == {"no-crash"}
    assert "port 80 is in use" in found["no-crash"]


def test_a_torn_artifact_is_torn() -> None:
    observed = replace(
        GOOD, comparisons=(Comparison(name="r.json", torn="cut", difference="it is torn: cut"),)
    )

    assert "r.json is incomplete: cut." in failing(observed)["files-intact"]


def test_a_run_that_timed_out_is_not_finished() -> None:
    observed = with_job_run(GOOD, attempts=(FIRST,), end=JobRunEnd.TIMED_OUT)

    assert "It was not finished after 20 s, the end of the drill." in failing(observed)["finished"]
    assert "--timeout" in failing(observed)["finished"]


def test_a_run_that_reached_its_own_limit_is_not_told_to_use_a_longer_timeout() -> None:
    observed = with_job_run(GOOD, attempts=(FIRST,), end=JobRunEnd.TOO_SLOW)

    reason = failing(observed)["finished"]
    assert "the limit of a run with evictions: 3 times the baseline (10 s)" in reason
    assert "--timeout" not in reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"finished_when": False}, "the --finished-when test failed"),
        ({"missing": ("model.pt",), "comparisons": ()}, "'model.pt' was not written"),
    ],
)
def test_exit_0_without_the_result_is_not_finished(changes: dict[str, object], words: str) -> None:
    observed = replace(GOOD, **changes)  # type: ignore[arg-type]  # the names are those of the class

    assert words in failing(observed)["finished"]


def test_a_result_that_differs_says_where_it_went_apart() -> None:
    apart = Divergence(step=4, leaf="opt.m", attempt=2, at_resume=False, batch_differs=True)
    hashes = HashComparison(steps=9, last_step=9, divergence=apart)
    differs = (Comparison(name="model.pt", difference="it differs from byte 3 on"),)

    plain = failing(replace(GOOD, comparisons=differs))["identical"]
    located = failing(replace(GOOD, comparisons=differs, hashes=hashes))["identical"]

    assert "random generators" in plain
    assert "step 4, opt.m, after attempt 1; the batch differed" in located


def test_without_artifacts_the_hashes_of_the_state_decide() -> None:
    same = HashComparison(steps=9, last_step=9, divergence=None)
    apart = replace(
        same,
        divergence=Divergence(step=4, leaf="w", attempt=2, at_resume=True, batch_differs=False),
    )

    assert failing(replace(GOOD, comparisons=(), hashes=same)) == {}
    assert "step 4, w" in failing(replace(GOOD, comparisons=(), hashes=apart))["identical"]


def test_lost_and_doubled_items_come_with_examples() -> None:
    items = ItemDifference(
        key=("id",),
        items=50,
        lost=2,
        doubled=1,
        lost_examples=("a", "b"),
        doubled_examples=("c",),
    )
    observed = replace(
        GOOD, comparisons=(Comparison(name="r.csv", difference="x", items=(items,)),)
    )

    found = failing(observed)

    assert "2 of 50 items are missing from r.csv, such as a, b." in found["no-lost-items"]
    assert "1 items were stored more than once in r.csv, such as c." in found["no-duplicates"]


def test_fewer_evictions_than_planned_are_inconclusive() -> None:
    found = failing(replace(GOOD, needed=5))

    assert "Only 1 of 5 evictions landed" in found["conclusive"]


def test_an_eviction_that_came_as_the_work_was_done_shows_nothing() -> None:
    assert "Only 0 of 1 evictions landed" in failing(evicted(exit_code=0))["conclusive"]


def test_every_check_explains_itself_in_one_line() -> None:
    for observed in (evicted(unfinished_zero=True), replace(GOOD, needed=5)):
        for check in judge(observed):
            assert isinstance(check, Check)
            assert "\n" not in check.reason and check.reason.endswith(".")


def test_leaving_with_0_where_nothing_shows_that_the_work_was_done_is_inconclusive() -> None:
    found = failing(evicted(unproven_zero=True, exit_code=0))

    assert "nothing shows whether the work was done" in found["conclusive"]
    assert "exit-code" not in found


def test_a_job_that_found_what_the_baseline_left_is_told_to_reset() -> None:
    at_once = replace(LAST, number=1, started_seconds=0.0, ended_seconds=0.4)
    observed = with_job_run(GOOD, attempts=(at_once,), evictions=())

    assert "--reset" in failing(observed)["conclusive"]


TRACEBACK = """
  File "train.py", line 9, in <lambda>
    raise RuntimeError("stop")
RuntimeError: stop
hint: see the manual
"""


def crashing(tail: str, code: int = 1) -> Observations:
    observed = evicted(exit_code=code)
    first = replace(FIRST, exit_code=code, output_tail=tail)
    return with_job_run(observed, attempts=(first, LAST))


def test_a_crash_on_sigterm_is_not_left_in_time_and_quotes_the_error() -> None:
    checks = {one.name: one for one in judge(crashing(TRACEBACK))}

    assert checks["left-in-time"].result is CheckResult.WARN
    assert "with exit code 1: 'RuntimeError: stop'." in checks["left-in-time"].reason


def test_a_crash_on_sigterm_that_loses_work_fails() -> None:
    again = {1: GOOD.evidence[1], 2: evidence(*range(10))}

    assert set(failing(replace(crashing(TRACEBACK), evidence=again))) == {"left-in-time", "resumed"}


@pytest.mark.parametrize(
    ("tail", "code", "crashed"),
    [
        (TRACEBACK, 1, True),
        ("", 139, True),
        (TRACEBACK, 75, False),
        ("saved and left", 1, False),
        (TRACEBACK.replace("RuntimeError: stop", "KeyboardInterrupt"), 1, False),
    ],
    ids=["error", "segmentation fault", "own code", "no error", "interrupt"],
)
def test_only_an_error_is_a_crash(tail: str, code: int, crashed: bool) -> None:
    assert ("left-in-time" in failing(crashing(tail, code))) == crashed


@pytest.mark.parametrize(
    ("tail", "check", "words"),
    [
        ("ModuleNotFoundError: No module named 'x'", "no-crash", "A module is missing."),
        ("OSError: [Errno 98] Address already in use", "no-crash", "a fixed port"),
        ("FileNotFoundError: No such file or directory: 'a'", "no-crash", "It needs a file"),
        ("ValueError: bad value", "no-crash", "Make it start in a folder"),
        ("json.JSONDecodeError: Expecting value", "files-intact", "then rename it."),
    ],
)
def test_the_advice_fits_the_cause_of_a_crash(tail: str, check: str, words: str) -> None:
    kill = eviction(1, notice=False, killed=True, left_seconds=0.0, writing=("c.json",))
    crash = replace(CRASH, output_tail=f"Traceback\n{tail}\nhint: something else")
    observed = with_job_run(GOOD, attempts=(FIRST, crash, replace(LAST, number=3)))
    observed = with_job_run(observed, evictions=(kill,))
    observed = replace(observed, evidence={1: GOOD.evidence[1], 3: GOOD.evidence[2]})

    found = failing(observed)

    assert set(found) == {check}
    assert words in found[check]
    assert repr(tail)[1:-1] in found[check]


def test_a_run_of_the_library_that_was_killed_is_told_its_durations() -> None:
    points = tuple(ProgressPoint(seconds=2.0 * step, step=step, attempt=1) for step in range(4))
    recorded = replace(run((0, 40, 40), (40, 100, 100)), save_seconds=1.5, progress=points)

    reason = failing(replace(evicted(**KILLED), runs=(recorded,)))["left-in-time"]

    assert "a step took 2.00 s and a save 1.50 s (medians), and the grace period is 15 s" in reason
    assert "more often" not in reason


DIFFERS = Comparison(name="model.pt", difference="total is 2, not 1")


def test_a_job_that_differs_from_itself_is_only_warned_about_and_told_where() -> None:
    itself = Comparison(name="model.pt", difference="total is 3, not 1")
    observed = replace(GOOD, comparisons=(DIFFERS,), repeat=(itself,))

    [check] = [one for one in judge(observed) if one.name == "identical"]

    assert check.result is CheckResult.WARN
    assert "Two runs without any eviction differ too: total is 3, not 1." in check.reason
    assert "not deterministic by itself" in check.reason
    assert verdict_of(judge(observed)) is Verdict.SURVIVED_WITH_WARNINGS


def test_a_job_that_differs_only_after_evictions_fails() -> None:
    observed = replace(GOOD, comparisons=(DIFFERS,), repeat=(Comparison(name="model.pt"),))

    assert "A second run without evictions did not." in failing(observed)["identical"]
    assert verdict_of(judge(observed)) is Verdict.DID_NOT_SURVIVE


def test_items_that_differ_in_every_run_are_not_called_lost() -> None:
    items = ItemDifference(key=("id",), items=50, lost=2, doubled=0, lost_examples=("a", "b"))
    rows = Comparison(name="r.csv", difference="x", items=(items,))
    observed = replace(GOOD, comparisons=(rows,), repeat=(rows,))

    assert "no-lost-items" in names_with(observed, CheckResult.NOT_APPLICABLE)


def test_an_expected_file_of_an_unfinished_job_was_not_compared() -> None:
    observed = with_job_run(GOOD, attempts=(FIRST,), end=JobRunEnd.TOO_SLOW)
    checks = {one.name: one for one in judge(replace(observed, comparisons=()))}

    assert checks["identical"].result is CheckResult.NOT_APPLICABLE
    assert checks["identical"].reason == "The job did not finish, so model.pt was not compared."


def nothing_found(*steps: int) -> AttemptEvidence:
    return evidence(*steps, found=None)


def test_one_that_never_wrote_anything_cannot_have_resumed() -> None:
    silent = {1: nothing_found(), 2: nothing_found()}
    observed = replace(GOOD, figures=replace(FIGURES, saves=0), evidence=silent)

    assert "It wrote nothing until it finished" in failing(observed)["resumed"]
    elsewhere = replace(observed, may_save_elsewhere=True)
    assert "resumed" in names_with(elsewhere, CheckResult.NOT_APPLICABLE)
    assert verdict_of(judge(elsewhere)) is Verdict.INCONCLUSIVE


def test_one_that_had_saved_nothing_by_then_is_told_to_save_more_often() -> None:
    again = replace(GOOD, evidence={1: nothing_found(0, 1, 2, 3), 2: nothing_found(*range(10))})

    assert "10 of 10 lines like 'step 9' were printed again" in failing(again)["resumed"]
    assert "save more often" in failing(again)["resumed"]


def test_an_eviction_after_the_last_line_asks_for_another_drill() -> None:
    observed = replace(GOOD, evidence={1: evidence(*range(10), found=None), 2: evidence()})
    [check] = [one for one in judge(observed) if one.name == "resumed"]

    assert check.result is CheckResult.NOT_APPLICABLE
    assert "run the drill with another --seed" in check.reason
    assert "Print a numbered line" not in check.reason
    assert verdict_of(judge(observed)) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("first", [(None, 0, None), (0, 0, None)], ids=["no-line", "no-step"])
def test_evictions_before_the_first_step_ask_for_another_drill(
    first: tuple[int | None, int, int | None],
) -> None:
    silent = {1: evidence(found=None), 2: evidence()}
    observed = replace(GOOD, evidence=silent, runs=(run(first, (0, 100, 100)),))
    [check] = [one for one in judge(observed) if one.name == "resumed"]

    assert check.result is CheckResult.NOT_APPLICABLE
    assert "evicted before it completed a step" in check.reason
    assert "use `outlast.Run`" not in check.reason
    assert verdict_of(judge(observed)) is Verdict.INCONCLUSIVE


def test_lines_printed_again_count_although_no_step_was_journaled() -> None:
    again = {1: evidence(0, 1, 2, 3), 2: evidence(*range(10))}
    observed = replace(GOOD, evidence=again, runs=(run((None, 0, None), (0, 100, 100)),))

    assert "were printed again" in failing(observed)["resumed"]


def test_how_long_an_attempt_took_shows_nothing() -> None:
    silent = {1: evidence(found=None), 2: evidence()}
    for seconds in (0.1, 6.0, 60.0):
        last = replace(LAST, ended_seconds=LAST.started_seconds + seconds)
        observed = replace(with_job_run(GOOD, attempts=(FIRST, last)), evidence=silent)

        assert "resumed" in failing(observed) or "resumed" in names_with(
            observed, CheckResult.NOT_APPLICABLE
        )


def at_attempt(number: int, one: JournaledRun, *, folder: str) -> JournaledRun:
    placed = tuple(replace(each, attempt=number) for each in one.attempts)
    return replace(one, folder=folder, attempts=placed, finished=number == 2)


@pytest.mark.parametrize("saved", [3, None])
def test_a_run_in_a_folder_of_its_own_for_each_attempt_did_not_resume(saved: int | None) -> None:
    steps = 3 if saved else 40
    earlier = at_attempt(1, run((0, steps, saved)), folder="run-1")
    observed = replace(GOOD, runs=(at_attempt(2, run((0, 100, 100)), folder="run-2"), earlier))

    assert f"had done {steps} steps in 'run-1'" in failing(observed)["resumed"]


def test_a_journal_that_shows_no_first_step_leaves_it_to_other_evidence() -> None:
    hardly_begun = replace(GOOD, runs=(run((0, 5, None), (0, 100, 100)),))
    silent = {1: evidence(found=None), 2: evidence()}

    assert "resumed" in names_with(hardly_begun, CheckResult.PASS)
    unknown = replace(hardly_begun, evidence=silent)
    assert "resumed" in names_with(unknown, CheckResult.NOT_APPLICABLE)
    assert verdict_of(judge(unknown)) is Verdict.INCONCLUSIVE


def wrote(count: int, *, found: bool) -> AttemptEvidence:
    there = frozenset({"c.json"}) if found else frozenset()
    touched = frozenset({"c.json"})
    files = FileActivity(found=there, read=there, written={"c.json": count}, touched=touched)
    return AttemptEvidence(printed=PrintedLines(), files=files)


FEWER_WRITES = replace(
    GOOD,
    baseline_evidence=wrote(20, found=False),
    evidence={1: wrote(12, found=False), 2: wrote(8, found=True)},
)


def control(seconds: float, cpu_seconds: float) -> Attempt:
    return attempt(1, 0.0, seconds, ended=AttemptEnd.STOPPED, cpu_seconds=cpu_seconds)


def test_fewer_writes_alone_do_not_show_that_it_resumed() -> None:
    assert control_needed(FEWER_WRITES)
    assert not control_needed(GOOD)
    assert verdict_of(judge(FEWER_WRITES)) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("cpu_seconds", "seen", "words"),
    [
        (5.0, control(7.6, 6.4), "Attempt 2 continued"),
        (0.1, control(7.6, 0.1), "Attempt 2 continued"),
        (5.0, control(7.0, 6.0), "took hardly longer"),
        (5.0, control(7.6, 3.0), "the machine was too busy"),
    ],
    ids=["more work", "waits", "as long", "a busy machine"],
)
def test_fewer_writes_count_if_a_run_without_evictions_has_more_to_do(
    cpu_seconds: float, seen: Attempt, words: str
) -> None:
    last = replace(LAST, cpu_seconds=cpu_seconds)
    observed = replace(with_job_run(FEWER_WRITES, attempts=(FIRST, last)), control=seen)
    [check] = [one for one in judge(observed) if one.name == "resumed"]

    assert words in check.reason
    assert (check.result is CheckResult.PASS) == ("continued" in words)


def test_lines_that_no_attempt_printed_are_a_warning() -> None:
    skipping = {1: evidence(*range(12), found=None), 2: evidence(*range(16, 30))}
    whole = evidence(*range(30), found=None)
    observed = replace(GOOD, baseline_evidence=whole, evidence=skipping)

    assert "4 of 30 lines like 'step 29': it may have skipped work" in failing(observed)["resumed"]
    assert verdict_of(judge(observed)) is Verdict.SURVIVED_WITH_WARNINGS


def test_workers_must_show_that_they_kept_work() -> None:
    saving = replace(GOOD, workers=2, figures=replace(FIGURES, saves=5))
    rows = (
        Comparison(name="r.csv", items=(ItemDifference(key=("id",), items=9, lost=0, doubled=0),)),
    )

    assert verdict_of(judge(saving)) is Verdict.INCONCLUSIVE
    assert "nothing shows whether work was kept" in failing(saving)["conclusive"]
    assert verdict_of(judge(replace(saving, comparisons=rows))) is Verdict.SURVIVED
    assert verdict_of(judge(replace(saving, finished_when=True))) is Verdict.SURVIVED
    silent = replace(saving, comparisons=rows, figures=replace(FIGURES, saves=0))
    assert verdict_of(judge(silent)) is Verdict.INCONCLUSIVE
