"""When the arithmetic overturns a rule, when it must not, and whether the sentences are true."""

from decimal import Decimal

import pytest

from outlast.capacity.planning.assumptions import PlanError
from outlast.capacity.planning.plan import CapacityPlan, plan
from outlast.capacity.pricing.prices import PriceTable, built_in_prices
from outlast.capacity.simulation.lifetimes import ExponentialLifetimes
from outlast.capacity.vocabulary import Tier
from tests.unit.capacity.test_plan import RUNS, TRAINING, option, own, planned, without, workload

QUICK = {
    "measured__save": "8s",
    "measured__stall": "2s",
    "measured__restart": "60s",
    "measured__between_interruptions": "20h",
}
SWEEP = without("checkpoint", TRAINING.replace("training", "sweep"))
ITEMS = "{items: 30, seconds_per_item: 3600}"


@pytest.fixture
def cheap_flex() -> PriceTable:
    return built_in_prices().replaced_by([own("g2-standard-24", Tier.FLEX_START, "0.95")])


def sentence(made: CapacityPlan, words: str) -> str:
    [found] = [reason for reason in made.reasons if words in reason]
    return found


@pytest.mark.parametrize("deadline", ["39h30m", "41h"])
def test_a_cheaper_tier_that_puts_the_deadline_at_risk_does_not_win(
    deadline: str, cheap_flex: PriceTable
) -> None:
    made = plan(workload(deadline=deadline, **QUICK), prices=cheap_flex, runs=RUNS)

    flex = option(made, Tier.FLEX_START)
    assert flex.cost and made.cost_expected and flex.cost.expected < made.cost_expected
    assert made.tier is Tier.HYBRID
    assert made.chosen.chance is not None and made.chosen.chance > 0.99
    assert sentence(made, "Flex-start would be cheaper").endswith("but less reliable.")


def test_a_cheaper_tier_that_keeps_the_deadline_wins(cheap_flex: PriceTable) -> None:
    made = plan(workload(deadline="60h", **QUICK), prices=cheap_flex, runs=RUNS)

    assert made.tier is Tier.FLEX_START


def test_a_tier_left_for_its_chance_is_left_for_one_that_meets_the_deadline() -> None:
    made = planned(SWEEP, work=ITEMS, deadline="34h")

    spot, hybrid = option(made, Tier.SPOT), option(made, Tier.HYBRID)
    assert spot.chance is not None and hybrid.chance is not None
    assert spot.chance < hybrid.chance < 0.9
    assert made.tier is Tier.ON_DEMAND
    assert (
        "However, on-demand is recommended instead of spot. On-demand meets the deadline in 100%"
        in made.reasons[1]
    )


def test_where_no_tier_is_sure_the_surest_is_taken_and_that_is_said() -> None:
    made = planned(accelerator="{type: nvidia-h100-80gb, count: 1}", deadline="40h")

    chances = [one.chance for one in made.options if one.is_possible and one.chance is not None]
    assert max(chances) < 0.9
    assert made.chosen.chance == max(chances)
    for told in (made.reasons, made.warnings):
        assert any(line.startswith("No tier meets the deadline reliably.") for line in told)


def test_a_named_tier_that_misses_the_deadline_is_warned_of() -> None:
    made = planned(tier="spot", deadline="40h")

    assert made.tier is Tier.SPOT
    assert any("Spot meets the deadline in only" in warning for warning in made.warnings)
    assert not any(
        "meets the deadline in only" in w for w in planned(tier="spot", deadline="80h").warnings
    )


@pytest.mark.parametrize("deadline", ["38h", "38.1h"])
def test_a_deadline_that_not_even_luck_could_meet_is_refused(deadline: str) -> None:
    with pytest.raises(
        PlanError, match=r"the work including startup and saves takes 38\.[12] h, .* too long"
    ):
        planned(deadline=deadline)


def test_an_estimate_overturns_no_rule_as_the_price_of_the_rule_itself() -> None:
    prices = PriceTable(built_in_prices().rows, Decimal("1.2"))

    made = plan(workload(interruptible="false"), prices=prices, runs=RUNS)

    on_demand = option(made, Tier.ON_DEMAND)
    assert on_demand.cost and made.cost_expected and on_demand.cost.expected < made.cost_expected
    assert made.tier is Tier.FLEX_START
    assert "the flex-start price is an estimate" in sentence(made, "On-demand would be cheaper")


def test_spot_that_is_as_sure_as_a_hybrid_is_not_called_less_sure() -> None:
    made = planned(deadline="60h", **QUICK)

    spot = option(made, Tier.SPOT)
    assert made.tier is Tier.HYBRID
    assert spot.chance == made.chosen.chance == 1.0
    told = sentence(made, "Spot would be cheaper")
    assert "less reliable" not in told
    assert "Spot may be unavailable for longer than assumed here" in told


def test_an_estimate_is_mentioned_with_its_chance() -> None:
    made, late = planned(deadline="60h", **QUICK), planned(deadline="41h", **QUICK)

    for plan_, words in ((made, "Flex-start might be"), (late, "Flex-start would be")):
        chance = option(plan_, Tier.FLEX_START).chance
        assert f"on time in {chance:.1%} of simulated runs" in sentence(plan_, words)
    # Its price would not change that it is often late.
    assert sentence(late, "Flex-start would be").endswith("but less reliable.")


def test_costs_below_a_cent_are_not_compared() -> None:
    text = without("accelerator", without("checkpoint", TRAINING.replace("training", "ci")))
    prices = built_in_prices().replaced_by(
        [own("e2-standard-8", Tier.SPOT, "0.1"), own("e2-standard-8", Tier.ON_DEMAND, "0.27")]
    )

    made = plan(
        workload(text, work__hours="0.01", measured__restart="30s"), prices=prices, runs=RUNS
    )

    assert made.cost_expected == 0
    assert not any("saves" in reason for reason in made.reasons)


def test_what_does_not_happen_is_not_told() -> None:
    made = planned(tier="on-demand", deadline="39.05h")

    assert not any("interruptions are expected" in reason for reason in made.reasons)
    assert sentence(made, "The deadline, 39.05 h from now")


def test_large_amounts_are_grouped() -> None:
    made = planned(work__hours="20000")

    assert made.cost_expected is not None
    assert f"Expected cost: {made.cost_expected:,} USD" in sentence(made, "Expected cost")


def test_runs_that_never_end_are_told_with_the_time_they_had() -> None:
    made = plan(
        workload(checkpoint__size="12TiB"), lifetimes=ExponentialLifetimes(3 * 3600), runs=200
    )

    why_not = option(made, Tier.SPOT).why_not or ""
    assert why_not.endswith("of the simulated runs had not finished after 61.7 d.")
