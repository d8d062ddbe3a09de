"""How long a run waits for its next machine, as a trace shows it."""

import json

import pytest

from outlast.capacity.simulation.replay import mean_wait_in
from outlast.capacity.simulation.traces import parse_trace


def steps(*data: int) -> str:
    return json.dumps({"metadata": {"gap_seconds": 60}, "data": data})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (steps(1, 0, 0, 1, 0, 1, 1), 90.0),
        (steps(1, 0, 0, 1, 0, 0, 0, 0), 360.0),
        (steps(1, 0, 0, 0), 180.0),
        ("0,add,a\n0,add,b\n60000,remove,a\n120000,remove,b\n180000,add,c\n240000,add,d\n", 30.0),
    ],
    ids=["gaps", "the last goes on", "never again", "a pool has another"],
)
def test_the_mean_wait_is_the_time_without_a_machine_by_loss(text: str, seconds: float) -> None:
    assert mean_wait_in(parse_trace(text, name="t")) == seconds
