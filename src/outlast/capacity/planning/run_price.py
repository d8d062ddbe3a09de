"""The price of the nodes of a run, with what is uncertain about it. Pure."""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from outlast.capacity.pricing.prices import Price, PriceTable, PriceUnknown, built_in_prices
from outlast.capacity.vocabulary import Tier

if TYPE_CHECKING:
    from outlast.capacity.workload.spec import WorkloadSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePrice:
    """The price of one node for an hour; `amount` is None if unknown. `notes` are sentences."""

    amount: Decimal | None = None
    currency: str = "USD"
    row: Price | None = None
    notes: tuple[str, ...] = ()


def workload_price(
    workload: "WorkloadSpec", tier: Tier, *, table: PriceTable | None = None
) -> NodePrice:
    """The price of a workload's machine on a tier that machines can be bought on."""
    return machine_price(
        workload.machine_type,
        workload.cluster.location,
        tier,
        attached=workload.attached,
        table=table,
    )


def machine_price(
    machine: str,
    location: str,
    tier: Tier,
    *,
    attached: tuple[str, int] | None = None,
    table: PriceTable | None = None,
) -> NodePrice:
    """The price of a machine type in a region or zone, with the accelerators attached to it."""
    try:
        price = (table or built_in_prices()).find(machine, location, tier, attached=attached)
    except PriceUnknown as error:
        return NodePrice(notes=(f"{error} Costs are not shown.",))
    notes = (f"The {tier} price is an {price.source}.",) if price.is_estimate else ()
    return NodePrice(amount=price.amount, currency=price.currency, row=price, notes=notes)
