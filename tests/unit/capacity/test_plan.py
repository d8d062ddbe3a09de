"""The plan: the rules hold, the arithmetic can overturn them, and nothing is left unsaid."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from outlast.capacity.assumptions import PlanError, assume
from outlast.capacity.errors import WorkloadError
from outlast.capacity.interruptions import Exponential, Weibull
from outlast.capacity.options import Option
from outlast.capacity.plan import Plan, plan
from outlast.capacity.plan_report import plan_json, plan_page
from outlast.capacity.price import Price, PriceTable, PriceUnknown, built_in_prices
from outlast.capacity.vocabulary import Tier
from outlast.capacity.workload import Workload

RUNS = 2000
TRAINING = """\
name: tiny-gpt
kind: training
image: registry.example/trainer:1
command: [python, train.py]
accelerator: {type: nvidia-l4, count: 2}
work: {hours: 38}
checkpoint: {url: "gs://lab-runs/tiny-gpt", size: 12GiB}
"""


def workload(text: str = TRAINING, **overrides: str) -> Workload:
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    return Workload.parse(text, name="workload.yaml", overrides=dotted)


def planned(text: str = TRAINING, **overrides: str) -> Plan:
    return plan(workload(text, **overrides), runs=RUNS, seed=1)


def option(made: Plan, tier: Tier) -> Option:
    return next(one for one in made.options if one.tier is tier)


def own(machine: str, tier: Tier, amount: str) -> Price:
    return Price(
        machine=machine,
        accelerator="",
        count=0,
        location="us-central1",
        tier=tier.value,
        amount=Decimal(amount),
        currency="USD",
        date=date(2026, 11, 1),
        source="contract",
    )


def without(key: str, text: str = TRAINING) -> str:
    return "".join(line for line in text.splitlines(True) if not line.startswith(key))


# The rules


@pytest.mark.parametrize(
    ("overrides", "tier"),
    [
        ({"kind": "serving", "work": "null", "checkpoint": "null"}, Tier.ON_DEMAND),
        ({"kind": "sweep"}, Tier.SPOT),
        ({"kind": "ci"}, Tier.SPOT),
        ({"kind": "batch-inference", "checkpoint": "null", "queue": "pubsub://lab/jobs",
          "sink": "gs://lab-results/x"}, Tier.SPOT),
        ({}, Tier.SPOT),
        ({"interruptible": "false"}, Tier.FLEX_START),
        ({"deadline": "60h"}, Tier.HYBRID),
        ({"checkpoint": "null"}, Tier.FLEX_START),
        ({"checkpoint": "null", "work.hours": "200"}, Tier.ON_DEMAND),
        ({"interruptible": "false", "work.hours": "300"}, Tier.FLEX_START),
    ],
    ids=["serving", "sweep", "ci", "batch", "training", "not preempted", "deadline",
         "cannot resume", "cannot resume, over a week", "over a week with resume"],
)  # fmt: skip
def test_the_decision_table_holds_with_default_prices(
    overrides: dict[str, str], tier: Tier
) -> None:
    made = plan(Workload.parse(TRAINING, name="w", overrides=overrides), runs=RUNS)

    assert made.tier is tier
    assert made.reasons


def test_a_ci_workload_without_accelerators_is_planned_without_prices() -> None:
    text = without("accelerator", without("checkpoint", TRAINING.replace("training", "ci")))

    made = planned(text)

    assert made.tier is Tier.SPOT
    assert made.cost_expected is None
    assert any("No price is known for e2-standard-8" in warning for warning in made.warnings)
    assert option(made, Tier.FLEX_START).why_not == (
        "Flex-start has accelerators and h4d machines only."
    )


def test_work_that_cannot_resume_never_goes_to_spot() -> None:
    made = planned(checkpoint="null")

    for tier in (Tier.SPOT, Tier.HYBRID):
        assert "cannot resume" in (option(made, tier).why_not or "")


def test_a_tier_that_the_file_names_is_kept_and_what_stands_against_it_is_said() -> None:
    made = planned(tier="spot", interruptible="false")

    assert made.tier is Tier.SPOT
    assert made.reasons[0] == "The workload names this tier."
    assert "must not be preempted" in made.reasons[1]


# The arithmetic against the rules


def test_an_estimated_price_never_overturns_a_rule_but_is_mentioned() -> None:
    made = planned()

    flex, spot = option(made, Tier.FLEX_START), option(made, Tier.SPOT)
    assert flex.is_estimate and flex.cost and spot.cost
    assert flex.cost.expected < spot.cost.expected
    assert made.tier is Tier.SPOT
    assert any("flex-start may be cheaper still" in reason for reason in made.reasons)


def test_a_real_flex_start_price_below_spot_overturns_the_rule_and_says_so() -> None:
    prices = built_in_prices().replaced_by([own("g2-standard-24", Tier.FLEX_START, "0.95")])

    made = plan(workload(), prices=prices, runs=RUNS)

    assert made.tier is Tier.FLEX_START
    assert made.reasons[0] == "It resumes from its checkpoints, and nothing hurries."
    assert "But the arithmetic says flex-start, not spot" in made.reasons[1]


def test_a_checkpoint_so_large_that_spot_never_gets_ahead_overturns_the_rule() -> None:
    made = planned(checkpoint__size="2TiB")

    spot = option(made, Tier.SPOT)
    assert made.tier is Tier.ON_DEMAND
    assert "never gets ahead" in (spot.why_not or "")
    assert spot.cost is None
    assert "But the arithmetic says on-demand, not spot: It never gets ahead" in made.reasons[1]


def test_spot_that_costs_more_than_on_demand_is_left() -> None:
    made = planned(checkpoint__size="500GiB")

    spot, on_demand = option(made, Tier.SPOT), option(made, Tier.ON_DEMAND)
    assert spot.cost and on_demand.cost
    assert spot.cost.expected > on_demand.cost.expected
    assert made.tier is Tier.ON_DEMAND


def test_a_deadline_that_hybrid_misses_too_often_takes_on_demand() -> None:
    made = planned(deadline="39h")

    hybrid = option(made, Tier.HYBRID)
    assert hybrid.chance is not None and hybrid.chance < 0.9
    assert made.tier is Tier.ON_DEMAND
    assert "meets the deadline in 100%" in made.reasons[1]


def test_what_is_not_sold_on_demand_falls_back_to_flex_start() -> None:
    made = planned(accelerator="{type: nvidia-b200, count: 8}", deadline="60h")

    assert made.tier is Tier.HYBRID
    assert "may not be sold" in (option(made, Tier.ON_DEMAND).why_not or "")
    fallback = option(made, Tier.HYBRID).fallback_price
    assert fallback is not None and fallback.tier == "flex-start"


# The figures


def test_every_tier_has_cost_finish_chance_and_waste() -> None:
    made = planned(deadline="60h")

    for tier in (Tier.SPOT, Tier.FLEX_START, Tier.ON_DEMAND, Tier.HYBRID):
        one = option(made, tier)
        assert one.cost and one.finish and one.waste and one.save_every
        assert one.chance is not None and 0 <= one.chance <= 1
        assert one.cost.p5 <= one.cost.p50 <= one.cost.p95
        assert one.finish.p5 <= one.finish.p50 <= one.finish.p95
        assert one.cost.currency == "USD"


def test_on_demand_costs_what_its_hours_cost() -> None:
    made = planned()

    on_demand = option(made, Tier.ON_DEMAND)
    assert on_demand.cost and on_demand.price and on_demand.waste
    hours = 38 + on_demand.waste.save_hours + on_demand.waste.restart_hours
    expected = Decimal(repr(hours)) * on_demand.price.amount
    assert abs(on_demand.cost.expected - expected) < Decimal("0.01")
    assert on_demand.interruptions == 0


def test_nodes_multiply_the_cost_and_the_interruptions() -> None:
    one, four = planned(), planned(nodes="4", checkpoint__size="48GiB")

    single, many = option(one, Tier.SPOT), option(four, Tier.SPOT)
    assert single.cost and many.cost and single.interruptions and many.interruptions
    assert many.cost.expected > 4 * single.cost.expected
    assert many.interruptions > 3.5 * single.interruptions


def test_many_crews_even_out_their_luck() -> None:
    text = TRAINING.replace("training", "sweep")
    one = planned(text, work="{items: 64, seconds_per_item: 2400}")
    many = planned(text, work="{items: 64, seconds_per_item: 2400}", parallelism="16")

    def spread(made: Plan) -> Decimal:
        cost = option(made, Tier.SPOT).cost
        assert cost is not None
        return (cost.p95 - cost.p5) / cost.expected

    assert spread(many) < spread(one)


def test_measured_figures_replace_assumed_ones() -> None:
    measured = workload(
        measured="{save: 20s, stall: 2s, restart: 90s, between_interruptions: 12h, "
        "unannounced: 0.1, grace: 28s, waiting: 40s}"
    )

    found = assume(measured)

    assert (found.save_seconds, found.stall_seconds, found.restart_seconds) == (20, 2, 90)
    assert (found.mean_seconds, found.unannounced_share) == (12 * 3600, 0.1)
    assert (found.grace_seconds, found.wait_seconds[Tier.SPOT]) == (28, 40)
    origins = {figure.name: figure.origin.value for figure in found.figures}
    assert origins["a save, until durable"] == "measured"
    assert origins["on-demand: mean wait for a node"] == "assumed"


def test_another_law_of_lifetimes_changes_the_spread_and_not_the_mean_alone() -> None:
    early = plan(workload(), lifetimes=Weibull(shape=0.5, mean_seconds=3 * 3600), runs=RUNS)
    random = plan(workload(), lifetimes=Exponential(3 * 3600), runs=RUNS)

    spot_early, spot_random = option(early, Tier.SPOT), option(random, Tier.SPOT)
    assert spot_early.finish and spot_random.finish
    assert spot_early.finish.p95 > spot_random.finish.p95
    with pytest.raises(PlanError, match="spans 4 nodes, and a law of lifetimes holds for one"):
        plan(workload(nodes="4"), lifetimes=Exponential(3600), runs=RUNS)


def test_very_long_work_is_planned_in_moments() -> None:
    made = planned(work__hours="50000")

    spot = option(made, Tier.SPOT)
    assert spot.is_possible and spot.interruptions and spot.interruptions > 15_000


def test_a_fixed_interval_is_kept() -> None:
    made = planned(checkpoint__interval="30m")

    assert made.save_every == timedelta(minutes=30)


def test_the_final_save_counts_only_as_far_as_it_fits() -> None:
    short = assume(workload(checkpoint__size="100MiB"))
    long = assume(workload(checkpoint__size="12GiB"))

    assert short.final_fits_share == pytest.approx(1.0)
    assert long.final_fits_share < 1e-6
    assert short.kept_share == pytest.approx(0.5)


def test_the_same_input_and_seed_give_the_same_bytes() -> None:
    first, again = (planned(deadline="60h") for _ in range(2))

    assert json.dumps(plan_json(first)) == json.dumps(plan_json(again))
    assert plan_page(first) == plan_page(again)
    other = plan(workload(deadline="60h"), runs=RUNS, seed=2)
    assert json.dumps(plan_json(first)) != json.dumps(plan_json(other))


# The warnings


def test_a_grace_period_too_short_is_told_with_numbers() -> None:
    made = planned(checkpoint__size="5GiB")

    [told] = [warning for warning in made.warnings if "grace" in warning]
    assert "it takes about 54 s, and 15 s are given" in told
    assert "shutdown_window: 120s gives 105 s" in told
    assert not any("grace" in w for w in planned(checkpoint__size="100MiB").warnings)


def test_the_quota_and_a_single_allocation_are_watched() -> None:
    over = planned(
        accelerator="{type: nvidia-h100-80gb, count: 8}",
        nodes="16",
        cluster__quota="{preemptible: 64}",
    )
    sweep = planned(TRAINING.replace("training", "sweep"), parallelism="100")

    assert any(
        "128 accelerators at once, and the preemptible quota is 64" in w for w in over.warnings
    )
    assert any("chunks of 64 or fewer" in w for w in over.warnings)
    assert any("128 accelerators are more than is usually" in w for w in over.warnings)
    assert any("Run it as 4 Jobs of at most 64" in w for w in sweep.warnings)


def test_a_bucket_in_another_region_is_told_of() -> None:
    by_name = planned(checkpoint__url="gs://runs-europe-west4/tiny")
    elsewhere = plan(workload(), runs=RUNS, bucket_location="EU")
    near = plan(workload(), runs=RUNS, bucket_location="US")

    assert any("by its name, in europe-west4" in w for w in by_name.warnings)
    assert any("is in eu, and the nodes are in us-central1" in w for w in elsewhere.warnings)
    assert not any("bucket" in w for w in near.warnings)


def test_the_pending_threshold_is_named() -> None:
    assert any("Pending for longer than 15.0 min" in w for w in planned().warnings)
    assert any("longer than 6.0 h" in w for w in planned(tier="flex-start").warnings)
    assert any("longer than 45.0 min" in w for w in planned(alerts__pending="45m").warnings)


def test_a_lease_shorter_than_the_work_is_told_of() -> None:
    made = planned(interruptible="false", work__hours="200")

    assert any("must resume on the next one" in warning for warning in made.warnings)
    assert option(made, Tier.FLEX_START).interruptions == 1


# Bad input


def test_a_deadline_shorter_than_the_work_is_refused() -> None:
    with pytest.raises(
        PlanError, match=r"deadline is in 30\.0 h, and the work alone takes 38\.0 h"
    ):
        planned(deadline="30h")


def test_a_deadline_with_a_date_is_counted_from_now() -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    made = plan(workload(deadline="2026-11-20T00:00:00Z"), runs=RUNS, now=now)

    assert made.deadline == timedelta(days=4)
    with pytest.raises(PlanError, match="the work alone takes"):
        plan(workload(deadline="2026-11-16T01:00:00Z"), runs=RUNS, now=now)


def test_negative_hours_are_refused() -> None:
    with pytest.raises(WorkloadError, match="A number above 0 is expected"):
        planned(work__hours="-3")


def test_work_without_a_size_is_refused() -> None:
    with pytest.raises(PlanError, match="does not say how long its work takes") as caught:
        planned(without("work"))

    assert "--set work.hours=40" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"cluster.location": "us-centrall1"}, "Did you mean 'us-central1'"),
        ({"machine": "g2-standart-24", "accelerator": "null"}, "'g2-standard-24'"),
    ],
    ids=["region", "machine"],
)
def test_an_unknown_machine_or_region_brings_the_nearest_names(
    overrides: dict[str, str], words: str
) -> None:
    with pytest.raises(PriceUnknown) as caught:
        plan(Workload.parse(TRAINING, name="w", overrides=overrides), runs=RUNS)

    assert words in (caught.value.hint or "")


def test_an_empty_price_table_is_no_reason_to_guess() -> None:
    with pytest.raises(PriceUnknown, match="No price is known for the machine"):
        plan(workload(), prices=PriceTable(()), runs=RUNS)


# The page


def test_the_page_needs_nothing_from_outside_and_escapes_everything() -> None:
    evil = own("g2-standard-24", Tier.SPOT, "1.0")
    evil = Price(
        **{**{n: getattr(evil, n) for n in Price.__slots__}, "source": "<script>x</script>&"}
    )
    made = plan(workload(), prices=built_in_prices().replaced_by([evil]), runs=RUNS)

    html = plan_page(made)

    assert "<script" not in html
    assert "&lt;script&gt;x&lt;/script&gt;&amp;" in html
    outside = html.replace("http://www.w3.org/2000/svg", "")
    assert "http:" not in outside and "https:" not in outside and "url(" not in outside
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
    assert html.count("<svg") == 2


def test_the_json_has_the_agreed_names() -> None:
    content = plan_json(planned(deadline="60h"))

    assert {"tier", "reasons", "warnings", "options"} <= content.keys()
    options = content["options"]
    assert isinstance(options, list)
    assert [one["tier"] for one in options] == ["spot", "flex-start", "on-demand", "hybrid"]
    for one in options:
        assert {"cost", "finish", "chance", "waste"} <= one.keys()
    text = json.dumps(content)
    assert (
        json.loads(text, parse_float=Decimal)["cost_expected"]
        == planned(deadline="60h").cost_expected
    )
