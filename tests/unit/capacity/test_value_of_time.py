"""Time has a value: the frontier, the warning, the decision, and estimated prices."""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from outlast.capacity.planning.assumptions import PlanError, assume
from outlast.capacity.planning.frontier import VALUE_OF_TIME, cost_time_frontier
from outlast.capacity.planning.report import frontier_rows, plan_json
from outlast.capacity.planning.save_speed import save_bytes_per_second
from outlast.capacity.vocabulary import StorageKind, Tier
from tests.unit.capacity.test_plan import option, planned, workload

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


def test_a_price_that_changes_nothing_is_not_asked_for() -> None:
    # A job of 3 minutes does not wait 2 hours, whatever the queue costs.
    assert planned(SHORT).price_request is None
    # Flex-start would miss the deadline in every second run.
    late = planned(work__hours="40", deadline="42h")
    assert late.tier is Tier.ON_DEMAND and late.price_request is None
    assert any("Flex-start would be" in one and "less reliable" in one for one in late.reasons)
    # On demand costs twice the estimate, so only the cost depends on it.
    kept = planned(interruptible="false")
    assert kept.tier is Tier.FLEX_START and kept.price_request is not None
    assert "depends" not in kept.price_request


def test_what_is_cheaper_and_faster_needs_no_value_of_time() -> None:
    patient = planned(value_of_time="0")

    assert "saves nothing" not in patient.reasons[1]
    assert "is expected to cost about" in patient.reasons[1]
    assert patient.reasons[1].endswith("earlier.")


def test_a_tier_that_is_faster_by_seconds_is_not_on_the_frontier() -> None:
    made = planned()
    hybrid, flex = option(made, Tier.HYBRID), option(made, Tier.FLEX_START)
    assert hybrid.finish is not None and flex.finish is not None
    moment = replace(hybrid.finish, p50=flex.finish.p50 - timedelta(seconds=2))

    points = cost_time_frontier([replace(hybrid, finish=moment), flex])

    assert [point.tier for point in points] == [Tier.FLEX_START]
    assert points[0].delay is None


def test_a_quota_that_is_too_small_rules_a_tier_out() -> None:
    made = planned(nodes="2", cluster__quota="{preemptible: 3, on_demand: 4}")
    none = planned(cluster__quota="{preemptible: 1, on_demand: 0}")

    assert made.tier is Tier.ON_DEMAND
    assert option(made, Tier.SPOT).why_not == (
        "The preemptible quota, which Spot and flex-start use, is 3, but 4 accelerators are needed "
        "at once."
    )
    assert option(none, Tier.ON_DEMAND).why_not == "The on-demand quota is 0."
    assert "no tier is possible" in none.reasons[1]


def test_a_save_is_not_durable_before_it_stops_blocking_the_loop() -> None:
    one = assume(workload(checkpoint__size="100GiB"))
    eight = assume(
        workload(checkpoint__size="100GiB", accelerator="{type: nvidia-h100-80gb, count: 8}")
    )

    for found in (one, eight):
        assert found.save_seconds > found.stall_seconds
    # Each accelerator has a rank that copies its part.
    assert one.stall_seconds == 4 * eight.stall_seconds


def test_it_is_named_what_is_missing_to_resume() -> None:
    batch = SHORT.replace("kind: training", "kind: batch-inference")
    unsaid = "resumable: false\n"

    assert planned(SHORT).reasons[0].startswith("It cannot resume, ")
    assert planned(SHORT.replace(unsaid, "")).reasons[0].startswith("Without a checkpoint, it ")
    assert planned(batch.replace(unsaid, "")).reasons[0].startswith("Without a queue or a ch")


def test_an_endless_workload_is_planned_for_a_period() -> None:
    batch = SHORT.replace("kind: training", "kind: batch-inference")
    endless = batch.replace("work: {hours: 0.05}", "endless: true")

    with pytest.raises(PlanError, match="is endless") as raised:
        planned(endless)
    assert raised.value.hint is not None and "endless=false" in raised.value.hint
    assert planned(endless, endless="false", work__hours="720").cost_expected is not None
