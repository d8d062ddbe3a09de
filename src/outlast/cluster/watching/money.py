"""What a run has cost so far, and what the same work would have cost on demand. Pure.

Uses the functions of `outlast why`, so that both show the same amount for the same journal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from outlast.capacity.planning.attempt_price import RunPrice, price_attempts, split_amount
from outlast.capacity.planning.run_price import NodePrice, machine_price, workload_price
from outlast.capacity.planning.why import TimeBreakdown, cost_breakdown, total_amount
from outlast.capacity.vocabulary import Tier
from outlast.capacity.workload.spec import WorkloadSpec
from outlast.cluster.watching.figures import Money
from outlast.journal.events import AttemptStarted
from outlast.journal.place import AttemptPlace
from outlast.journal.run_journal import RunJournal
from outlast.measured import attempt_uses, time_breakdown


def money_of(
    journals: Sequence[RunJournal],
    workload: WorkloadSpec | None,
    *,
    nodes: int | None = None,
    places: Mapping[str, AttemptPlace] | None = None,
) -> Money | None:
    """The cost of all parts of a run, None if no price is known.

    Each attempt has the price of its own tier and machine. `places` is what is known of nodes by
    their name, for attempts that do not state it.
    """
    if not journals:
        return None
    prices = [price_attempts(attempt_uses(one, places), workload) for one in journals]
    count = nodes or _nodes(journals[0], workload)
    known = [price for price in prices if price is not None]
    if not known or count is None or len({price.currency for price in known}) > 1:
        return None
    missing = len(prices) - len(known)
    lows = [
        _cost(time_breakdown(one), price.low if price else Decimal(0), count)
        for one, price in zip(journals, prices, strict=True)
    ]
    highs = [
        _cost(time_breakdown(one), price.high, count)
        for one, price in zip(journals, prices, strict=True)
        if price is not None and price.high is not None
    ]
    notes = [note for price in known for note in price.notes]
    if missing:
        notes.append(f"{missing} of {len(prices)} parts have no known price and are not included.")
    spent = sum(lows, Decimal(0))
    return Money(
        spent=spent,
        spent_max=sum(highs, Decimal(0)) if len(highs) == len(prices) else None,
        on_demand=_on_demand(journals, workload, known, count),
        currency=known[0].currency,
        by_tier=_by_tier(known, lows) if not missing else (),
        notes=tuple(dict.fromkeys(notes)),
    )


def _nodes(journal: RunJournal, workload: WorkloadSpec | None) -> int | None:
    if workload is not None:
        return workload.nodes
    started = [
        event
        for record in journal.records
        for event in record.events
        if isinstance(event, AttemptStarted)
    ]
    # Ranks are not nodes: with several, the number of nodes is not known from the journal.
    return 1 if all(event.world_size == 1 for event in started) else None


def _cost(spent: TimeBreakdown, price: Decimal, nodes: int) -> Decimal:
    return total_amount(cost_breakdown(spent, price=price, nodes=nodes)) or Decimal(0)


def _by_tier(
    prices: Sequence[RunPrice], amounts: Sequence[Decimal]
) -> tuple[tuple[str, Decimal], ...]:
    """The cost of each tier; empty if it is not known, or there is only one."""
    if not all(price.shares for price in prices):
        return ()
    found: dict[Tier, Decimal] = {}
    for price, amount in zip(prices, amounts, strict=True):
        for tier, own in split_amount(amount, price.shares).items():
            found[tier] = found.get(tier, Decimal(0)) + own
    return tuple((tier.value, amount) for tier, amount in found.items()) if len(found) > 1 else ()


def _on_demand(
    journals: Sequence[RunJournal],
    workload: WorkloadSpec | None,
    prices: Sequence[RunPrice],
    nodes: int,
) -> Decimal | None:
    """None if attempts have used different machines, so that the same work is not defined."""
    other = _on_demand_price(workload, prices)
    if other is None or other.amount is None or other.currency != prices[0].currency:
        return None
    amounts = (_cost(_uninterrupted(one), other.amount, nodes) for one in journals)
    return sum(amounts, Decimal(0))


def _on_demand_price(workload: WorkloadSpec | None, prices: Sequence[RunPrice]) -> NodePrice | None:
    rows = [row for price in prices for row in price.rows]
    machines = {row.machine for row in rows}
    if workload is not None:
        is_same = machines <= {workload.machine_type}
        return workload_price(workload, Tier.ON_DEMAND) if is_same else None
    if len(machines) != 1 or len({row.location for row in rows}) != 1:
        return None
    return machine_price(rows[0].machine, rows[0].location, Tier.ON_DEMAND)


def _uninterrupted(journal: RunJournal) -> TimeBreakdown:
    """The time for the same steps in one attempt: one start, the work, and the saves."""
    spent = time_breakdown(journal)
    starts = max(1, len(journal.summary.attempts))
    starting = spent.starting_seconds / starts
    return replace(
        spent,
        total_seconds=spent.work_seconds + spent.saving_seconds + starting,
        starting_seconds=starting,
        redone_seconds=0.0,
        waiting_seconds=0.0,
        leaving_seconds=0.0,
    )
