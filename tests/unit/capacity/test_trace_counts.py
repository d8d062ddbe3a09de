"""Traces of steps with the number of machines, and a polarity that cannot be right."""

import json

import pytest

from outlast.capacity.simulation.traces import TraceError, TracePolarity, parse_trace


def steps(*data: int) -> str:
    return json.dumps({"metadata": {"gap_seconds": 60}, "data": list(data)})


def test_counts_become_lives() -> None:
    trace = parse_trace(steps(2, 3, 1, 1, 0, 1), name="t")

    assert trace.seconds == 360
    assert trace.losses == 3
    assert sorted(life.end_seconds for life in trace.lives) == [120, 120, 240, 360]
    # Two machines for a minute, then three, then one for two minutes, then none, then one.
    assert trace.machine_seconds == 60 * (2 + 3 + 1 + 1 + 0 + 1)


def test_counts_are_always_of_available_machines() -> None:
    with pytest.raises(TraceError, match="up to 16, which can only mean available ones"):
        parse_trace(steps(16, 0, 3), name="t", polarity=TracePolarity.PREEMPTED)


@pytest.mark.parametrize("odd", [-1, 1.5, True, "1", None])
def test_other_steps_are_refused(odd: object) -> None:
    text = json.dumps({"metadata": {"gap_seconds": 60}, "data": [1, odd]})

    with pytest.raises(TraceError, match="whole numbers of at least 0"):
        parse_trace(text, name="t")


def test_rare_single_steps_look_like_preemptions() -> None:
    events = [1 if n % 50 == 7 else 0 for n in range(1000)]

    [note] = parse_trace(steps(*events), name="t").repairs

    assert "--polarity preempted" in note
    assert parse_trace(steps(*events), name="t", polarity=TracePolarity.PREEMPTED).repairs == ()


def test_a_scarce_machine_is_not_taken_for_a_wrong_polarity() -> None:
    scarce = [1 if n % 50 in (7, 8, 9) else 0 for n in range(1000)]

    assert parse_trace(steps(*scarce), name="t").repairs == ()
