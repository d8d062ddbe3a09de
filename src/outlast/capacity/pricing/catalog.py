"""Convert a catalog of cloud prices to a price table.

Such a catalog has separate rows for machines and accelerators; a machine with accelerators costs
the sum of both. A machine without accelerators costs what its row says, accelerators that can be
attached to it have a row of their own, and a TPU row includes its machine. Machines without
matching accelerator rows are skipped and counted, not guessed.
Pure except for reading the file.
"""

import csv
import io
import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from outlast.capacity.google_cloud import TPU_MACHINES, built_in
from outlast.capacity.pricing.prices import LIST, Price, PriceError, checked_rows, text_of
from outlast.capacity.vocabulary import Tier

COLUMNS = (
    "InstanceType", "AcceleratorName", "AcceleratorCount", "Region", "Price", "SpotPrice",
)  # fmt: skip

NOT_ON_DEMAND = frozenset({"a3-highgpu-1g", "a4-highgpu-8g"})
"""Machines that have a list price but cannot be bought on demand."""

_ACCELERATORS = {
    "A100": "nvidia-tesla-a100",
    "A100-80GB": "nvidia-a100-80gb",
    "B200": "nvidia-b200",
    "H100": "nvidia-h100-80gb",
    "H100-MEGA": "nvidia-h100-mega-80gb",
    "H200": "nvidia-h200-141gb",
    "L4": "nvidia-l4",
    "RTXPRO6000": "nvidia-rtx-pro-6000",
}
_ATTACHED = {
    "P100": "nvidia-tesla-p100",
    "P4": "nvidia-tesla-p4",
    "T4": "nvidia-tesla-t4",
    "V100": "nvidia-tesla-v100",
}
_TPUS = {
    "tpu-v5litepod-1": "ct5lp-hightpu-1t",
    "tpu-v5litepod-4": "ct5lp-hightpu-4t",
    "tpu-v5litepod-8": "ct5lp-hightpu-8t",
    "tpu-v5p-8": "ct5p-hightpu-4t",
    "tpu-v6e-1": "ct6e-standard-1t",
    "tpu-v6e-4": "ct6e-standard-4t",
    "tpu-v6e-8": "ct6e-standard-8t",
}
"""TPU slices of one machine. The name of a v5p slice counts cores, two per chip."""

_TPU_PLACEHOLDER = Decimal(700)
"""What the catalog says of TPUs, of any size, in regions where it has no price for them."""

_WITHOUT_ACCELERATORS = re.compile(
    r"(e2|f1|g1|[cn][1-4][ad]?|t2[ad]|m[1-4]|h3|h4d|z3|x4)-", re.ASCII
)
K = TypeVar("K")
_AMOUNT = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_COUNT = re.compile(r"\d{1,6}(\.0{1,6})?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedPrices:
    """The prices in a file, and the machines for which no total could be computed.

    `unknown_skus` are the descriptions of SKUs that are not a known part of a machine.
    """

    rows: tuple[Price, ...]
    skipped: tuple[str, ...]
    unknown_skus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _PricePair:
    """The on-demand and Spot prices in a row; None where the row has no value."""

    on_demand: Decimal | None
    spot: Decimal | None


_NOTHING = _PricePair(Decimal(0), Decimal(0))


def read_catalog(path: Path, *, dated: date, source: str, currency: str = "USD") -> ImportedPrices:
    """The prices in a catalog file. Raises `PriceError` with the line number of the problem."""
    return parse_catalog(
        text_of(path), name=str(path), dated=dated, source=source, currency=currency
    )


def parse_catalog(
    text: str, *, name: str, dated: date, source: str, currency: str = "USD"
) -> ImportedPrices:
    """The prices in the text of a catalog. All zones of a region must have the same price."""
    machines, accelerators = _read_pairs(text, name)
    rows: list[Price] = []
    skipped = []
    for (machine, region), pair in sorted(machines.items()):
        kind, count = _accelerators_of(machine)
        extra = accelerators.get((kind, count, region)) if _needs_sum(machine, kind) else _NOTHING
        if extra is None:
            skipped.append(f"{machine} in {region}")
            continue
        for tier, amount in _sums(machine, pair, extra):
            rows.append(
                Price(
                    machine=machine,
                    accelerator=kind,
                    count=count,
                    location=region,
                    tier=tier,
                    amount=amount,
                    currency=currency,
                    date=dated,
                    source=source,
                )
            )
    if not rows:
        raise PriceError(
            f"{name} contains no machine whose total price could be computed.",
            hint="Rows with an InstanceType are machines; rows without one are accelerators.",
            file=name,
        )
    return ImportedPrices(rows=tuple(rows), skipped=tuple(skipped))


def _read_pairs(
    text: str, name: str
) -> tuple[dict[tuple[str, str], _PricePair], dict[tuple[str, int, str], _PricePair]]:
    """The prices of machines by name and region, and those of accelerators by kind and number."""
    machines: dict[tuple[str, str], _PricePair] = {}
    accelerators: dict[tuple[str, int, str], _PricePair] = {}
    reader = csv.DictReader(io.StringIO(text), strict=True)
    for row in checked_rows(reader, COLUMNS, name):
        try:
            pair = _PricePair(_amount(row, "Price"), _amount(row, "SpotPrice"))
            if row["AcceleratorName"] in _TPUS and pair.on_demand == _TPU_PLACEHOLDER:
                continue
            if row["InstanceType"]:
                _agree(machines, (row["InstanceType"], row["Region"]), pair)
            elif (machine := _whole_machine(row)) is not None:
                _agree(machines, (machine, row["Region"]), pair)
            elif (kind := _ACCELERATORS.get(row["AcceleratorName"])) is not None:
                _agree(accelerators, (kind, _count(row), row["Region"]), pair)
        except ValueError as error:
            raise PriceError(
                f"{name}:{reader.line_num}: {error}", file=name, line=reader.line_num
            ) from None
    return machines, accelerators


def _whole_machine(row: dict[str, str]) -> str | None:
    """The machine type that a row without one prices: a TPU, or one attached accelerator."""
    name = row["AcceleratorName"]
    if name in _ATTACHED and _count(row) == 1:
        return _ATTACHED[name]
    return _TPUS.get(name)


def _accelerators_of(machine: str) -> tuple[str, int]:
    if machine in _ATTACHED.values():
        return machine, 1
    return built_in(machine) or TPU_MACHINES.get(machine) or ("", 0)


def _needs_sum(machine: str, kind: str) -> bool:
    """Whether the accelerators of a machine are priced in another row."""
    if machine in TPU_MACHINES or machine in _ATTACHED.values():
        return False
    return kind != "" or _WITHOUT_ACCELERATORS.match(machine) is None


def _sums(machine: str, pair: _PricePair, extra: _PricePair) -> list[tuple[str, Decimal]]:
    sums = []
    for tier, one, other in (
        (Tier.ON_DEMAND.value, pair.on_demand, extra.on_demand),
        (Tier.SPOT.value, pair.spot, extra.spot),
    ):
        # A partial price would be worse than none.
        if one is None or other is None or one + other == 0:
            continue
        if tier == Tier.ON_DEMAND.value and machine in NOT_ON_DEMAND:
            tier = LIST
        sums.append((tier, one + other))
    return sums


def _amount(row: dict[str, str], column: str) -> Decimal | None:
    text = row[column].strip()
    if not text:
        return None
    if _AMOUNT.fullmatch(text) is None:
        raise ValueError(f"{column}: expected a number, got {text!r}.")
    return Decimal(text)


def _count(row: dict[str, str]) -> int:
    text = row["AcceleratorCount"].strip()
    if _COUNT.fullmatch(text) is None:
        raise ValueError(f"AcceleratorCount: expected a whole number, got {text!r}.")
    return int(Decimal(text))


def _agree(found: dict[K, _PricePair], key: K, pair: _PricePair) -> None:
    if found.setdefault(key, pair) != pair:
        raise ValueError(f"{key!r} has a different price in an earlier line.")
