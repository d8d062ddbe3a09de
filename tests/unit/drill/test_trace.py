import json
from pathlib import Path

import pytest

from outlast.drill.errors import DrillError
from outlast.drill.schedule import Loss
from outlast.drill.trace import losses_of, parse_counts, read_losses


def losses(text: str, workers: int = 1) -> list[Loss]:
    return losses_of(parse_counts(text), workers=workers)


def test_the_json_of_spot_traces_counts_nodes_at_even_gaps() -> None:
    text = json.dumps({"metadata": {"gap_seconds": 300}, "data": [0, 1, 1, 0, 0, 1, 0, 1]})

    assert losses(text) == [
        Loss(at_seconds=600.0, outage_seconds=600.0),
        Loss(at_seconds=1500.0, outage_seconds=300.0),
    ]


def test_nodes_that_come_and_go_are_counted() -> None:
    text = "0,add,a\n0,add,b\n60000,remove,a\n90000,remove,b\n120000,add,c\n"

    assert losses(text) == [
        Loss(at_seconds=60.0, outage_seconds=0.0),
        Loss(at_seconds=90.0, outage_seconds=30.0),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "date,time,count\n2021-12-01, 10:00:00, 2\n2021-12-01, 10:05:00, 1\n2021-12-01,10:10:00,0",
        "timestamp,count\n2021-12-01T10:00:00Z,2\n2021-12-01T10:05:00Z,1\n2021-12-01T10:10:00Z,0",
        "time,count\n2021-12-01 10:00:00,2.0\n2021-12-01 10:05:00,1.0\n2021-12-01 10:10:00,0.0",
        "0,2\n300,1\n600,0",
    ],
    ids=["date and time", "ISO 8601", "as a metrics service writes it", "seconds"],
)
def test_counts_over_time_are_read_in_each_shape(text: str) -> None:
    assert [loss.at_seconds for loss in losses(text)] == [300.0, 600.0]


def test_times_that_go_backwards_are_sorted() -> None:
    assert losses("0,1\n600,1\n300,0\n") == [Loss(at_seconds=300.0, outage_seconds=300.0)]


def test_a_deep_drop_takes_as_many_workers_as_there_are() -> None:
    assert len(losses("0,8\n10,2\n", workers=4)) == 4
    assert len(losses("0,8\n10,2\n", workers=1)) == 1


def test_what_is_lost_before_the_first_node_is_no_loss() -> None:
    assert losses("0,0\n10,0\n20,3\n30,1\n") == [Loss(at_seconds=10.0, outage_seconds=0.0)]


def test_the_end_of_a_trace_without_a_node_leaves_no_endless_outage() -> None:
    assert losses("0,1\n10,0\n") == [Loss(at_seconds=10.0, outage_seconds=0.0)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "It is no JSON"),
        ("[1, 2]", "no 'gap_seconds'"),
        ('{"metadata": {"gap_seconds": 0}, "data": [1, 0]}', "no 'gap_seconds' above 0"),
        ('{"metadata": {"gap_seconds": 5}, "data": 3}', "'data' is no list"),
        ('{"metadata": {"gap_seconds": 5}, "data": [1, "x"]}', "holds 'x'"),
        ("", "fewer than two entries"),
        ("a,b\nx,y\n", "Line 2 has 'y' where a number is expected"),
        ("0,1\nsoon,0\n", "Line 2 has 'soon' where a time is expected"),
        ("0,1\n5,-2\n", "Line 2 counts '-2' nodes"),
        ("0,1\n1,2,3,4\n", "Line 2 has 4 cells"),
        ("0,add,a\n5,drop,a\n", "Line 2 says neither"),
        ("0,1\n10,1\n", "holds no loss of a node"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused_with_the_reason(
    text: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)

    with pytest.raises(DrillError, match=r"trace\.csv") as caught:
        read_losses(path)

    assert words in str(caught.value)


def test_a_trace_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(DrillError, match="No such file"):
        read_losses(tmp_path / "none.json")
    with pytest.raises(DrillError, match="is not text"):
        read_losses(tmp_path / "binary")
