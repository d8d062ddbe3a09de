"""Traces are read as they are meant, repaired where it is safe, and refused where it is not."""

import json
from pathlib import Path

import pytest

from outlast.capacity.simulation.traces import (
    MachinePeriod,
    TimestampRepair,
    TraceError,
    TracePolarity,
    parse_trace,
    read_trace,
)
from tests.unit.capacity.generated_traces import counts_trace, nodes_trace, steps_trace


def test_steps_become_lives() -> None:
    text = json.dumps({"metadata": {"gap_seconds": 100}, "data": [0, 1, 1, 0, 0, 1]})

    trace = parse_trace(text, name="t")

    assert trace.seconds == 600
    assert trace.lives == (
        MachinePeriod(start_seconds=100, end_seconds=300, lost=True),
        MachinePeriod(start_seconds=500, end_seconds=600, lost=False),
    )
    assert trace.mean_seconds == 300
    assert trace.repairs == ()


def test_the_polarity_can_be_flipped() -> None:
    text = json.dumps({"metadata": {"gap_seconds": 100}, "data": [0, 1, 1, 0]})

    trace = parse_trace(text, name="t", polarity=TracePolarity.PREEMPTED)

    assert [(life.start_seconds, life.end_seconds) for life in trace.lives] == [
        (0, 100),
        (300, 400),
    ]


def test_nodes_become_lives() -> None:
    text = "0,add,a\n1000,add,b\n4000,remove,a\n6000,add,a\n9000,remove,b\n"

    trace = parse_trace(text, name="t")

    assert trace.seconds == 9
    assert trace.lives == (
        MachinePeriod(start_seconds=0, end_seconds=4, lost=True),
        MachinePeriod(start_seconds=1, end_seconds=9, lost=True),
        MachinePeriod(start_seconds=6, end_seconds=9, lost=False),
    )


def test_counts_become_lives_and_every_loss_is_counted() -> None:
    text = "\n".join(
        f"2026-01-05, 10:{minute:02}:00, {count}"
        for minute, count in enumerate([5, 5, 3, 4, 4, 0, 2])
    )

    trace = parse_trace(text, name="t", seed=1)

    assert trace.losses == 2 + 4
    assert trace.machine_seconds == 60 * (5 + 5 + 3 + 4 + 4 + 0)
    assert trace.seconds == 360


@pytest.mark.parametrize(
    "text",
    [
        "date,time,count\n2021-12-01, 10:00:00, 2\n2021-12-01,10:05:00.5,0",
        "timestamp, count\n2021-12-01T10:00:00Z,2\n2021-12-01T10:05:00.500000000Z,0",
        "2021-12-01T12:00:00+02:00,2\n2021-12-01T10:05:00.5+00:00,0",
        "2021-12-01 10:00:00,2.0\n2021-12-01 10:05:00.5,0.0",
    ],
    ids=["date and time", "in UTC", "with an offset", "as a metrics service writes it"],
)
def test_counts_are_read_in_each_spelling_of_time(text: str) -> None:
    trace = parse_trace(text, name="t")

    assert trace.lives == (MachinePeriod(start_seconds=0, end_seconds=300.5, lost=True),) * 2


def test_a_header_is_skipped_and_lines_keep_their_numbers() -> None:
    assert parse_trace("ms,what,node\n0,add,a\n4000,remove,a", name="t").losses == 1

    with pytest.raises(TraceError, match="t:3: Invalid line 'x'"):
        parse_trace("ms,what,node\n0,add,a\nx", name="t")


def test_the_seed_draws_who_was_lost_but_not_how_many() -> None:
    text = counts_trace(1)

    traces = [parse_trace(text, name="t", seed=seed) for seed in (1, 1, 2)]

    assert traces[0] == traces[1]
    assert traces[0].lives != traces[2].lives
    assert traces[0].mean_seconds == pytest.approx(traces[2].mean_seconds)


@pytest.mark.parametrize("text", [steps_trace(1), nodes_trace(1), counts_trace(1)])
def test_a_file_of_any_format_is_recognised(text: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("\ufeff" + text)

    trace = read_trace(path)

    assert trace.name == "trace"
    assert trace.losses > 10


def test_a_few_times_that_go_backwards_are_repaired_and_told_of() -> None:
    text = counts_trace(2, backwards=15)

    kept = parse_trace(text, name="pool.txt")
    sorted_ = parse_trace(text, name="pool.txt", repair=TimestampRepair.SORT)

    [told] = kept.repairs
    assert "15 of 1440 timestamps in 'pool.txt' are earlier than the previous one" in told
    assert "kept the order of the lines" in told
    assert "sorted the lines" in sorted_.repairs[0]
    ends = [life.start_seconds for life in kept.lives]
    assert ends == sorted(ends)


def test_times_that_go_backwards_can_be_refused() -> None:
    with pytest.raises(TraceError, match="3 of 1440 times") as caught:
        parse_trace(counts_trace(3, backwards=3), name="t", repair=TimestampRepair.REFUSE)

    assert "--repair" in (caught.value.hint or "")


@pytest.mark.parametrize("text", [counts_trace(4), nodes_trace(4)], ids=["counts", "nodes"])
def test_a_reversed_trace_is_refused(text: str) -> None:
    backwards = "\n".join(reversed(text.splitlines()))

    with pytest.raises(TraceError, match="are earlier than the previous one") as caught:
        parse_trace(backwards, name="t")

    assert caught.value.hint == "Sort the lines by time."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'t' is empty"),
        ("  \n \n", "'t' is empty"),
        ("{}", "Expected JSON such as"),
        ("[1, 2]", "Expected JSON such as"),
        ("{" * 50_000, "Expected JSON such as"),
        ('{"metadata": {"gap_seconds": 0}, "data": [1]}', "got 0."),
        ('{"metadata": {"gap_seconds": -5}, "data": [1]}', "at most 86,400, got -5"),
        ('{"metadata": {"gap_seconds": true}, "data": [1]}', "at most 86,400, got True"),
        ('{"metadata": {"gap_seconds": 60}, "data": []}', "has no steps"),
        ('{"metadata": {"gap_seconds": 60}, "data": [1, -2]}', "not whole numbers of at least 0"),
        ('{"metadata": {"gap_seconds": 60}, "data": [0, 0]}', "has no available machines"),
        ("when,what,who", "t:1: Invalid line 'when,what,who'"),
        ("what a day\n0,add,a", "t:1: Invalid line 'what a day'"),
        ("0,add,a\n5,vanish,a", "t:2: Invalid line '5,vanish,a'"),
        ("0,add,a\n5,add,a", "t:2: 'a' was already added"),
        ("0,add,a\n5,remove,b", "t:2: 'b' was never added"),
        ("0,add,a", "lasts 0 s"),
        ("2026-01-05, 10:00:00, 5\n2026-01-05, 10:01:00, many", "t:2: "),
        ("2026-13-05, 10:00:00, 5\n2026-13-05, 10:01:00, 4", "Invalid time 2026-"),
        ("2026-01-05T10:00:00+99:00,5", "Invalid time 2026-"),
        ("2026-01-05, 10:00:00, 0\n2026-01-05, 11:00:00, 0", "has no available machines"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, words: str) -> None:
    with pytest.raises(TraceError) as caught:
        parse_trace(text, name="t")

    assert words in str(caught.value)
    assert caught.value.file == "t"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"Could not read the trace .*: No such file"):
        read_trace(tmp_path / "nothing.json")


def test_no_loss_means_no_mean() -> None:
    trace = parse_trace('{"metadata": {"gap_seconds": 60}, "data": [1, 1]}', name="t")

    assert trace.mean_seconds == float("inf")


def test_a_few_lines_cannot_ask_for_any_number_of_machines() -> None:
    times = [f"2021-12-11, 11:{n // 60:02}:{n % 60:02}" for n in range(60)]
    text = "\n".join(f"{time}, {99_999 * (n % 2)}" for n, time in enumerate(times))

    with pytest.raises(TraceError, match="has more than 1,000,000 machines"):
        parse_trace(text, name="bomb")


def test_a_file_that_is_not_text_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(bytes(range(256)))

    with pytest.raises(TraceError, match="is not UTF-8 text"):
        read_trace(path)
