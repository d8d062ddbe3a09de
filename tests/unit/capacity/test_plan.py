"""The plan: the rules hold, the arithmetic can overturn them, and nothing is left unsaid."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from outlast.capacity.errors import WorkloadError
from outlast.capacity.planning.assumptions import PlanError, assume
from outlast.capacity.planning.options import TierOption
from outlast.capacity.planning.plan import CapacityPlan, plan
from outlast.capacity.planning.report import plan_json, plan_page
from outlast.capacity.pricing.prices import (
    Price,
    PriceError,
    PriceTable,
    PriceUnknown,
    built_in_prices,
)
from outlast.capacity.simulation.lifetimes import ExponentialLifetimes, WeibullLifetimes
from outlast.capacity.vocabulary import Tier
from outlast.capacity.workload.file import Workload

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


def planned(text: str = TRAINING, **overrides: str) -> CapacityPlan:
    return plan(workload(text, **overrides), runs=RUNS, seed=1)


def option(made: CapacityPlan, tier: Tier) -> TierOption:
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
        ({"kind": "batch-inference", "checkpoint": "null", "queue": "pubsub://lab-project/jobs",
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

    priced = planned(text)
    made = planned(text, machine="z3-highmem-88")

    assert priced.tier is Tier.SPOT
    assert priced.cost_expected is not None
    assert made.tier is Tier.SPOT
    assert made.cost_expected is None
    assert any("No price is known for z3-highmem-88" in warning for warning in made.warnings)
    assert option(made, Tier.FLEX_START).why_not == (
        "Flex-start offers only machines with accelerators and h4d machines."
    )


def test_work_that_cannot_resume_never_goes_to_spot() -> None:
    made = planned(checkpoint="null")

    assert made.tier is Tier.FLEX_START
    assert made.cost_expected is not None and made.chosen.is_possible
    for tier in (Tier.SPOT, Tier.HYBRID):
        assert "cannot resume" in (option(made, tier).why_not or "")


def test_a_ci_job_that_cannot_resume_stays_where_nothing_is_evicted() -> None:
    text = without("accelerator", without("checkpoint", TRAINING.replace("training", "ci")))

    made = planned(text, resumable="false", work__hours="2")

    assert made.tier is Tier.ON_DEMAND
    assert made.chosen.is_possible and made.chosen.finish


def test_work_that_cannot_resume_must_fit_into_its_lease_with_its_start() -> None:
    made = planned(checkpoint="null", work__hours="168")
    shorter = planned(checkpoint="null", work__hours="167")

    flex = option(made, Tier.FLEX_START)
    assert made.tier is Tier.ON_DEMAND
    assert "runs longer than a flex-start node lives, 7.0 d" in (flex.why_not or "")
    assert flex.finish is None
    assert shorter.tier is Tier.FLEX_START


def test_a_tier_that_the_file_names_is_kept_and_what_stands_against_it_is_said() -> None:
    made = planned(tier="spot", interruptible="false")

    assert made.tier is Tier.SPOT
    assert made.reasons[0] == "The workload file sets this tier."
    assert "must not be preempted" in made.reasons[1]


# The arithmetic against the rules


def test_an_estimated_price_never_overturns_a_rule_but_is_mentioned() -> None:
    made = planned()

    flex, spot = option(made, Tier.FLEX_START), option(made, Tier.SPOT)
    assert flex.is_estimate and flex.cost and spot.cost
    assert flex.cost.expected < spot.cost.expected
    assert made.tier is Tier.SPOT
    assert any(reason.startswith("Flex-start might be cheaper") for reason in made.reasons)


def test_a_real_flex_start_price_below_spot_overturns_the_rule_and_says_so() -> None:
    prices = built_in_prices().replaced_by([own("g2-standard-24", Tier.FLEX_START, "0.95")])

    made = plan(workload(), prices=prices, runs=RUNS)

    assert made.tier is Tier.FLEX_START
    assert made.reasons[0] == "It can resume from checkpoints and has no deadline."
    assert "However, flex-start is recommended instead of spot" in made.reasons[1]


def test_a_checkpoint_so_large_that_spot_never_gets_ahead_overturns_the_rule() -> None:
    made = planned(checkpoint__size="12TiB")

    spot = option(made, Tier.SPOT)
    # Even at 1.4 times its estimated price, it would be cheaper than on-demand.
    assert made.tier is Tier.FLEX_START
    assert made.price_request is not None
    assert "so it would hardly make progress" in (spot.why_not or "")
    assert spot.cost is None
    assert "However, flex-start is recommended instead of spot. Only " in made.reasons[1]
    assert "so it would hardly make progress" in made.reasons[1]


def test_spot_that_costs_more_than_on_demand_is_left() -> None:
    made = planned(checkpoint__size="3000GiB")

    spot, on_demand = option(made, Tier.SPOT), option(made, Tier.ON_DEMAND)
    assert spot.cost and on_demand.cost
    assert spot.cost.expected > on_demand.cost.expected
    assert made.tier is Tier.FLEX_START
    assert made.price_request is not None


def test_a_deadline_that_hybrid_misses_too_often_takes_on_demand() -> None:
    made = planned(deadline="39h")

    hybrid = option(made, Tier.HYBRID)
    assert hybrid.chance is not None and hybrid.chance < 0.9
    assert made.tier is Tier.ON_DEMAND
    assert "meets the deadline in 100%" in made.reasons[1]


def test_what_is_not_sold_on_demand_falls_back_to_flex_start() -> None:
    made = planned(accelerator="{type: nvidia-b200, count: 8}", deadline="60h")

    assert made.tier is Tier.HYBRID
    assert "may not be available there" in (option(made, Tier.ON_DEMAND).why_not or "")
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
    many = planned(text, work="{items: 1024, seconds_per_item: 2400}", parallelism="16")

    def spread(made: CapacityPlan) -> Decimal:
        cost = option(made, Tier.SPOT).cost
        assert cost is not None
        return (cost.p95 - cost.p5) / cost.expected

    # The same work for each of them: a quarter of the spread.
    assert spread(many) < spread(one) / 3


def test_items_are_not_split() -> None:
    text = without("checkpoint", TRAINING.replace("training", "sweep"))
    eight = planned(text, work="{items: 30, seconds_per_item: 3600}", parallelism="8")
    many = planned(text, work="{items: 10, seconds_per_item: 3600}", parallelism="100")
    ten = planned(text, work="{items: 10, seconds_per_item: 3600}", parallelism="10")

    finish = option(eight, Tier.ON_DEMAND).finish
    assert finish is not None and timedelta(hours=4) < finish.p50 < timedelta(hours=4.2)
    assert (eight.replicas, many.replicas) == (8, 10)
    finish, cost = option(many, Tier.ON_DEMAND).finish, option(many, Tier.ON_DEMAND).cost
    assert finish is not None and finish.p50 > timedelta(hours=1)
    assert cost == option(ten, Tier.ON_DEMAND).cost
    with pytest.raises(PlanError, match=r"the work alone takes 4\.0 h, 6\.0 min too long"):
        planned(
            text,
            work="{items: 30, seconds_per_item: 3600}",
            parallelism="8",
            deadline="3h54m",
        )


def test_pods_without_work_in_the_last_round_are_not_paid_for() -> None:
    text = without("checkpoint", TRAINING.replace("training", "sweep"))
    nine = planned(text, work="{items: 10, seconds_per_item: 3600}", parallelism="9")
    one = planned(text, work="{items: 10, seconds_per_item: 3600}")

    spread, alone = option(nine, Tier.ON_DEMAND).cost, option(one, Tier.ON_DEMAND).cost
    assert spread is not None and alone is not None
    assert alone.expected < spread.expected < alone.expected * Decimal("1.05")


def test_what_is_of_one_pod_is_called_so_and_the_whole_is_drawn() -> None:
    text = without("checkpoint", TRAINING.replace("training", "sweep"))
    made = planned(text, work="{items: 32, seconds_per_item: 3600}", parallelism="8")

    spot = made.chosen
    assert any("expected for each of the 8 Pods" in reason for reason in made.reasons)
    assert "averages for one of 8 Pods" in plan_page(made)
    assert spot.finish and spot.cost and spot.finish_distribution and spot.cost_distribution
    assert spot.finish_distribution.quantile(0.95) == pytest.approx(
        spot.finish.p95.total_seconds(), rel=0.01
    )
    assert spot.cost_distribution.quantile(0.95) == pytest.approx(float(spot.cost.p95), rel=0.01)
    four = planned(nodes="4").chosen
    assert four.cost and four.cost_distribution
    assert four.cost_distribution.quantile(0.95) == pytest.approx(float(four.cost.p95), rel=0.01)


def test_measured_figures_replace_assumed_ones() -> None:
    measured = workload(
        measured="{save: 20s, stall: 2s, restart: 90s, between_interruptions: 12h, "
        "unannounced: 0.1, grace: 28s, waiting: 40s}"
    )

    found = assume(measured)

    assert (found.save_seconds, found.stall_seconds, found.restart_seconds) == (20, 2, 90)
    assert (found.mean_seconds, found.unannounced_share) == (12 * 3600, 0.1)
    assert (found.grace_seconds, found.wait_seconds[Tier.SPOT]) == (28, 40)
    assert assume(measured, spot_wait_seconds=7.0).wait_seconds[Tier.SPOT] == 7
    origins = {figure.name: figure.origin.value for figure in found.inputs}
    assert origins["time until a save is durable"] == "measured"
    assert origins["mean wait for an on-demand node"] == "assumed"


@pytest.mark.parametrize(
    ("overrides", "origin"),
    [
        ({}, "assumed"),
        ({"cluster.shutdown_window": "120s"}, "given"),
        ({"grace": "10s"}, "given"),
        ({"measured.grace": "28s"}, "measured"),
    ],
    ids=["default", "window", "grace", "measured"],
)
def test_a_grace_that_nobody_gave_is_assumed(overrides: dict[str, str], origin: str) -> None:
    found = assume(Workload.parse(TRAINING, name="w", overrides=overrides))

    assert {one.name: one.origin for one in found.inputs}["grace period on Spot"] == origin


def test_a_server_has_no_saves_and_is_never_done() -> None:
    made = planned(kind="serving", work="null", checkpoint="null")

    assert not any("save" in figure.name for figure in made.inputs)
    assert all(one.finish is None for one in made.options)
    assert made.cost_expected is not None


def test_another_law_of_lifetimes_changes_the_spread_and_not_the_mean_alone() -> None:
    early = plan(
        workload(), lifetimes=WeibullLifetimes(shape=0.5, mean_seconds=3 * 3600), runs=RUNS
    )
    random = plan(workload(), lifetimes=ExponentialLifetimes(3 * 3600), runs=RUNS)

    spot_early, spot_random = option(early, Tier.SPOT), option(random, Tier.SPOT)
    assert spot_early.finish and spot_random.finish
    assert spot_early.finish.p95 > spot_random.finish.p95
    with pytest.raises(
        PlanError, match="uses 4 nodes, but a lifetime distribution is supported only for one"
    ):
        plan(workload(nodes="4"), lifetimes=ExponentialLifetimes(3600), runs=RUNS)


def test_very_long_work_is_planned_in_moments() -> None:
    made = planned(work__hours="50000")

    spot = option(made, Tier.SPOT)
    assert spot.is_possible and spot.interruptions and spot.interruptions > 15_000


def test_a_fixed_interval_is_kept() -> None:
    made = planned(checkpoint__interval="30m")

    assert made.save_every == timedelta(minutes=30)


def test_the_final_save_counts_only_as_far_as_it_fits() -> None:
    short = assume(workload(checkpoint__size="100MiB"))
    long = assume(workload(checkpoint__size="72GiB"))

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
    made = planned(checkpoint__size="30GiB")

    [told] = [warning for warning in made.warnings if "grace" in warning]
    assert (
        "The grace period on Spot, 15 s, is too short for a final save, which takes about 72 s"
        in told
    )
    assert "With cluster.shutdown_window: 120s, the grace period is 105 s" in told
    assert not any("grace" in w for w in planned(checkpoint__size="100MiB").warnings)


def test_a_final_save_that_mostly_fits_is_not_called_lost() -> None:
    made = planned(checkpoint__size="5250MiB")

    [told] = [warning for warning in made.warnings if "grace" in warning]
    assert "15 s, is tight for a final save, which takes about 12 s" in told
    assert "In about 21% of cases, the work since the last save is lost" in told


def test_an_interval_in_steps_is_not_silently_ignored() -> None:
    made = planned(checkpoint__interval="500")

    assert any("checkpoint.interval is 500 steps" in warning for warning in made.warnings)
    assert any("assumed to save after every" in reason for reason in made.reasons)
    assert not any("steps" in w for w in planned(checkpoint__interval="10m").warnings)


def test_a_price_missing_for_one_tier_is_not_called_missing_for_all() -> None:
    made = planned(accelerator="{type: nvidia-b200, count: 8}", tier="on-demand")

    assert any("No on-demand price is known for a4-highgpu-8g" in w for w in made.warnings)


def test_a_hybrid_needs_both_quotas() -> None:
    made = planned(deadline="60h", cluster__quota="{on_demand: 0}")
    both = planned(deadline="60h", cluster__quota="{on_demand: 1, preemptible: 1}")
    without_it = planned(
        deadline="60h", cluster__quota="{on_demand: 0}", hybrid__order="[spot, flex-start]"
    )

    [told] = [warning for warning in made.warnings if "quota" in warning]
    assert told.endswith("the on-demand quota is 0. Request more quota.")
    assert sum("quota is 1" in warning for warning in both.warnings) == 2
    assert not any("quota" in warning for warning in without_it.warnings)


def test_the_quota_and_a_single_allocation_are_watched() -> None:
    over = planned(
        accelerator="{type: nvidia-h100-80gb, count: 8}",
        nodes="16",
        tier="spot",
        cluster__quota="{preemptible: 64}",
    )
    sweep = planned(TRAINING.replace("training", "sweep"), parallelism="100")

    assert any(
        "128 accelerators at once, but the preemptible quota is 64" in w for w in over.warnings
    )
    assert any("groups of at most 64" in w for w in over.warnings)
    assert any("128 accelerators are more than is usually" in w for w in over.warnings)
    assert any("Split it into 4 Jobs with at most 64" in w for w in sweep.warnings)


def test_a_bucket_in_another_region_is_told_of() -> None:
    by_name = planned(checkpoint__url="gs://runs-europe-west4/tiny")
    elsewhere = plan(workload(), runs=RUNS, bucket_location="EU")
    near = plan(workload(), runs=RUNS, bucket_location="US")

    assert any("By its name, the bucket" in w for w in by_name.warnings)
    assert any("is in eu, but the nodes are in us-central1" in w for w in elsewhere.warnings)
    assert not any("bucket" in w for w in near.warnings)


@pytest.mark.parametrize(
    ("location", "is_near"),
    [
        ("us-central1", True),
        ("us-central1-a", True),
        ("NAM4", True),
        ("us-east1", False),
        ("eur4", False),
        ("asia", False),
    ],
)
def test_a_bucket_may_be_in_a_pair_of_regions_or_in_a_zone(location: str, is_near: bool) -> None:
    made = plan(workload(), runs=RUNS, bucket_location=location)

    assert any("bucket" in warning for warning in made.warnings) is not is_near


@pytest.mark.parametrize("location", ["blah", "", "us-centrall1"])
def test_a_location_that_no_bucket_has_is_refused(location: str) -> None:
    with pytest.raises(PlanError, match=f"Unknown bucket location '{location}'"):
        plan(workload(), runs=RUNS, bucket_location=location)


def test_a_claim_is_in_no_bucket() -> None:
    made = plan(
        workload(checkpoint__url="file:///mnt/runs", storage="{mount: /mnt/runs}"),
        runs=RUNS,
        bucket_location="eu",
    )

    assert not any("bucket" in warning for warning in made.warnings)


def test_the_pending_threshold_is_named() -> None:
    assert any("Pending for more than 15.0 min" in w for w in planned().warnings)
    assert any("more than 6.0 h" in w for w in planned(tier="flex-start").warnings)
    assert any("more than 45.0 min" in w for w in planned(alerts__pending="45m").warnings)


def test_a_lease_shorter_than_the_work_is_told_of() -> None:
    made = planned(interruptible="false", work__hours="200")

    assert any("must resume on another node" in warning for warning in made.warnings)
    assert option(made, Tier.FLEX_START).interruptions == 1


def test_a_lease_that_the_saves_overrun_is_told_of() -> None:
    made = planned(interruptible="false", work__hours="120", max_run="5d")

    assert any(
        "longer than the maximum lifetime of a flex-start node, 5.0 d" in w for w in made.warnings
    )


# Bad input


def test_a_deadline_shorter_than_the_work_is_refused() -> None:
    with pytest.raises(
        PlanError, match=r"deadline is in 30\.0 h, but the work alone takes 38\.0 h"
    ):
        planned(deadline="30h")


def test_a_deadline_with_a_date_is_counted_from_now() -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    made = plan(workload(deadline="2026-11-20T00:00:00Z"), runs=RUNS, now=now)

    assert made.deadline == timedelta(days=4)
    with pytest.raises(PlanError, match="the work alone takes"):
        plan(workload(deadline="2026-11-16T01:00:00Z"), runs=RUNS, now=now)
    with pytest.raises(PlanError, match=r"The deadline was 24\.0 h ago"):
        plan(workload(deadline="2026-11-15T00:00:00Z"), runs=RUNS, now=now)


def test_a_time_without_its_zone_and_a_seed_below_zero_are_refused() -> None:
    naive = datetime(2026, 11, 16, tzinfo=UTC).replace(tzinfo=None)

    with pytest.raises(
        PlanError, match=r"now: expected a time with a time zone, got datetime\.datetime\(2026"
    ):
        plan(workload(deadline="2026-11-20T00:00:00Z"), now=naive)
    with pytest.raises(PlanError, match=r"seed: expected a whole number of at least 0, got -1"):
        plan(workload(), seed=-1)


def test_negative_hours_are_refused() -> None:
    with pytest.raises(WorkloadError, match="expected a number above 0"):
        planned(work__hours="-3")


def test_work_without_a_size_is_refused() -> None:
    with pytest.raises(PlanError, match="does not specify how long its work takes") as caught:
        planned(without("work"))

    assert "--set work.hours=40" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"cluster.location": "us-centrall1"}, "Did you mean 'us-central1'"),
        ({"machine": "g2-standart-24", "accelerator": "null"}, "'g2-standard-24'"),
        ({"accelerator": "null", "cluster.location": "us-centrall1"}, "'us-central1'"),
        (
            {"accelerator": "{type: nvidia-tesla-v100}", "cluster.location": "mars-east1"},
            "'asia-east1'",
        ),
    ],
    ids=["region", "machine", "region without prices", "no region at all"],
)
def test_an_unknown_machine_or_region_brings_the_nearest_names(
    overrides: dict[str, str], words: str
) -> None:
    with pytest.raises(PriceUnknown) as caught:
        plan(Workload.parse(TRAINING, name="w", overrides=overrides), runs=RUNS)

    assert words in (caught.value.hint or "")


def test_a_region_is_known_where_no_accelerator_is_sold() -> None:
    assert planned(accelerator="null", cluster__location="europe-southwest1-b").tier is Tier.SPOT


def test_prices_in_two_currencies_are_not_compared() -> None:
    def in_euros(tier: Tier) -> Price:
        price = own("g2-standard-24", tier, "1.5")
        return Price(**{**{n: getattr(price, n) for n in Price.__slots__}, "currency": "EUR"})

    both = built_in_prices().replaced_by([in_euros(Tier.SPOT), in_euros(Tier.ON_DEMAND)])
    made = plan(workload(), prices=both, runs=RUNS)

    assert made.chosen.cost and made.chosen.cost.currency == "EUR"
    with pytest.raises(PriceError, match="Currencies are not converted"):
        plan(workload(), prices=built_in_prices().replaced_by([in_euros(Tier.SPOT)]), runs=RUNS)


def test_an_empty_price_table_is_no_reason_to_guess() -> None:
    with pytest.raises(PriceUnknown, match="No price found for the machine type"):
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
    assert html.count('<svg class="plot"') == 2


def test_what_is_ruled_out_is_told_in_words_beside_the_table() -> None:
    html = plan_page(planned(checkpoint="null"))

    assert (
        "<li>spot: It cannot resume, so every eviction would restart it from the beginning.</li>"
        in html
    )
    assert 'class="number">It cannot' not in html


def test_a_round_price_is_written_out_in_json() -> None:
    prices = built_in_prices().replaced_by([own("g2-standard-24", Tier.ON_DEMAND, "90.00")])

    content = plan_json(plan(workload(), prices=prices, runs=RUNS))

    rows = content["prices"]
    assert isinstance(rows, list)
    assert "90" in [row["per_hour"] for row in rows]


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
