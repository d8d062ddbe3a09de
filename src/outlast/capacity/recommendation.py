"""The recommendation among tiers that were weighed, and its reasons in sentences.

Pure. The hard rules come first. Where the arithmetic contradicts them it says so and wins, but
never on the strength of an estimated price: that is only mentioned.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal

from outlast._base.durations import format_duration
from outlast.capacity.assumptions import Assumptions
from outlast.capacity.cautions import about_deadline
from outlast.capacity.options import CHANCE_MIN, Option
from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.tier import choose_tier_by_rule
from outlast.capacity.vocabulary import Kind, Tier

_SAFETY = {Tier.SPOT: 0, Tier.HYBRID: 1, Tier.FLEX_START: 2, Tier.ON_DEMAND: 3}
# A difference below these is within what the assumptions are good for.
_CHEAPER = Decimal("0.99")
_SURER = 0.05
# Below this, two chances look the same in print.
_AS_SURE = 0.0005


def recommend(
    workload: WorkloadSpec,
    assumptions: Assumptions,
    options: Sequence[Option],
    deadline: timedelta | None,
) -> tuple[Tier, list[str]]:
    """The tier and the reasons: the rule, what the arithmetic says to it, and the figures."""
    by_tier = {option.tier: option for option in options}
    rule = choose_tier_by_rule(workload)
    reasons = [rule.reason]
    chosen = by_tier[rule.tier]
    better, why = _overturn(chosen, options) if workload.tier is Tier.AUTO else (None, "")
    if better is not None:
        reasons.append(f"But the arithmetic says {better.tier}, not {chosen.tier}: {why}")
        chosen = better
    elif chosen.why_not is not None:
        reasons.append(f"But something stands against it: {chosen.why_not}")
    reasons += _figures_told(workload, assumptions, chosen, by_tier, deadline)
    reasons += about_deadline(chosen, options)
    reasons += _mentions(chosen, options)
    return chosen.tier, reasons


def _overturn(chosen: Option, options: Sequence[Option]) -> tuple[Option | None, str]:
    """The option that the arithmetic prefers to the rule's, and why; None if it agrees.

    Only safer options can win, unless the rule's is not possible at all; and by their cost only
    where no price is an estimate.
    """
    possible = [option for option in options if option.is_possible and option is not chosen]
    if chosen.why_not is not None:
        return (_preferred(possible), chosen.why_not) if possible else (None, "")
    safer = [option for option in possible if _SAFETY[option.tier] > _SAFETY[chosen.tier]]
    if chosen.chance is not None and chosen.chance < CHANCE_MIN:
        surer = [option for option in safer if _is_surer(option, chosen.chance)]
        if surer:
            best = _preferred(surer)
            return best, (
                f"it meets the deadline in {best.chance:.0%} of all runs, {chosen.tier} in "
                f"{chosen.chance:.0%}."
            )
    cheaper = [
        option
        for option in safer
        if _is_cheaper(option, chosen) and not option.is_estimate and _keeps_chance(option, chosen)
    ]
    if cheaper and not chosen.is_estimate:
        cheapest = min(cheaper, key=_amount)
        return cheapest, (
            f"it is expected to cost {_money(cheapest)}, and {chosen.tier} {_money(chosen)}."
        )
    return None, ""


def _preferred(options: Sequence[Option]) -> Option:
    """The cheapest that meets the deadline surely enough, estimates last; else the surest."""
    sure = [option for option in options if option.chance is None or option.chance >= CHANCE_MIN]
    if sure:
        return min(sure, key=lambda option: (option.is_estimate, _amount(option)))
    return max(options, key=lambda option: option.chance or 0.0)


def _is_surer(option: Option, chance: float) -> bool:
    return option.chance is not None and (
        option.chance >= CHANCE_MIN or option.chance > chance + _SURER
    )


def _keeps_chance(option: Option, chosen: Option) -> bool:
    """Whether to take it would put no deadline at risk."""
    if chosen.chance is None or option.chance is None:
        return True
    return option.chance >= min(CHANCE_MIN, chosen.chance - _SURER)


def _figures_told(
    workload: WorkloadSpec,
    assumptions: Assumptions,
    chosen: Option,
    by_tier: dict[Tier, Option],
    deadline: timedelta | None,
) -> Iterator[str]:
    """The figures of the chosen tier, in sentences."""
    if chosen.cost is not None:
        span = "30 days are" if workload.kind is Kind.SERVING else "It is"
        spread = f"; 19 of 20 runs cost at most {chosen.cost.p95:,} {chosen.cost.currency}"
        is_sure = chosen.cost.p95 == chosen.cost.expected
        yield f"{span} expected to cost {_money(chosen)}{'' if is_sure else spread}."
        yield from _compared(chosen, by_tier[Tier.ON_DEMAND])
    if chosen.finish is not None:
        yield (
            f"It is done after {_span(chosen.finish.p50)} in half of all runs, and after "
            f"{_span(chosen.finish.p95)} in 19 of 20."
        )
    if chosen.chance is not None and deadline is not None:
        hours = f"{deadline.total_seconds() / 3600:,.2f}".rstrip("0").rstrip(".")
        yield f"The deadline, {hours} h from now, is met in {chosen.chance:.1%} of all runs."
    if workload.kind is not Kind.SERVING:
        yield from _waste_told(workload, assumptions, chosen)


def _compared(chosen: Option, on_demand: Option) -> Iterator[str]:
    if chosen.tier is Tier.ON_DEMAND or not chosen.cost or not on_demand.cost:
        return
    if on_demand.cost.expected == 0:
        # Less than half a cent: there is nothing to compare.
        return
    saved = 1 - chosen.cost.expected / on_demand.cost.expected
    word = "saves" if saved >= 0 else "costs more by"
    yield f"On-demand would cost {_money(on_demand)}: {chosen.tier} {word} {abs(saved):.0%}."


def _waste_told(workload: WorkloadSpec, assumptions: Assumptions, chosen: Option) -> Iterator[str]:
    waste, is_many = chosen.waste, assumptions.crews > 1
    if waste is None:
        return
    if chosen.interruptions is not None and chosen.interruptions >= 0.05:
        whose = f" for each of the {assumptions.crews:,} Pods" if is_many else ""
        yield (
            f"About {chosen.interruptions:.1f} interruptions are expected{whose}. In the mean "
            f"{waste.redone_hours:.1f} h of work are done again, {waste.restart_hours:.1f} h go "
            f"into starting, {waste.wait_hours:.1f} h into waiting."
        )
    if chosen.save_every is not None:
        is_by_steps = workload.checkpoint and isinstance(workload.checkpoint.interval, int)
        word = "It is reckoned to save" if is_by_steps else "It saves"
        yield (
            f"{word} after every {_span(chosen.save_every)} of work, which takes "
            f"{waste.save_hours:.1f} h in all{' for each Pod' if is_many else ''}."
        )


def _mentions(chosen: Option, options: Sequence[Option]) -> Iterator[str]:
    """What else a reader should know before deciding: cheaper options that did not win, and why."""
    for option in options:
        if option is chosen or not option.is_possible or not _is_cheaper(option, chosen):
            continue
        chance = "" if option.chance is None else f", in time in {option.chance:.1%} of all runs"
        told = f"{option.tier.capitalize()} would be cheaper, {_money(option)}{chance}"
        if option.is_estimate:
            yield (
                f"{option.tier.capitalize()} may be cheaper still, about {_money(option)}{chance}; "
                "but its price is an estimate, so it decides nothing. Put in the real one with "
                "--prices."
            )
        elif chosen.is_estimate:
            yield (
                f"{told}; but the {chosen.tier} price is an estimate, so that decides nothing. Put "
                "in the real one with --prices."
            )
        elif option.chance is None or chosen.chance is None:
            yield f"{told}."
        elif option.chance < chosen.chance - _AS_SURE:
            yield f"{told}, but less sure."
        elif chosen.tier is Tier.HYBRID and option.tier is Tier.SPOT:
            yield (
                f"{told}. By these figures that is as sure; but Spot can run dry for longer than "
                "is assumed here, and a hybrid then takes other capacity."
            )
        else:
            yield f"{told}."


def _is_cheaper(option: Option, chosen: Option) -> bool:
    return bool(option.cost and chosen.cost) and _amount(option) < _amount(chosen) * _CHEAPER


def _amount(option: Option) -> Decimal:
    return option.cost.expected if option.cost else Decimal("Infinity")


def _money(option: Option) -> str:
    assert option.cost is not None
    return f"{option.cost.expected:,} {option.cost.currency}"


def _span(duration: timedelta) -> str:
    return format_duration(duration.total_seconds())
