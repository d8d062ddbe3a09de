from dataclasses import replace
from datetime import UTC, datetime

import pytest

from outlast.drill.artifacts import Comparison
from outlast.drill.baseline import Figures
from outlast.drill.divergence import Divergence, HashComparison
from outlast.drill.evidence import RunAttempt, RunEvidence
from outlast.drill.items import ItemDifference
from outlast.drill.records import Attempt, Ended, Eviction, Handling, Leg, LegEnd, Moment, Save
from outlast.drill.verdicts import Facts, Verdict, judge

FIGURES = Figures(
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
        ended=Ended.EVICTED,
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
        moment=Moment.ANY,
        notice=True,
        overlap=False,
        hit=True,
        in_start_up=False,
        handling=Handling.CAUGHT,
        process="python",
        left_seconds=0.2,
        killed=False,
        exit_code=75,
        work_seconds=4.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # the names are those of the class


def leg(*attempts: Attempt, evictions: tuple[Eviction, ...], end: LegEnd = LegEnd.COMPLETE) -> Leg:
    return Leg(
        name="disturbed",
        began=datetime.now(UTC),
        seconds=20.0,
        work_seconds=10.0,
        end=end,
        attempts=attempts,
        evictions=evictions,
        saves=(),
    )


FIRST = attempt(1, 0.0, 5.2)
LAST = attempt(2, 5.3, 11.3, ended=Ended.FINISHED, exit_code=0, eviction=None)
GOOD = Facts(
    leg=leg(FIRST, LAST, evictions=(eviction(1),)),
    workers=1,
    grace_seconds=15.0,
    needed=1,
    figures=FIGURES,
    comparisons=(Comparison(name="model.pt"),),
)


def failing(facts: Facts) -> dict[str, str]:
    verdicts, _ = judge(facts)
    return {one.code: one.reason for one in verdicts if not one.ok}


def with_leg(facts: Facts, **changes: object) -> Facts:
    return replace(facts, leg=replace(facts.leg, **changes))  # type: ignore[arg-type]  # as above


def struck(**changes: object) -> Facts:
    return with_leg(GOOD, evictions=(eviction(1, **changes),))


def test_a_job_that_did_everything_right_survives() -> None:
    verdicts, not_judged = judge(GOOD)

    assert all(one.ok for one in verdicts)
    assert {one.code for one in not_judged} == {"lost-items", "doubled-items"}


def test_leaving_with_0_too_soon_is_explained() -> None:
    facts = replace(struck(unfinished_zero=True, exit_code=0), missing=("model.pt",))

    found = failing(facts)

    assert set(found) == {"not-finished", "exit-zero"}
    assert "a Job counts exit 0 as complete" in found["exit-zero"]
    assert "75" in found["exit-zero"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"handling": Handling.IGNORED}, "It ignores SIGTERM."),
        ({"handling": Handling.DEFAULT}, "It has no handler for SIGTERM"),
        ({"handling": Handling.DEFAULT, "process": "sh"}, "Process 1 is the shell 'sh'"),
        ({"writing": ("model.new",)}, "It was still writing 'model.new'."),
        ({}, "It heard SIGTERM and went on."),
    ],
)
def test_a_kill_after_the_grace_period_comes_with_its_cause(
    changes: dict[str, object], words: str
) -> None:
    found = failing(struck(killed=True, exit_code=137, left_seconds=15.0, **changes))

    assert words in found["killed"]


@pytest.mark.parametrize(
    "changes",
    [
        {"notice": False},
        {"moment": Moment.LAST_SAVE},
        {"moment": Moment.START_UP, "in_start_up": True, "handling": Handling.DEFAULT},
    ],
)
def test_a_kill_without_its_grace_period_is_not_held_against_the_program(
    changes: dict[str, object],
) -> None:
    facts = struck(killed=True, exit_code=137, **changes)

    assert "killed" not in failing(facts)
    assert "killed" in {one.code for one in judge(facts)[1]}


def test_one_that_never_heard_the_notice_is_told_even_if_it_was_done_by_itself() -> None:
    found = failing(struck(handling=Handling.DEFAULT, exit_code=0, left_seconds=3.0))

    assert "1 of 1 times it never heard SIGTERM" in found["killed"]


def test_one_that_was_about_to_leave_anyway_is_not_blamed() -> None:
    found = failing(struck(handling=Handling.UNKNOWN, exit_code=0, left_seconds=0.02))

    assert "killed" not in found


def test_a_supervisor_that_leaves_with_a_code_has_heard_the_notice() -> None:
    assert failing(struck(handling=Handling.DEFAULT, exit_code=75)) == {}


def test_a_notice_before_the_handler_was_there_is_forgiven_if_others_were_heard() -> None:
    unheard = eviction(2, killed=True, exit_code=137, handling=Handling.DEFAULT)

    facts = with_leg(GOOD, evictions=(eviction(1), unheard))
    [told] = [one.reason for one in judge(facts)[0] if one.code == "killed"]
    assert "killed" not in failing(facts)
    assert "It left 1 of 1 times" in told
    assert told.endswith("In its start-up it could not hear 1 more.")
    assert "killed" in failing(with_leg(GOOD, evictions=(unheard,)))


def test_a_last_attempt_as_long_as_the_whole_work_started_over() -> None:
    again = replace(LAST, ended_seconds=LAST.started_seconds + 10.0)

    saved = (Save(at_seconds=3.0, path="c.json"),)

    saving = failing(with_leg(GOOD, attempts=(FIRST, again), saves=saved))
    too_late = failing(with_leg(GOOD, attempts=(FIRST, again)))

    assert "It started over: resume" in saving["started-over"]
    assert "Nothing had been saved by then" in too_late["started-over"]


def test_one_that_never_wrote_anything_is_told_to_save() -> None:
    again = replace(LAST, ended_seconds=LAST.started_seconds + 10.0)
    facts = replace(GOOD, figures=replace(FIGURES, saves=0))

    assert "save, and resume" in failing(with_leg(facts, attempts=(FIRST, again)))["started-over"]


def test_a_slow_last_attempt_that_printed_or_computed_less_did_not_start_over() -> None:
    slow = replace(LAST, ended_seconds=LAST.started_seconds + 10.0, output_lines=20)
    printing = replace(GOOD, figures=replace(FIGURES, output_lines=100))
    computing = replace(GOOD, figures=replace(FIGURES, cpu_seconds=9.0))

    assert failing(with_leg(printing, attempts=(FIRST, slow))) == {}
    assert failing(with_leg(computing, attempts=(FIRST, slow))) == {}


def test_a_quick_last_attempt_that_printed_everything_again_started_over() -> None:
    """The baseline may have been slow on a busy machine."""
    quick = replace(LAST, ended_seconds=LAST.started_seconds + 7.0, output_lines=100)
    facts = replace(GOOD, figures=replace(FIGURES, output_lines=100))

    assert set(failing(with_leg(facts, attempts=(FIRST, quick)))) == {"started-over"}


def test_attempts_that_had_hardly_worked_show_nothing() -> None:
    again = replace(LAST, ended_seconds=LAST.started_seconds + 10.0)
    facts = with_leg(GOOD, attempts=(FIRST, again), evictions=(eviction(1, work_seconds=0.5),))

    assert "started-over" in {one.code for one in judge(facts)[1]}


def run(*attempts: tuple[int | None, int, int | None]) -> RunEvidence:
    return RunEvidence(
        folder="run",
        finished=True,
        steps_done=100,
        attempts=tuple(
            RunAttempt(
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
        ([(0, 40, 40), (0, 100, 100)], "began at step 0, although step 40 had been saved"),
        ([(0, 40, None), (0, 100, 100)], "nothing had been saved"),
        ([(0, 40, 40), (40, 100, 100)], None),
        ([(0, 5, None), (0, 100, 100)], None),
        ([(0, 40, 40), (None, 0, None), (40, 100, 100)], None),
    ],
)
def test_with_a_journal_the_steps_tell_who_started_over(
    attempts: list[tuple[int | None, int, int | None]], words: str | None
) -> None:
    again = replace(LAST, ended_seconds=LAST.started_seconds + 10.0)
    facts = replace(with_leg(GOOD, attempts=(FIRST, again)), runs=(run(*attempts),))

    found = failing(facts)

    assert ("started-over" in found) == (words is not None)
    assert words is None or words in found["started-over"]


CRASH = attempt(
    2,
    5.3,
    5.5,
    ended=Ended.FAILED,
    exit_code=1,
    eviction=None,
    output_tail="Traceback\njson.JSONDecodeError: Expecting value",
)


def test_a_crash_on_what_a_kill_left_half_written_is_torn() -> None:
    kill = eviction(1, notice=False, killed=True, left_seconds=0.0, writing=("c.json",))
    facts = with_leg(GOOD, attempts=(FIRST, CRASH), evictions=(kill,), end=LegEnd.CRASH_LOOP)

    found = failing(facts)

    assert set(found) == {"not-finished", "torn"}
    assert "half written (c.json)" in found["torn"]
    assert "JSONDecodeError" in found["not-finished"]


def test_a_crash_after_a_calm_end_is_only_a_crash() -> None:
    other = replace(CRASH, output_tail="port 80 is in use")
    facts = with_leg(GOOD, attempts=(FIRST, other, replace(LAST, number=3)))

    found = failing(facts)

    assert set(found) == {"crashed"}
    assert "port 80 is in use" in found["crashed"]


def test_a_torn_artifact_is_torn() -> None:
    facts = replace(
        GOOD, comparisons=(Comparison(name="r.json", torn="cut", difference="it is torn: cut"),)
    )

    assert "r.json is torn: cut." in failing(facts)["torn"]


def test_a_leg_that_ran_out_of_time_is_not_finished() -> None:
    facts = with_leg(GOOD, attempts=(FIRST,), end=LegEnd.TIMED_OUT)

    assert "It was not done after 20 s." in failing(facts)["not-finished"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"finished_when": False}, "--finished-when says"),
        ({"missing": ("model.pt",), "comparisons": ()}, "'model.pt' was not written"),
    ],
)
def test_exit_0_without_the_result_is_not_finished(changes: dict[str, object], words: str) -> None:
    facts = replace(GOOD, **changes)  # type: ignore[arg-type]  # the names are those of the class

    assert words in failing(facts)["not-finished"]


def test_a_result_that_differs_says_where_it_went_apart() -> None:
    apart = Divergence(step=4, leaf="opt.m", attempt=2, at_resume=False, batch_differs=True)
    hashes = HashComparison(steps=9, last_step=9, divergence=apart)
    differs = (Comparison(name="model.pt", difference="it differs from byte 3 on"),)

    plain = failing(replace(GOOD, comparisons=differs))["not-identical"]
    located = failing(replace(GOOD, comparisons=differs, hashes=hashes))["not-identical"]

    assert "random generators" in plain
    assert "step 4, opt.m, after attempt 1; the batch differed" in located


def test_without_artifacts_the_hashes_of_the_state_decide() -> None:
    same = HashComparison(steps=9, last_step=9, divergence=None)
    apart = replace(
        same,
        divergence=Divergence(step=4, leaf="w", attempt=2, at_resume=True, batch_differs=False),
    )

    assert failing(replace(GOOD, comparisons=(), hashes=same)) == {}
    assert "step 4, w" in failing(replace(GOOD, comparisons=(), hashes=apart))["not-identical"]


def test_lost_and_doubled_items_come_with_examples() -> None:
    items = ItemDifference(
        key=("id",),
        items=50,
        lost=2,
        doubled=1,
        lost_examples=("a", "b"),
        doubled_examples=("c",),
    )
    facts = replace(GOOD, comparisons=(Comparison(name="r.csv", difference="x", items=(items,)),))

    found = failing(facts)

    assert "2 of 50 items are missing in r.csv, such as a, b." in found["lost-items"]
    assert "1 items were stored more than once in r.csv, such as c." in found["doubled-items"]


def test_fewer_evictions_than_planned_are_inconclusive() -> None:
    found = failing(replace(GOOD, needed=5))

    assert "Only 1 of 5 evictions landed" in found["inconclusive"]


def test_an_eviction_that_came_as_the_work_was_done_shows_nothing() -> None:
    assert "Only 0 of 1 evictions landed" in failing(struck(exit_code=0))["inconclusive"]


def test_every_no_says_what_it_saw_in_one_line() -> None:
    for facts in (struck(unfinished_zero=True), replace(GOOD, needed=5)):
        for verdict in judge(facts)[0]:
            assert isinstance(verdict, Verdict)
            assert "\n" not in verdict.reason and verdict.reason.endswith(".")


def test_a_sign_that_does_not_come_again_makes_no_restart_look_shorter() -> None:
    """Its first start wrote a cache, so later ones were seen to be ready only much later."""
    again = replace(
        LAST, ended_seconds=LAST.started_seconds + 10.0, ready_seconds=LAST.started_seconds + 4.0
    )

    assert "started-over" in failing(with_leg(GOOD, attempts=(FIRST, again)))


def test_a_few_lines_less_do_not_outweigh_the_clock() -> None:
    """The first start said that it was downloading; every one then did the whole work."""
    again = replace(LAST, ended_seconds=LAST.started_seconds + 10.0, output_lines=5)
    few = replace(GOOD, figures=replace(FIGURES, output_lines=7))
    many = replace(GOOD, figures=replace(FIGURES, output_lines=110))

    assert "started-over" in failing(with_leg(few, attempts=(FIRST, again)))
    again = replace(again, output_lines=98)
    assert "started-over" in failing(with_leg(many, attempts=(FIRST, again)))


def test_leaving_with_0_where_nothing_shows_that_the_work_was_done_is_inconclusive() -> None:
    found = failing(struck(unproven_zero=True, exit_code=0))

    assert "nothing shows whether the work was done" in found["inconclusive"]
    assert "exit-zero" not in found


def test_a_job_that_found_what_the_baseline_left_is_told_to_reset() -> None:
    at_once = replace(LAST, number=1, started_seconds=0.0, ended_seconds=0.4)
    facts = with_leg(GOOD, attempts=(at_once,), evictions=())

    assert "--reset" in failing(facts)["inconclusive"]
