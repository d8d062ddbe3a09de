"""Time has a value: the frontier, the warning, the decision, and estimated prices."""

import json
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from outlast.capacity.planning.frontier import VALUE_OF_TIME
from outlast.capacity.planning.report import frontier_rows, plan_json
from outlast.capacity.planning.save_speed import save_bytes_per_second
from outlast.capacity.vocabulary import StorageKind, Tier
from tests.unit.capacity.test_plan import option, planned

SHORT = """\
name: render
kind: training
image: registry.example/render:1
command: [python, render.py]
accelerator: {type: nvidia-l4, count: 1}
work: {hours: 0.05}
resumable: false
"""


def test_the_frontier_has_no_tier_that_another_one_beats() -> None:
    made = planned()

    points = made.frontier
    assert points[0].tier is Tier.ON_DEMAND and points[0].saved is None
    for faster, slower in pairwise(points):
        assert faster.finish <= slower.finish and faster.cost > slower.cost
        assert slower.saved == faster.cost - slower.cost
        assert slower.delay == slower.finish - faster.finish
    # Spot is both slower and more expensive than flex-start is estimated to be.
    assert Tier.SPOT not in {point.tier for point in points}
    assert len(frontier_rows(made)) == len(points)
    first = json.loads(json.dumps(plan_json(made)))["frontier"][0]
    assert first["tier"] == "on-demand" and first["saved_per_hour"] is None


def test_a_saving_that_costs_much_time_is_a_warning() -> None:
    made = planned(measured__between_interruptions="30m", work__hours="100")

    [told] = [warning for warning in made.warnings if "value of time" in warning]
    assert made.tier is Tier.SPOT
    assert "compared with on-demand, but finishes" in told
    assert "(10 USD per hour, an assumption; set value_of_time to change it)" in told
    assert made.value_of_time.per_hour == VALUE_OF_TIME and not made.value_of_time.is_given
    cheap = planned(measured__between_interruptions="30m", work__hours="100", value_of_time="0.01")
    assert not any("value of time" in warning for warning in cheap.warnings)


def test_a_given_value_of_time_decides() -> None:
    hurried = planned(value_of_time="1000")
    patient = planned(value_of_time="0")

    assert hurried.tier is Tier.ON_DEMAND
    assert "not worth it at 1,000" in hurried.reasons[1]
    assert hurried.value_of_time.is_given
    # At no value of time, only the cost counts, and the estimate is asked for in the headline.
    assert patient.tier is Tier.FLEX_START
    assert patient.price_request is not None


def test_a_short_job_does_not_wait_hours_to_save_cents() -> None:
    made = planned(SHORT)

    assert made.tier is Tier.ON_DEMAND
    assert "Flex-start saves" in made.reasons[1] and "later" in made.reasons[1]
    assert planned(SHORT, work__hours="50").tier is Tier.FLEX_START


def test_without_preemptible_quota_nothing_that_needs_it_is_recommended() -> None:
    made = planned(cluster__quota="{preemptible: 0}")

    assert made.tier is Tier.ON_DEMAND
    for tier in (Tier.SPOT, Tier.FLEX_START, Tier.HYBRID):
        assert "preemptible quota" in (option(made, tier).why_not or "")


def test_an_estimate_is_asked_for_before_it_decides() -> None:
    made = planned()

    assert made.tier is Tier.SPOT
    assert made.price_request is not None and "--prices" in made.price_request
    assert planned(tier="spot").price_request is None


@pytest.mark.parametrize(
    ("machine", "storage", "rate"),
    [
        ("g2-standard-4", StorageKind.OBJECT, 100e6),
        ("a2-highgpu-1g", StorageKind.OBJECT, 288e6),
        ("a3-highgpu-8g", StorageKind.FUSE, 2.5e9),
        ("a3-highgpu-8g", StorageKind.CLAIM, 100e6),
        ("x9-unknown-1", StorageKind.OBJECT, 100e6),
    ],
)
def test_a_larger_machine_saves_faster(machine: str, storage: StorageKind, rate: float) -> None:
    assert save_bytes_per_second(machine, storage) == rate


def test_the_rate_of_the_frontier_is_money_per_hour() -> None:
    for point in planned().frontier[1:]:
        assert point.delay is not None and point.saved is not None
        hours = Decimal(repr(point.delay / timedelta(hours=1)))
        assert point.saved_per_hour == pytest.approx(point.saved / hours, abs=Decimal("0.01"))
