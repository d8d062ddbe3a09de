"""What if: values in the unit of the key, a row and a line for each tier."""

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from outlast.capacity.planning.plan import CapacityPlan, plan
from outlast.capacity.planning.sweep import (
    ParameterSweep,
    PlanOrError,
    SweepError,
    parse_sweep,
    plan_points,
    sweep_chart,
    sweep_json,
    sweep_notes,
    sweep_parts,
    sweep_rows,
)
from outlast.capacity.pricing.prices import PriceError, PriceTable, built_in_prices
from outlast.capacity.workload.file import Workload
from outlast.errors import OutlastError
from tests.unit.capacity.test_plan import TRAINING


def plans_of(swept: ParameterSweep, text: str = TRAINING) -> list[CapacityPlan]:
    return [
        plan(Workload.parse(text, name="w", overrides={swept.key: point.text}), runs=500)
        for point in swept.points
    ]


def test_a_range_of_sizes_goes_up_at_even_ratios() -> None:
    swept = parse_sweep("checkpoint.size=1GiB..100GiB")

    assert (swept.key, swept.unit, len(swept.points)) == ("checkpoint.size", "GiB", 9)
    assert (swept.points[0].text, swept.points[-1].text) == ("1GiB", "100GiB")
    ratios = [b.number / a.number for a, b in zip(swept.points, swept.points[1:], strict=False)]
    assert all(ratio == pytest.approx(100 ** (1 / 8), rel=0.03) for ratio in ratios)


@pytest.mark.parametrize(
    ("text", "unit", "first", "last"),
    [
        ("work.hours=10..100", "", "10", "100"),
        ("work.hours=0.5..8.0", "", "0.5", "8.0"),
        ("work.hours=0.00001..1000000.5", "", "0.00001", "1000000.5"),
        ("deadline=40h..80h", "hours", "40h", "80h"),
        ("nodes=1,2,4", "", "1", "4"),
        ("measured.save=10s,2m", "hours", "10s", "2m"),
        ("measured.restart=30s..5m", "hours", "30s", "5m"),
        ("checkpoint.size=1KiB..100KiB", "GiB", "1KiB", "100KiB"),
        ("checkpoint.size=1B..9B", "GiB", "1B", "9B"),
        ("deadline=100h..20000h", "hours", "100h", "20000h"),
        ("measured.save=1ms..9ms", "hours", "1ms", "9ms"),
        ("max_run=1h..7d", "hours", "1h", "7d"),
    ],
)
def test_values_keep_the_unit_of_their_key(text: str, unit: str, first: str, last: str) -> None:
    swept = parse_sweep(text)

    assert (swept.unit, swept.points[0].text, swept.points[-1].text) == (unit, first, last)
    numbers = [point.number for point in swept.points]
    assert numbers == sorted(set(numbers))


def test_durations_are_whole_seconds_as_some_keys_need_them() -> None:
    swept = parse_sweep("grace=10s..300s")

    assert [point.text for point in swept.points[:3]] == ["10s", "15s", "23s"]
    assert plans_of(swept)


def test_whole_numbers_are_not_repeated() -> None:
    assert [point.text for point in parse_sweep("nodes=1..3").points] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("checkpoint.size", "expected key=from..to"),
        ("=1..2", "expected key=from..to"),
        ("a=1..", "expected key=from..to"),
        ("a=9..1", "expected an increasing range above 0"),
        ("a=0..5", "expected an increasing range above 0"),
        ("a=1GiB..5h", "expected two numbers, sizes or durations"),
        ("a=x..y", "expected two numbers, sizes or durations"),
        ("a=" + ",".join(map(str, range(60))), "at most 50 values"),
    ],
)
def test_a_sweep_that_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(SweepError, match=words):
        parse_sweep(text)


def test_a_sweep_shows_where_the_answer_changes() -> None:
    swept = parse_sweep("checkpoint.size=1GiB..12000GiB")
    plans = plans_of(swept)

    rows = sweep_rows(swept, plans)
    content = sweep_json(swept, plans)

    assert rows[0][1] == "spot"
    assert rows[-1][1] == "flex-start"
    assert rows[-1][2] == "-"
    points = content["points"]
    assert isinstance(points, list) and len(points) == len(rows)
    assert {"value", "tier", "why_not", "options"} == points[0].keys()


def test_the_chart_is_well_formed_and_breaks_where_a_tier_is_impossible() -> None:
    swept = parse_sweep("checkpoint.size=1GiB..12000GiB")
    plans = plans_of(swept)

    root = ElementTree.fromstring(sweep_chart(swept, plans).as_svg())

    lines = [path.attrib["d"] for path in root.iter("{http://www.w3.org/2000/svg}path")]
    lengths = [len(line.split("L")) for line in lines]
    assert len(lengths) == 4 and lengths[0] < 9 and lengths[2] == 9
    assert all(
        math.isfinite(float(n)) for line in lines for n in line.replace("L", " ")[1:].split()
    )


def planned(text: str) -> tuple[ParameterSweep, list[PlanOrError]]:
    swept = parse_sweep(text)

    def plan_for(more: dict[str, str]) -> CapacityPlan:
        return plan(Workload.parse(TRAINING, name="w", overrides=more), runs=200)

    return swept, plan_points(swept, plan_for)


def test_a_value_that_cannot_be_planned_keeps_its_row_with_the_reason() -> None:
    swept, found = planned("deadline=20h,60h")

    rows, parts = sweep_rows(swept, found), sweep_parts(swept, found)

    assert rows[0] == ("20h", "not possible", "-", "-", "-", "-")
    assert rows[1][1] != "not possible"
    [note] = sweep_notes(swept, found)
    assert note.startswith("deadline=20h: The deadline is in 20.0 h, but the work alone takes")
    assert "the work alone takes" in parts[-1]
    points = sweep_json(swept, found)["points"]
    assert isinstance(points, list)
    assert points[0]["tier"] is None and "the work alone takes" in points[0]["why_not"]
    ElementTree.fromstring(sweep_chart(swept, found).as_svg())


def test_words_are_swept_too_and_named_in_the_chart() -> None:
    swept, found = planned("cluster.location=us-central1,europe-west4,mars")

    chart = sweep_chart(swept, found).as_svg()

    assert [row[1] for row in sweep_rows(swept, found)] == ["spot", "spot", "not possible"]
    assert ">us-central1<" in chart and ">europe-west4<" in chart


def test_a_sweep_of_which_nothing_can_be_planned_says_why() -> None:
    with pytest.raises(OutlastError, match=r"Unknown key 'work\.hurs'"):
        planned("work.hurs=1,10")


def test_plans_in_two_currencies_are_not_put_side_by_side() -> None:
    swept = parse_sweep("cluster.location=us-central1,europe-west4")
    euros = [
        replace(row, currency="EUR") if row.location == "europe-west4" else row
        for row in built_in_prices().rows
    ]
    table = PriceTable(tuple(euros))

    with pytest.raises(PriceError, match="Currencies are not converted"):
        plan_points(
            swept,
            lambda more: plan(
                Workload.parse(TRAINING, name="w", overrides=more), prices=table, runs=100
            ),
        )


def test_without_prices_the_chart_shows_time() -> None:
    text = "".join(
        line for line in TRAINING.splitlines(True) if not line.startswith(("accel", "check"))
    ).replace("training", "ci")
    text += "machine: z3-highmem-88\n"
    swept = parse_sweep("work.hours=1,2")

    parts = sweep_parts(swept, plans_of(swept, text))

    assert "Time to finish (hours)" in parts[1]
