"""A hybrid follows the order of its tiers."""

import pytest

from outlast.capacity.planning.options import TierOption
from outlast.capacity.planning.plan import CapacityPlan
from outlast.capacity.vocabulary import Tier
from tests.unit.capacity.test_plan import option, planned, without


def in_order(order: str, **overrides: str) -> CapacityPlan:
    return planned(hybrid__order=order, **overrides)


def figures(one: TierOption) -> tuple[object, ...]:
    return one.cost, one.finish, one.waste, one.interruptions, one.save_every, one.why_not


@pytest.mark.parametrize("tier", [Tier.SPOT, Tier.FLEX_START, Tier.ON_DEMAND])
def test_an_order_of_one_tier_is_that_tier(tier: Tier) -> None:
    made = in_order(f"[{tier}]")

    assert figures(option(made, Tier.HYBRID)) == figures(option(made, tier))


def test_on_demand_first_leaves_nothing_to_the_rest() -> None:
    made = in_order("[on-demand, spot]", interruptible="false")

    assert figures(option(made, Tier.HYBRID)) == figures(option(made, Tier.ON_DEMAND))


def test_flex_start_first_is_waited_for_as_long_as_patience_lasts() -> None:
    made = in_order("[flex-start, on-demand]")

    hybrid, flex = option(made, Tier.HYBRID), option(made, Tier.FLEX_START)
    assert (hybrid.primary, hybrid.fallback) == (Tier.FLEX_START, Tier.ON_DEMAND)
    assert hybrid.waste and flex.waste and hybrid.waste.wait_hours < flex.waste.wait_hours
    assert hybrid.interruptions == 0
    assert hybrid.fallback_share is not None and hybrid.fallback_share > 0.8


def test_a_fallback_to_flex_start_waits_in_its_queue_and_ends_with_its_lease() -> None:
    leased = in_order("[spot, flex-start]", max_run="12h", measured__waiting="10h")
    lasting = in_order("[spot, on-demand]", max_run="12h", measured__waiting="10h")

    flex, on_demand = option(leased, Tier.HYBRID), option(lasting, Tier.HYBRID)
    assert flex.waste and on_demand.waste
    assert flex.waste.wait_hours > on_demand.waste.wait_hours + 2
    assert on_demand.interruptions is not None and flex.interruptions is not None
    assert on_demand.interruptions < 1 < 3 < flex.interruptions


def test_without_accelerators_flex_start_falls_out_of_the_order() -> None:
    made = planned(accelerator="null")
    alone = planned(accelerator="null", hybrid__order="[flex-start]")

    hybrid = option(made, Tier.HYBRID)
    assert (hybrid.primary, hybrid.fallback) == (Tier.SPOT, Tier.ON_DEMAND)
    assert "offers only machines with accelerators and h4d machines" in (
        option(alone, Tier.HYBRID).why_not or ""
    )


def test_what_stands_against_spot_stands_against_a_hybrid_that_starts_there_alone() -> None:
    text = without("checkpoint")

    assert "cannot resume" in (option(planned(text), Tier.HYBRID).why_not or "")
    assert option(planned(text, hybrid__order="[on-demand]"), Tier.HYBRID).is_possible
    assert option(planned(text, hybrid__order="[flex-start]"), Tier.HYBRID).is_possible


def test_a_tier_of_the_order_that_is_not_sold_is_named() -> None:
    made = in_order("[spot, on-demand]", accelerator="{type: nvidia-b200, count: 8}")

    hybrid = option(made, Tier.HYBRID)
    assert "No on-demand price is known for a4-highgpu-8g" in (hybrid.why_not or "")
    assert hybrid.cost is None


def test_a_hybrid_without_spot_has_no_spot_grace_to_warn_of() -> None:
    made = in_order("[flex-start, on-demand]", tier="hybrid")

    assert not any("grace" in warning for warning in made.warnings)
    assert any("Pending for more than 6.0 h" in warning for warning in made.warnings)
