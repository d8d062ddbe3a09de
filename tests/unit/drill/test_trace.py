import json
from pathlib import Path

import pytest

from outlast.capacity.simulation.traces import parse_trace
from outlast.drills.errors import DrillError
from outlast.drills.run.schedule import EVICTIONS_MAX, NodeLoss, losses_of, read_losses


def losses(text: str, workers: int = 1) -> list[NodeLoss]:
    return losses_of(parse_trace(text, name="t"), workers=workers)


def steps(data: list[int]) -> str:
    return json.dumps({"metadata": {"gap_seconds": 300}, "data": data})


def test_times_count_from_the_first_machine_and_outages_last_until_the_next() -> None:
    assert losses(steps([0, 1, 1, 0, 0, 1, 0, 1])) == [
        NodeLoss(at_seconds=600, outage_seconds=600),
        NodeLoss(at_seconds=1500, outage_seconds=300),
    ]


def test_there_is_no_outage_while_another_machine_is_left() -> None:
    text = "0,add,a\n0,add,b\n60000,remove,a\n90000,remove,b\n120000,add,c\n150000,add,d\n"

    assert losses(text) == [
        NodeLoss(at_seconds=60, outage_seconds=0),
        NodeLoss(at_seconds=90, outage_seconds=30),
    ]


def test_there_is_no_outage_if_another_machine_comes_at_that_time() -> None:
    text = "0,add,a\n60000,remove,a\n60000,add,b\n90000,add,c\n"

    assert losses(text) == [NodeLoss(at_seconds=60, outage_seconds=0)]


def test_the_end_of_a_trace_without_a_machine_leaves_no_endless_outage() -> None:
    assert losses(steps([1, 0])) == [NodeLoss(at_seconds=300, outage_seconds=0)]


@pytest.mark.parametrize(("workers", "lost"), [(1, 1), (4, 4), (9, 6)])
def test_a_deep_drop_takes_as_many_workers_as_there_are(workers: int, lost: int) -> None:
    text = "2026-01-05, 10:00:00, 8\n2026-01-05, 10:00:10, 2"

    assert losses(text, workers) == [NodeLoss(at_seconds=10, outage_seconds=0)] * lost


def test_a_long_trace_gives_no_more_evictions_than_a_drill_may_have() -> None:
    assert len(losses(steps([1, 0] * (EVICTIONS_MAX + 5)))) == EVICTIONS_MAX


def test_a_trace_without_a_loss_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(steps([0, 1, 1]))

    with pytest.raises(DrillError, match=r"trace\.json.* contains no loss of a machine") as caught:
        read_losses(path)

    assert "--evictions" in (caught.value.hint or "")


def test_what_the_reader_refuses_is_refused_with_its_words_and_hint(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("0,add,a\n5,drop,a\n")

    with pytest.raises(DrillError, match=r"trace\.csv:2: Invalid line '5,drop,a'") as caught:
        read_losses(path)

    assert "milliseconds,add|remove,node" in (caught.value.hint or "")
