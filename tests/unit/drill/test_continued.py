"""Whether the last attempt continued or started over, from literal evidence."""

from collections.abc import Iterable, Mapping

import pytest

from outlast.drills.judge.continued import Continuation, by_files, by_lines, never_printed
from outlast.drills.run.evidence import AttemptEvidence
from outlast.drills.run.file_activity import FileActivity
from outlast.drills.run.printed import (
    PrintedLines,
    counting_columns,
    printed_lines,
    reached_end,
)

SETTINGS = "settings: 2 layers\nloading part 1 of 3\nloading part 2 of 3\nloading part 3 of 3\n"


def steps(numbers: Iterable[int], *, head: str = "", line: str = "step {}") -> PrintedLines:
    return printed_lines(head + "".join(f"{line.format(number)}\n" for number in numbers))


BASELINE = steps(range(60))


def test_lines_that_were_all_printed_again_show_a_new_start_and_are_counted() -> None:
    found = by_lines(BASELINE, [steps(range(30))], steps(range(60)))

    assert found.outcome is Continuation.STARTED_OVER
    assert found.sentence == "60 of 60 lines like 'step 59' were printed again"


def test_lines_that_were_skipped_show_that_it_continued() -> None:
    found = by_lines(BASELINE, [steps(range(30)), steps(range(28, 45))], steps(range(40, 60)))

    assert found.outcome is Continuation.CONTINUED
    assert found.sentence == (
        "it printed 20 of 60 lines like 'step 59', and earlier attempts had printed 40 others"
    )


@pytest.mark.parametrize(
    ("earlier", "last", "why"),
    [
        (range(3), range(60), "earlier attempts had hardly begun"),
        (range(30), range(40), "it stopped early, without a gap"),
        (range(30), [0, 7, 20, 41, 59], "a timer selected the lines"),
        (range(30), range(100, 160), "the numbers are not those of the baseline"),
        ([], range(60), "the earlier attempts printed none"),
        (range(30), [], "the last attempt printed none"),
    ],
)
def test_without_clear_evidence_nothing_is_known(
    earlier: Iterable[int], last: Iterable[int], why: str
) -> None:
    found = by_lines(BASELINE, [steps(earlier)], steps(last))

    assert found.outcome is Continuation.UNKNOWN, why


def test_an_eviction_after_all_lines_is_reported_as_too_late() -> None:
    found = by_lines(BASELINE, [steps(range(30)), steps(range(20, 60))], steps([]))

    assert found.outcome is Continuation.UNKNOWN
    assert found.came_too_late
    assert found.sentence == (
        "earlier attempts had printed 60 of 60 lines like 'step 59', and it printed none"
    )
    assert not by_lines(BASELINE, [steps(range(59))], steps([])).came_too_late


def test_a_few_lines_that_were_not_printed_again_are_enough() -> None:
    found = by_lines(BASELINE, [steps(range(3))], steps(range(3, 60)))

    assert found.outcome is Continuation.CONTINUED
    assert by_lines(BASELINE, [steps([0])], steps(range(1, 60))).outcome is Continuation.UNKNOWN


def test_numbered_lines_of_the_startup_are_not_taken_for_a_new_start() -> None:
    baseline = steps(range(60), head=SETTINGS)
    earlier, last = steps(range(30), head=SETTINGS), steps(range(30, 60), head=SETTINGS)

    assert by_lines(baseline, [earlier], last).outcome is Continuation.CONTINUED


def test_a_part_that_is_done_only_once_does_not_hide_a_new_start() -> None:
    once = "".join(f"building shard {number} of 90\n" for number in range(1, 91))
    baseline, earlier = steps(range(60), head=once), steps(range(30), head=once)

    assert by_lines(baseline, [earlier], steps(range(60))).outcome is Continuation.STARTED_OVER


def test_lines_do_not_show_what_became_of_the_silent_work_after_them() -> None:
    done, nothing = steps(range(60)), steps([])

    assert by_lines(BASELINE, [done], nothing).outcome is Continuation.UNKNOWN
    assert by_lines(BASELINE, [done], done).outcome is Continuation.STARTED_OVER


def test_lines_that_a_faster_run_left_out_were_not_skipped_by_resuming() -> None:
    baseline = steps([0, 25, 50, 75, 100], line="{} percent")
    early, last = steps([0, 25], line="{} percent"), steps([0, 100], line="{} percent")

    assert by_lines(baseline, [early, early], last).outcome is Continuation.UNKNOWN


def test_lines_that_no_attempt_printed_are_counted() -> None:
    early, last = steps(range(20)), steps(range(25, 60))

    assert by_lines(BASELINE, [early], last).outcome is Continuation.CONTINUED
    assert never_printed(BASELINE, [early, last]) == (
        "no attempt printed 5 of 60 lines like 'step 59'"
    )
    assert never_printed(BASELINE, [early, steps(range(22, 60))]) is None
    assert never_printed(steps([0, 3, 4, 9, 11, 20]), [steps([0]), steps([20])]) is None


def test_times_fractions_and_process_numbers_do_not_hide_the_step() -> None:
    def line(pid: int, seconds: int) -> str:
        now = 1767348671123 + seconds
        return (
            f"2026-01-02 10:11:{seconds:02},123 [{pid}] {now} step {{}} of 60 loss 0.{seconds} 3e-4"
        )

    found = by_lines(
        steps(range(60), line=line(11, 1)),
        [steps(range(30), line=line(22, 2))],
        steps(range(30, 60), line=line(33, 3)),
    )

    assert found.outcome is Continuation.CONTINUED


@pytest.mark.parametrize("unit", [1, 1000], ids=["seconds", "milliseconds"])
def test_a_time_that_counts_up_is_not_taken_for_the_step(unit: int) -> None:
    def stamped(numbers: Iterable[int], began: int) -> PrintedLines:
        lines = (f"[{(began + number) * unit}] step {number}\n" for number in numbers)
        return printed_lines("".join(lines))

    baseline = stamped(range(60), 1767348671)
    earlier, last = stamped(range(30), 1767349000), stamped(range(30, 60), 1767350000)

    assert by_lines(baseline, [earlier], last).outcome is Continuation.CONTINUED
    again = stamped(range(60), 1767350000)
    assert by_lines(baseline, [earlier], again).outcome is Continuation.STARTED_OVER


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([(3, 60), (4, 60), (5, 60)], (0,)),
        ([(0, 0), (0, 1), (1, 0), (1, 1)], (0, 1)),
        ([(0, 1), (1, 1), (0, 2), (1, 2)], (1,)),
        ([(5, 1), (3, 2), (4, 3)], (1,)),
        ([(3,), (1,), (2,)], None),
        ([(7,), (7,), (7,)], None),
    ],
    ids=["a total", "epoch and batch", "two ranks", "noise first", "no order", "constant"],
)
def test_the_integers_that_count_are_found(
    rows: list[tuple[int, ...]], columns: tuple[int, ...] | None
) -> None:
    assert counting_columns(rows) == columns


def test_a_progress_bar_is_left_out_and_a_cut_line_too() -> None:
    found = printed_lines("\r 0% 0/60\r 50% 30/60\r100% 60/60\nstep 1\nstep 2")

    assert sorted(rows for rows in found.rows.values()) == [((1,),), ((100, 60, 60),)]


def test_a_quoted_line_shows_no_secret() -> None:
    secret = "postgresql://me:hunter2hunter2@db/x"
    found = by_lines(
        steps(range(9), line=f"step {{}} to {secret}"),
        [steps(range(5), line=f"step {{}} to {secret}")],
        steps(range(9), line=f"step {{}} to {secret}"),
    )

    assert found.outcome is Continuation.STARTED_OVER
    assert "hunter2" not in found.sentence


@pytest.mark.parametrize(
    ("printed", "done"),
    [(range(60), True), (range(59), False), ([], False)],
)
def test_the_last_line_of_the_baseline_shows_that_the_work_was_done(
    printed: Iterable[int], done: bool
) -> None:
    assert reached_end(BASELINE, steps(printed)) is done
    assert reached_end(printed_lines("working\n"), printed_lines("waiting\n")) is None


def wrote(
    written: Mapping[str, int], *, found: Iterable[str] = (), read: Iterable[str] = ()
) -> AttemptEvidence:
    files = {f"{name}.json": count for name, count in written.items()}
    activity = FileActivity(
        found=frozenset(found), read=frozenset(read), written=files, touched=frozenset(files)
    )
    return AttemptEvidence(printed=PrintedLines(), files=activity)


def judged(
    baseline: AttemptEvidence, earlier: AttemptEvidence, last: AttemptEvidence
) -> tuple[Continuation, str]:
    assert last.files is not None
    found = by_files(baseline, [earlier], last.files)
    return found.outcome, found.sentence


def test_one_that_reads_its_checkpoint_and_saves_less_often_continued() -> None:
    last = wrote({"c": 4}, found=["c.json"], read=["c.json"])

    outcome, sentence = judged(wrote({"c": 10}), wrote({"c": 6}), last)

    assert outcome is Continuation.CONTINUED
    assert sentence == "it read 'c.json' and wrote it 4 times; the baseline wrote it 10 times"


def test_one_that_reads_nothing_of_what_it_overwrites_started_over() -> None:
    outcome, sentence = judged(
        wrote({"c": 10}), wrote({"c": 6}), wrote({"c": 10}, found=["c.json"])
    )

    assert outcome is Continuation.STARTED_OVER
    assert "it read nothing that earlier attempts had written ('c.json')" in sentence


@pytest.mark.parametrize("count", [9, 10, 12])
def test_one_that_reads_its_checkpoint_but_saves_as_often_is_not_judged(count: int) -> None:
    last = wrote({"c": count}, found=["c.json"], read=["c.json"])

    assert judged(wrote({"c": 10}), wrote({"c": 6}), last)[0] is Continuation.UNKNOWN


def test_files_that_were_kept_show_that_it_continued() -> None:
    names = [f"item{number}" for number in range(10)]
    baseline = wrote(dict.fromkeys(names, 1))
    left = [f"{name}.json" for name in names[:6]]
    last = wrote(dict.fromkeys(names[6:], 1), found=left)

    outcome, sentence = judged(baseline, wrote(dict.fromkeys(names[:6], 1)), last)

    assert outcome is Continuation.CONTINUED
    assert sentence == "it wrote 4 of 10 files like 'item0.json', and kept 6 of earlier attempts"


def test_a_cache_that_is_complete_shows_no_progress() -> None:
    names = [f"shard{number}" for number in range(5)]
    left = [f"{name}.json" for name in names]
    shards = dict.fromkeys(names, 1)

    last = wrote({"result": 1}, found=left, read=left)

    assert judged(wrote({"result": 1, **shards}), wrote(shards), last)[0] is Continuation.UNKNOWN
