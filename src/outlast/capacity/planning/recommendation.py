"""Recommend one of the evaluated tiers, with the reasons as sentences.

Pure. The rules come first. Where the simulation contradicts them, it says so and takes precedence.
A tier with an estimated price wins on cost only if it would also win with a much higher price. If
the value of time is given, the tier with the lowest cost plus value of the time wins.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from outlast._base.durations import format_duration
from outlast.capacity.planning.assumptions import Assumptions
from outlast.capacity.planning.frontier import ValueOfTime, best_for, delay_of
from outlast.capacity.planning.options import CHANCE_MIN, TierOption
from outlast.capacity.planning.plan_warnings import about_deadline
from outlast.capacity.planning.tier_rules import choose_tier_by_rule
from outlast.capacity.vocabulary import Tier, WorkloadKind
from outlast.capacity.workload.spec import WorkloadSpec

_SAFETY = {Tier.SPOT: 0, Tier.HYBRID: 1, Tier.FLEX_START: 2, Tier.ON_DEMAND: 3}
# Smaller differences are within the accuracy of the assumptions.
_CHEAPER = Decimal("0.99")
_RELIABILITY_GAIN = 0.05
_DEFAULT_VALUE = ValueOfTime()
# Smaller differences are not visible in the printed percentages.
_VISIBLE = 0.0005
_SUPPLY_PRICE = "Supply the actual price with --prices."
PRICE_DOUBT = Decimal("1.4")
"""How much higher than its estimate a price may turn out to be."""

# An estimated price has to promise more than that to overturn a rule.
_CHEAPER_BY_ESTIMATE = Decimal("0.75")


def recommend(
    workload: WorkloadSpec,
    assumptions: Assumptions,
    options: Sequence[TierOption],
    deadline: timedelta | None,
    value: ValueOfTime = _DEFAULT_VALUE,
) -> tuple[Tier, list[str]]:
    """The recommended tier and the reasons: the rule, the simulation and the numbers."""
    by_tier = {option.tier: option for option in options}
    rule = choose_tier_by_rule(workload)
    reasons = [rule.reason]
    chosen, why = _choose(workload, options, value)
    if chosen.tier is not rule.tier:
        reasons.append(f"However, {chosen.tier} is recommended instead of {rule.tier}. {why}")
    elif chosen.why_not is not None:
        what = "this tier is not" if any(option.is_possible for option in options) else "no tier is"
        reasons.append(f"However, {what} possible. {chosen.why_not}")
    reasons += _numbers(workload, assumptions, chosen, by_tier, deadline)
    reasons += about_deadline(chosen, options)
    reasons += _mentions(workload, chosen, options, value)
    return chosen.tier, reasons


def price_request(
    workload: WorkloadSpec, options: Sequence[TierOption], value: ValueOfTime = _DEFAULT_VALUE
) -> str | None:
    """What to ask for if an estimated price matters; None if it does not.

    It matters if the recommended tier has it, or if a real price within the doubt about the
    estimate would change the recommendation.
    """
    chosen, _ = _choose(workload, options, value)
    tiers = {chosen.tier}
    for factor in (1 / PRICE_DOUBT, PRICE_DOUBT):
        tiers.add(_choose(workload, [_as_if_real(one, factor) for one in options], value)[0].tier)
    depends = ", and the recommendation depends on it" if len(tiers) > 1 else ""
    if not depends and (workload.tier is not Tier.AUTO or not chosen.is_estimate):
        return None
    return f"The flex-start price is an estimate{depends}. {_SUPPLY_PRICE}"


def _as_if_real(option: TierOption, factor: Decimal) -> TierOption:
    """The option as if its real price were this multiple of the estimate."""
    if not option.is_estimate or option.cost is None:
        return option
    price, fallback = (
        replace(one, amount=one.amount * factor, is_estimate=False) if one else None
        for one in (option.price, option.fallback_price)
    )
    cost = replace(option.cost, expected=option.cost.expected * factor)
    return replace(option, price=price, fallback_price=fallback, cost=cost)


def _choose(
    workload: WorkloadSpec, options: Sequence[TierOption], value: ValueOfTime
) -> tuple[TierOption, str]:
    """The recommended option, and why it is not the rule's if it is another one."""
    rule = choose_tier_by_rule(workload)
    chosen = next(option for option in options if option.tier is rule.tier)
    if workload.tier is not Tier.AUTO:
        return chosen, ""
    better, why = _overturn(chosen, options)
    return _by_time(workload, better or chosen, options, value) or (better or chosen, why)


def _by_time(
    workload: WorkloadSpec, chosen: TierOption, options: Sequence[TierOption], value: ValueOfTime
) -> tuple[TierOption, str] | None:
    """The option that the value of time prefers, and why; None if it agrees.

    The default value only keeps a short job out of a queue that takes longer than its work.
    """
    possible = [
        option
        for option in options
        if option.is_possible and (option is chosen or _keeps_chance(option, chosen))
    ]
    if not value.is_given:
        possible = [option for option in possible if option.tier in (Tier.ON_DEMAND, chosen.tier)]
        on_demand = next((o for o in possible if o.tier is Tier.ON_DEMAND), chosen)
        if not _is_queue_for_short_work(workload, chosen, on_demand):
            return None
    best = best_for(possible, value)
    if best is None or best is chosen or not (best.cost and chosen.cost):
        return None
    delay = delay_of(chosen, best).total_seconds()
    if delay >= 0 and chosen.cost.expected >= best.cost.expected:
        earlier = f", and finishes {format_duration(delay)} earlier" if delay else ""
        return best, f"{_compared(best, chosen)}{earlier}."
    origin = "at" if value.is_given else "at an assumed value of"
    worth = f"{origin} {value.per_hour:,} {best.cost.currency} per hour"
    if delay > 0:
        saved = best.cost.expected - chosen.cost.expected
        return best, (
            f"{_name(chosen)} saves {saved:,} {best.cost.currency} but finishes "
            f"{format_duration(delay)} later, which is not worth it {worth}."
        )
    saved = chosen.cost.expected - best.cost.expected
    return best, (
        f"{_name(best)} saves {saved:,} {best.cost.currency} and finishes "
        f"{format_duration(-delay)} later, which is worth it {worth}."
    )


def _is_queue_for_short_work(workload: WorkloadSpec, option: TierOption, other: TierOption) -> bool:
    """Whether the option delays the work by longer than the work takes."""
    seconds = workload.work_seconds or math.inf
    is_queue = option.tier is Tier.FLEX_START
    return is_queue and delay_of(option, other).total_seconds() > seconds


def _overturn(chosen: TierOption, options: Sequence[TierOption]) -> tuple[TierOption | None, str]:
    """The option that the simulation prefers over the rule's, and why; None if they agree.

    Only safer options can win, unless the rule's option is not possible at all. An estimated price
    counts with its uncertainty.
    """
    possible = [option for option in options if option.is_possible and option is not chosen]
    if chosen.why_not is not None:
        return (_preferred(possible), chosen.why_not) if possible else (None, "")
    safer = [option for option in possible if _SAFETY[option.tier] > _SAFETY[chosen.tier]]
    if chosen.chance is not None and chosen.chance < CHANCE_MIN:
        more_reliable = [option for option in safer if _is_more_reliable(option, chosen.chance)]
        if more_reliable:
            best = _preferred(more_reliable)
            return best, (
                f"{_name(best)} meets the deadline in {best.chance:.0%} of simulated runs, "
                f"compared with {chosen.chance:.0%} for {chosen.tier}."
            )
    cheaper = [
        option
        for option in safer
        if _is_surely_cheaper(option, chosen) and _keeps_chance(option, chosen)
    ]
    if cheaper:
        cheapest = min(cheaper, key=_amount_at_most)
        return cheapest, f"{_compared(cheapest, chosen)}."
    return None, ""


def _compared(cheaper: TierOption, chosen: TierOption) -> str:
    about, about_chosen = ("about " if one.is_estimate else "" for one in (cheaper, chosen))
    return (
        f"{_name(cheaper)} is expected to cost {about}{_money(cheaper)}, compared with "
        f"{about_chosen}{_money(chosen)} for {chosen.tier}"
    )


def _preferred(options: Sequence[TierOption]) -> TierOption:
    """The cheapest option that meets the deadline reliably, even if an estimated price is too low;
    else the safest.
    """
    reliable = [
        option for option in options if option.chance is None or option.chance >= CHANCE_MIN
    ]
    if reliable:
        return min(reliable, key=_amount_at_most)
    return max(options, key=lambda option: option.chance or 0.0)


def _is_more_reliable(option: TierOption, chance: float) -> bool:
    return option.chance is not None and (
        option.chance >= CHANCE_MIN or option.chance > chance + _RELIABILITY_GAIN
    )


def _keeps_chance(option: TierOption, chosen: TierOption) -> bool:
    """Whether choosing it does not put the deadline at risk."""
    if chosen.chance is None or option.chance is None:
        return True
    return option.chance >= min(CHANCE_MIN, chosen.chance - _RELIABILITY_GAIN)


def _numbers(
    workload: WorkloadSpec,
    assumptions: Assumptions,
    chosen: TierOption,
    by_tier: dict[Tier, TierOption],
    deadline: timedelta | None,
) -> Iterator[str]:
    """The numbers of the chosen tier, as sentences."""
    if chosen.cost is not None:
        span = " for 30 days" if workload.kind is WorkloadKind.SERVING else ""
        spread = f" (95% of runs cost at most {chosen.cost.p95:,} {chosen.cost.currency})"
        is_certain = chosen.cost.p95 == chosen.cost.expected
        yield f"Expected cost{span}: {_money(chosen)}{'' if is_certain else spread}."
        yield from _savings(chosen, by_tier[Tier.ON_DEMAND])
    if chosen.finish is not None:
        yield (
            f"Time to finish: {_span(chosen.finish.p50)} (median), {_span(chosen.finish.p95)} "
            "(95th percentile)."
        )
    if chosen.chance is not None and deadline is not None:
        hours = f"{deadline.total_seconds() / 3600:,.2f}".rstrip("0").rstrip(".")
        yield f"The deadline, {hours} h from now, is met in {chosen.chance:.1%} of simulated runs."
    if workload.kind is not WorkloadKind.SERVING:
        yield from _overhead(workload, assumptions, chosen)


def _savings(chosen: TierOption, on_demand: TierOption) -> Iterator[str]:
    if chosen.tier is Tier.ON_DEMAND or not chosen.cost or not on_demand.cost:
        return
    if on_demand.cost.expected == 0:
        # Less than half a cent: there is nothing to compare.
        return
    saved = 1 - chosen.cost.expected / on_demand.cost.expected
    effect = f"saves {saved:.0%}" if saved >= 0 else f"costs {-saved:.0%} more"
    yield f"On-demand would cost {_money(on_demand)}, so {chosen.tier} {effect}."


def _overhead(
    workload: WorkloadSpec, assumptions: Assumptions, chosen: TierOption
) -> Iterator[str]:
    waste, is_many = chosen.waste, assumptions.replicas > 1
    if waste is None:
        return
    if chosen.interruptions is not None and chosen.interruptions >= 0.05:
        whose = f" for each of the {assumptions.replicas:,} Pods" if is_many else ""
        number = f"{chosen.interruptions:.1f}".removesuffix(".0")
        what = "node expiration" if chosen.primary is Tier.FLEX_START else "interruption"
        expected = f"{what} is" if number == "1" else f"{what}s are"
        yield (
            f"About {number} {expected} expected{whose}. On average, "
            f"{waste.redone_hours:.1f} h of work is redone, restarts take "
            f"{waste.restart_hours:.1f} h and waiting takes {waste.wait_hours:.1f} h."
        )
    if chosen.save_every is not None:
        is_by_steps = workload.checkpoint and isinstance(workload.checkpoint.interval, int)
        verb = "It is assumed to save" if is_by_steps else "It saves"
        yield (
            f"{verb} after every {_span(chosen.save_every)} of work, which takes "
            f"{waste.save_hours:.1f} h in total{' per Pod' if is_many else ''}."
        )


def _mentions(
    workload: WorkloadSpec, chosen: TierOption, options: Sequence[TierOption], value: ValueOfTime
) -> Iterator[str]:
    """Cheaper options that were not chosen, and why."""
    is_by_time = workload.tier is Tier.AUTO and value.is_given
    for option in options:
        if option is chosen or not option.is_possible or not _is_cheaper(option, chosen):
            continue
        met = "" if option.chance is None else f", on time in {option.chance:.1%} of simulated runs"
        about = "about " if option.is_estimate else ""
        cheaper = f"{_name(option)} would be cheaper ({about}{_money(option)}{met})"
        later = delay_of(option, chosen).total_seconds()
        if not _keeps_chance(option, chosen):
            yield f"{cheaper}, but less reliable."
        elif later > 0 and (is_by_time or _is_queue_for_short_work(workload, option, chosen)):
            yield f"{cheaper}, but would finish {format_duration(later)} later."
        elif option.is_estimate:
            yield (
                f"{_name(option)} might be cheaper (about {_money(option)}{met}), but its price is "
                f"an estimate. {_SUPPLY_PRICE}"
            )
        elif chosen.is_estimate:
            yield (f"{cheaper}, but the {chosen.tier} price is an estimate. {_SUPPLY_PRICE}")
        elif option.chance is None or chosen.chance is None:
            yield f"{cheaper}."
        elif option.chance < chosen.chance - _VISIBLE:
            yield f"{cheaper}, but less reliable."
        elif chosen.tier is Tier.HYBRID and option.tier is Tier.SPOT:
            yield (
                f"{cheaper} and equally reliable in this simulation. But Spot may be unavailable "
                "for longer than assumed here, and a hybrid then uses other capacity."
            )
        else:
            yield f"{cheaper}."


def _is_cheaper(option: TierOption, chosen: TierOption) -> bool:
    return bool(option.cost and chosen.cost) and _amount(option) < _amount(chosen) * _CHEAPER


def _is_surely_cheaper(option: TierOption, chosen: TierOption) -> bool:
    """Whether it is cheaper even if the estimated prices are wrong in the worst direction."""
    is_estimate = option.is_estimate or chosen.is_estimate
    least = _CHEAPER_BY_ESTIMATE if is_estimate else _CHEAPER
    return bool(option.cost and chosen.cost) and (
        _amount_at_most(option) < _amount_at_least(chosen) * least
    )


def _amount_at_most(option: TierOption) -> Decimal:
    return _amount(option) * (PRICE_DOUBT if option.is_estimate else 1)


def _amount_at_least(option: TierOption) -> Decimal:
    return _amount(option) / (PRICE_DOUBT if option.is_estimate else 1)


def _amount(option: TierOption) -> Decimal:
    return option.cost.expected if option.cost else Decimal("Infinity")


def _name(option: TierOption) -> str:
    """The tier at the start of a sentence."""
    return option.tier.capitalize()


def _money(option: TierOption) -> str:
    assert option.cost is not None
    return f"{option.cost.expected:,} {option.cost.currency}"


def _span(duration: timedelta) -> str:
    return format_duration(duration.total_seconds())
