"""What a journal tells about a run: interruptions, lost steps, goodput, overhead."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from outlast.journal import (
    AttemptExited,
    AttemptFailed,
    AttemptFenced,
    AttemptInterrupted,
    AttemptRecord,
    AttemptStarted,
    Dropped,
    Ending,
    Event,
    FinalChoice,
    FinalDecision,
    Grace,
    Metrics,
    NoticeArrived,
    Progress,
    Resumed,
    RunFinished,
    Saved,
    SaveFailed,
    UnknownEvent,
    summarize,
)

SEED = 3
START = datetime(2026, 8, 21, 10, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def started(seconds: float, attempt: int = 1) -> AttemptStarted:
    return AttemptStarted(at=at(seconds), attempt=attempt, host="node", pid=1)


def resumed(seconds: float, step: int) -> Resumed:
    return Resumed(at=at(seconds), step=step, seconds=2.0, bytes_read=100)


def progress(seconds: float, step: int) -> Progress:
    return Progress(at=at(seconds), step=step)


def saved(seconds: float, step: int, *, stall: float = 0.0, final: bool = False) -> Saved:
    return Saved(
        at=at(seconds),
        step=step,
        stall_seconds=stall,
        seconds=2.0,
        bytes_total=1000,
        bytes_new=100,
        final=final,
    )


def notice(seconds: float, left: float = 15.0) -> NoticeArrived:
    return NoticeArrived(at=at(seconds), source="signal", reason="SIGTERM", seconds_left=left)


def left(seconds: float, step: int, code: int = 75) -> AttemptExited:
    return AttemptExited(at=at(seconds), exit_code=code, step=step)


def record(attempt: int, *events: Event, garbled: int = 0) -> AttemptRecord:
    return AttemptRecord(attempt=attempt, events=events, garbled=garbled)


KILLED = record(1, started(0), progress(60, 60), saved(62, 60), progress(100, 100))
EVICTED = record(
    2,
    started(110, 2),
    resumed(120, 60),
    progress(160, 100),
    notice(170),
    FinalDecision(at=at(170), step=110, choice=FinalChoice.FULL),
    saved(174, 110, stall=1.0, final=True),
    AttemptInterrupted(at=at(175), step=110, reason="SIGTERM"),
    left(176, 110),
)
LAST = record(
    3,
    started(200, 3),
    resumed(210, 110),
    saved(262, 160, stall=2.0),
    progress(302, 200),
    RunFinished(at=at(302), step=200),
    left(303, 200, code=0),
)
RUN = [KILLED, EVICTED, LAST]


def test_a_run_with_a_kill_and_an_eviction_is_told_in_full() -> None:
    summary = summarize(RUN)

    assert [attempt.ending for attempt in summary.attempts] == [
        Ending.KILLED,
        Ending.ANNOUNCED,
        Ending.FINISHED,
    ]
    assert summary.finished
    assert summary.interruptions_unannounced == 1
    assert summary.interruptions_announced == 1
    assert summary.interruptions_missed == 0
    assert [attempt.steps_lost for attempt in summary.attempts] == [40, 0, 0]
    assert [attempt.steps_redone for attempt in summary.attempts] == [0, 40, 0]
    assert (summary.steps_lost, summary.steps_lost_max, summary.steps_redone) == (40, 40, 40)
    assert summary.steps_done == 200


def test_the_time_of_a_run_is_told_in_full() -> None:
    summary = summarize(RUN)

    assert summary.total_seconds == 303
    assert summary.running_seconds == 100 + 66 + 103
    assert [attempt.waited_seconds for attempt in summary.attempts] == [0, 10, 24]
    assert summary.restart_seconds == 34
    # 100 steps in 100 s; 50 in 50 s, up to the notice; 90 in 92 s, less 2 s of stall.
    assert summary.step_seconds == pytest.approx(1.0)
    assert summary.useful_seconds == pytest.approx(200)
    assert summary.goodput == pytest.approx(200 / 303)
    assert summary.attempts[1].grace == Grace(used_seconds=6, given_seconds=15)
    assert summary.attempts[0].grace is None


def test_what_each_attempt_took_to_start_is_told() -> None:
    attempts = [*RUN, record(4, started(400, 4), resumed(410, 200), notice(430), left(440, 200))]

    summary = summarize(attempts)

    # The last one never did a step, and had a notice before it would have.
    assert [attempt.starting_seconds for attempt in summary.attempts] == [0, 10, 10, 30]


def test_what_comes_between_a_notice_and_the_final_save_is_no_part_of_a_step() -> None:
    late = FinalDecision(at=at(50), step=20, choice=FinalChoice.FULL)

    summary = summarize([record(1, started(0), progress(1, 1), notice(20), late, left(60, 20))])

    assert summary.step_seconds == pytest.approx(1.0)


def test_getting_warm_is_no_part_of_a_step() -> None:
    attempts = [
        record(1, started(0), progress(301, 1), saved(312, 10, stall=1.0), progress(321, 20)),
        record(2, started(400, 2), resumed(410, 10), progress(711, 11), left(720, 20)),
    ]

    summary = summarize(attempts)

    # From the first to the 20th step in 19 s and 1 s of a save; from the 11th to the 20th in 9 s.
    assert summary.step_seconds == pytest.approx(1.0)
    assert [attempt.starting_seconds for attempt in summary.attempts] == [300, 310]
    assert summary.resume_seconds == 2


def test_one_line_of_progress_tells_of_steps_too() -> None:
    summary = summarize([record(1, started(0), resumed(10, 5), progress(30, 15))])

    assert summary.step_seconds == pytest.approx(2.0)
    assert summary.attempts[0].starting_seconds == pytest.approx(10)


def test_the_saves_of_a_run_are_told_in_full() -> None:
    summary = summarize(RUN)

    assert summary.saves == 3
    assert (summary.stall_seconds, summary.save_seconds, summary.resume_seconds) == (1, 2, 2)
    assert summary.bytes_total == 1000


def test_nothing_at_all_is_a_summary_too() -> None:
    for attempts in ([], [record(1)]):
        summary = summarize(attempts)

        assert not summary.finished
        assert summary.goodput is None
        assert summary.step_seconds is None
        assert summary.steps_done == 0


# How an attempt ended


@pytest.mark.parametrize(
    ("events", "ending"),
    [
        ([progress(1, 1)], Ending.KILLED),
        ([notice(1)], Ending.ANNOUNCED),
        ([notice(1), left(2, 1)], Ending.ANNOUNCED),
        ([notice(1), left(2, 1, code=0)], Ending.ANNOUNCED),
        ([RunFinished(at=at(1), step=1)], Ending.FINISHED),
        ([notice(1), RunFinished(at=at(1), step=1), left(2, 1)], Ending.FINISHED),
        ([AttemptFailed(at=at(1), step=1, error="ValueError")], Ending.FAILED),
        ([left(1, 1, code=1)], Ending.FAILED),
        ([left(1, 1, code=0)], Ending.LEFT),
        ([AttemptFenced(at=at(1), step=1, newer_attempt=2), left(2, 1)], Ending.FENCED),
    ],
)
def test_the_end_of_an_attempt_is_known_from_its_events(
    events: list[Event], ending: Ending
) -> None:
    summary = summarize([record(1, started(0), *events), record(2, started(50, 2))])

    assert summary.attempts[0].ending is ending


def test_the_newest_attempt_without_an_end_may_still_run() -> None:
    attempts = [record(1, started(0), progress(10, 10))]

    assert summarize(attempts).attempts[0].ending is Ending.OPEN
    assert summarize(attempts).interruptions_unannounced == 0
    assert summarize(attempts).steps_done == 10
    assert summarize(attempts, is_live=False).attempts[0].ending is Ending.KILLED
    assert summarize(attempts, is_live=False).interruptions_unannounced == 1


def test_an_announced_interruption_whose_final_save_did_not_commit_was_missed() -> None:
    late = [started(0), saved(5, 5), progress(10, 10), notice(11)]
    next_one = record(2, started(50, 2), resumed(51, 5))

    summary = summarize([record(1, *late), next_one])

    assert (summary.interruptions_announced, summary.interruptions_missed) == (1, 1)
    assert summary.steps_lost == 5


def test_keeping_a_checkpoint_that_holds_every_step_misses_nothing() -> None:
    kept = [started(0), progress(10, 10), saved(11, 10), notice(12), left(13, 10)]

    assert summarize([record(1, *kept)]).interruptions_missed == 0


def test_an_error_of_the_program_is_no_interruption() -> None:
    summary = summarize(
        [record(1, started(0), AttemptFailed(at=at(1), step=3, error="ValueError"))]
    )

    assert summary.failures == 1
    assert summary.interruptions_announced == summary.interruptions_unannounced == 0


def test_a_finished_run_that_is_extended_is_not_finished_any_more() -> None:
    attempts = [*RUN, record(4, started(400, 4), resumed(401, 200), progress(410, 210))]

    summary = summarize(attempts)

    assert not summary.finished
    assert summary.steps_done == 210


# Lost and redone


def test_an_attempt_killed_before_it_resumed_neither_loses_nor_hides_a_loss() -> None:
    attempts = [KILLED, record(2, started(110, 2)), record(3, started(130, 3), resumed(131, 60))]

    summary = summarize(attempts)

    assert [attempt.steps_lost for attempt in summary.attempts] == [40, 0, 0]
    assert summary.attempts[1].first_step is None
    assert summary.interruptions_unannounced == 2


def test_a_run_killed_before_its_first_save_begins_anew() -> None:
    attempts = [
        record(1, started(0), progress(30, 30)),
        record(2, started(40, 2), progress(60, 20)),
    ]

    summary = summarize(attempts)

    assert summary.steps_lost == 30
    assert summary.steps_redone == 20
    assert summary.steps_done == 20


def test_steps_of_an_attempt_that_is_over_stand_only_if_they_were_saved() -> None:
    attempts = [record(1, started(0), saved(50, 50), progress(80, 80), left(81, 80, code=1))]

    assert summarize(attempts).steps_done == 50


def test_metrics_tell_how_far_an_attempt_came() -> None:
    attempts = [
        record(1, started(0), Metrics(at=at(9), step=9, values={"loss": 1.0})),
        record(2, started(20, 2), resumed(21, 4)),
    ]

    assert summarize(attempts).steps_lost == 5


def test_in_any_run_what_is_redone_was_lost_and_the_shares_are_shares() -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        attempts, step, clock = [], 0, 0.0
        for number in range(1, chance.randrange(2, 8)):
            events: list[Event] = [started(clock, number), resumed(clock + 1, step)]
            done, kept = step, step
            for _ in range(chance.randrange(0, 10)):
                clock += chance.uniform(-1, 10)
                done += chance.randrange(0, 10)
                events.append(progress(clock, done))
                if chance.random() < 0.3:
                    kept = done
                    events.append(saved(clock, done, stall=chance.uniform(0, 1)))
            attempts.append(record(number, *events))
            step = kept

        summary = summarize(attempts)

        assert summary.steps_redone <= summary.steps_lost, SEED
        assert 0 <= summary.steps_lost_max <= summary.steps_lost, SEED
        assert summary.goodput is None or 0 <= summary.goodput <= 1, SEED
        assert summary.running_seconds >= 0, SEED
        assert summary.interruptions_unannounced == len(attempts) - 1, SEED


# Odd journals


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    attempts = [
        record(1, started(3600), progress(3700, 100), notice(3700), left(100, 100)),
        record(2, started(110, 2), resumed(111, 100), progress(50, 101)),
    ]

    summary = summarize(attempts)

    assert summary.restart_seconds >= 0
    assert all(attempt.seconds >= 0 for attempt in summary.attempts)
    assert summary.step_seconds is not None
    assert summary.step_seconds >= 0


def test_what_is_unknown_missing_or_garbled_is_counted_and_does_no_harm() -> None:
    odd = UnknownEvent(at=at(5), name="migrated", extra={"step": 10**9})
    events = [
        started(0),
        odd,
        SaveFailed(at=at(6), step=6, error="EIO"),
        Dropped(at=at(7), count=4),
    ]

    summary = summarize([record(1, *events, garbled=2)])

    assert summary.attempts[0].last_step == 6
    assert (summary.events_dropped, summary.lines_garbled) == (4, 2)


@pytest.mark.parametrize(
    "odd",
    [
        progress(5, 10**400),
        progress(5, -1),
        resumed(5, 2**61),
        saved(5, 5, stall=-1e308),
        saved(5, 5, stall=float("inf")),
        saved(5, 5, stall=float("nan")),
        Dropped(at=at(5), count=-3),
    ],
    ids=["step", "negative step", "resumed", "negative", "infinite", "not a number", "count"],
)
def test_a_line_whose_numbers_cannot_be_counts_as_garbled(odd: Event) -> None:
    summary = summarize([record(1, started(0), odd, progress(6, 6), garbled=1)])

    assert summary.lines_garbled == 2
    assert summary.attempts[0].last_step == 6
    assert (summary.saves, summary.stall_seconds, summary.events_dropped) == (0, None, 0)


def test_an_attempt_whose_start_is_garbled_loses_no_more_than_is_known() -> None:
    attempts = [
        record(1, started(0), saved(60, 60), progress(100, 100)),
        record(2, progress(150, 90), progress(160, 100), garbled=2),
    ]

    assert summarize(attempts).steps_lost == 10


def test_the_imports_of_a_process_are_a_part_of_its_attempt() -> None:
    def began(seconds: float, attempt: int) -> AttemptStarted:
        return replace(started(seconds, attempt), process_seconds=20.0)

    first = AttemptRecord(attempt=1, events=(began(20, 1), progress(30, 10), progress(90, 70)))
    second = AttemptRecord(
        attempt=2,
        events=(
            began(150, 2),
            resumed(152, 70),
            progress(162, 80),
            RunFinished(at=at(172), step=90),
        ),
    )

    summary = summarize([first, second])

    assert summary.total_seconds == 172
    assert [attempt.seconds for attempt in summary.attempts] == [90, 42]
    # The second process started at 130, after the first one was gone.
    assert summary.attempts[1].waited_seconds == 40
    # Steps take a second, however long the imports took.
    assert summary.step_seconds == 1
    assert [attempt.starting_seconds for attempt in summary.attempts] == [20, 22]


def test_a_process_older_than_time_is_no_error() -> None:
    event = AttemptStarted(
        at=datetime.min.replace(tzinfo=UTC), attempt=1, host="node", pid=1, process_seconds=9.0
    )

    summary = summarize([AttemptRecord(attempt=1, events=(event,))])

    assert summary.attempts[0].started == event.at
