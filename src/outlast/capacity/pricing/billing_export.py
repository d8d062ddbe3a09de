"""Read machine prices from a downloaded pricing export of Cloud Billing.

The export is the BigQuery table `cloud_pricing_export`, as described on the page "Structure of
pricing data export" of the Cloud Billing documentation: as JSON, one object per line or one array,
or as CSV with one row for each region and rate. It prices vCPUs, memory, GPUs and TPU chips
separately; a machine costs the sum of its parts, without local SSDs, as in the built-in table. SKUs
are recognized by their complete description: others are counted, not guessed, and so are machines
with a missing part.
Pure except for reading the file.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from outlast._base.strict_json import InvalidJson, strict_json
from outlast.capacity.google_cloud import TPU_MACHINES, built_in
from outlast.capacity.machine_sizes import MachineSize, machine_sizes
from outlast.capacity.pricing.catalog import NOT_ON_DEMAND, ImportedPrices
from outlast.capacity.pricing.prices import LIST, Price, PriceError, checked_rows
from outlast.capacity.vocabulary import Tier

CSV_COLUMNS = (
    "pricing_as_of_time", "account_currency_code", "service_description", "sku_id",
    "sku_description", "region", "pricing_unit", "start_usage_amount", "usd_amount",
)  # fmt: skip

_SERVICE = "Compute Engine"
_CURRENCY = "USD"
_FAMILIES = {
    "a2 instance": "a2",
    "a3 instance": "a3",
    "c3 instance": "c3",
    "c3d instance": "c3d",
    "c4 instance": "c4",
    "c4d instance": "c4d",
    "compute optimized": "c2",
    "e2 instance": "e2",
    "g2 instance": "g2",
    "g4 instance": "g4",
    "n1 predefined instance": "n1",
    "n2 instance": "n2",
    "n2d amd instance": "n2d",
}
"""The machine families by the start of their SKU descriptions."""

_ATTACHED = {
    "nvidia tesla p100 gpu": "nvidia-tesla-p100",
    "nvidia tesla p4 gpu": "nvidia-tesla-p4",
    "nvidia tesla t4 gpu": "nvidia-tesla-t4",
    "nvidia tesla v100 gpu": "nvidia-tesla-v100",
}
_ACCELERATORS = {
    **_ATTACHED,
    "nvidia h100 80gb gpu": "nvidia-h100-80gb",
    "nvidia l4 gpu": "nvidia-l4",
    "nvidia tesla a100 80gb gpu": "nvidia-a100-80gb",
    "nvidia tesla a100 gpu": "nvidia-tesla-a100",
    "rtx 6000 96gb": "nvidia-rtx-pro-6000",
    "tpuv5e": "tpu-v5-lite-podslice",
    "tpuv5p": "tpu-v5p-slice",
    "tpuv6e": "tpu-v6e-slice",
}
_CORE, _RAM, _CHIP = "vCPU", "memory", "accelerator"
_UNITS = {_CORE: "h", _RAM: "GiBy.h", _CHIP: "h"}

_DESCRIPTION = re.compile(
    r"(?P<spot>Spot Preemptible )?(?P<what>[^:]+?)(?P<attached> attached to Spot Preemptible VMs)?"
    r" running in .+",
    re.IGNORECASE,
)
_MACHINE = re.compile(
    r"(?P<family>[a-z]\d[a-z]?)-(?:standard|highmem|highcpu|highgpu|megagpu|ultragpu)-\d+g?",
    re.ASCII,
)
_REGION = re.compile(r"[a-z]+-[a-z]+\d+", re.ASCII)
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T].*)?", re.ASCII | re.DOTALL)
_STEP = Decimal("0.000000001")
_AMOUNT_MAX = Decimal(10) ** 6
_WITH_GPUS = frozenset({"a2", "a3", "g2", "g4"})

PartKey = tuple[str, str, str, str]
"""What a part is, its family or type, the region and the tier."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Record:
    """The rates of one SKU on one day. `line` is its line, or its number in an array."""

    line: int
    day: date
    sku: str
    description: str
    regions: tuple[str, ...]
    unit: str
    rates: tuple[Any, ...]


def is_billing_export(text: str) -> bool:
    """Whether a text is a pricing export, as JSON or CSV, and not a catalog of machines."""
    start = text.lstrip()[:1]
    return start in ("{", "[") or "usd_amount" in text.partition("\n")[0]


def parse_billing_export(text: str, *, name: str, source: str) -> ImportedPrices:
    """The prices on the newest day of an export. Raises `PriceError` with the line of a problem."""
    is_json = text.lstrip()[:1] in ("{", "[")
    records = list(_json_records(text, name) if is_json else _csv_records(text, name))
    if not records:
        raise PriceError(
            f"{name} contains no price of {_SERVICE}.",
            hint="Export the rows whose service.description is 'Compute Engine'.",
            file=name,
        )
    newest = max(record.day for record in records)
    amounts, unknown = _amounts([one for one in records if one.day == newest], name)
    rows, skipped = _machines(amounts, newest, source)
    if not rows:
        raise PriceError(
            f"{name} contains no machine whose total price could be computed.",
            hint="A machine needs the SKUs of its vCPUs, memory and accelerators in a region.",
            file=name,
        )
    return ImportedPrices(rows=tuple(rows), skipped=tuple(skipped), unknown_skus=tuple(unknown))


def _json_records(text: str, name: str) -> Iterator[_Record]:
    for line, row in _json_rows(text, name):
        with _Located(name, line):
            if not isinstance(row, dict):
                raise ValueError("expected an object.")
            service, sku, geo, price = (
                _part(row, key) for key in ("service", "sku", "geo_taxonomy", "list_price")
            )
            if service.get("description") != _SERVICE:
                continue
            yield _record(
                line,
                day=row.get("pricing_as_of_time"),
                sku=sku.get("id"),
                description=sku.get("description"),
                regions=geo.get("regions") or (),
                unit=row.get("pricing_unit"),
                currency=row.get("account_currency_code"),
                rates=price.get("tiered_rates") or (),
            )


def _json_rows(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """The rows with their line, or with their number if all are in one array."""
    if text.lstrip().startswith("["):
        with _Located(name, 1):
            rows = _parsed(text)
        yield from enumerate(rows, start=1)
        return
    for line, content in enumerate(text.split("\n"), start=1):
        if content.strip():
            with _Located(name, line):
                row = _parsed(content)
            yield line, row


def _parsed(text: str) -> Any:
    try:
        return strict_json(text.encode())
    except InvalidJson as error:
        raise ValueError(f"invalid JSON: {error}.") from None


def _csv_records(text: str, name: str) -> Iterator[_Record]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    for row in checked_rows(reader, CSV_COLUMNS, name):
        if row["service_description"] != _SERVICE:
            continue
        with _Located(name, reader.line_num):
            yield _record(
                reader.line_num,
                day=row["pricing_as_of_time"],
                sku=row["sku_id"],
                description=row["sku_description"],
                regions=(row["region"],),
                unit=row["pricing_unit"],
                currency=row["account_currency_code"],
                rates=(row,),
            )


class _Located:
    """Turns a ValueError into a `PriceError` that names the place."""

    def __init__(self, name: str, line: int) -> None:
        self._name, self._line = name, line

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValueError):
            raise PriceError(
                f"{self._name}:{self._line}: {error}", file=self._name, line=self._line
            ) from None


def _part(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = row.get(key)
    if not isinstance(found, dict):
        raise ValueError(f"{key}: expected an object.")
    return found


def _record(
    line: int,
    *,
    day: object,
    sku: object,
    description: object,
    regions: Any,
    unit: object,
    currency: object,
    rates: Any,
) -> _Record:
    if not isinstance(regions, list | tuple) or not isinstance(rates, list | tuple):
        raise ValueError("geo_taxonomy.regions and list_price.tiered_rates must be lists.")
    if currency != _CURRENCY:
        raise ValueError(
            f"account_currency_code: expected {_CURRENCY}, got {currency!r}. Other currencies are "
            "not converted."
        )
    return _Record(
        line=line,
        day=_day(day),
        sku=str(sku),
        description=str(description),
        regions=tuple(str(one) for one in regions if _REGION.fullmatch(str(one))),
        unit=str(unit),
        rates=tuple(rates),
    )


def _day(value: object) -> date:
    found = _DAY.fullmatch(value) if isinstance(value, str) else None
    try:
        return date.fromisoformat(found[1] if found else "")
    except ValueError:
        raise ValueError(
            f"pricing_as_of_time: expected a time such as 2026-08-21 07:00:00 UTC, got {value!r}."
        ) from None


def _amounts(records: Iterable[_Record], name: str) -> tuple[dict[PartKey, Decimal], list[str]]:
    """The price of each known part, and the descriptions of all other SKUs."""
    amounts: dict[PartKey, Decimal] = {}
    unknown: dict[str, str] = {}
    for record in records:
        part = _known_part(record.description)
        if part is None or not record.regions:
            unknown.setdefault(record.sku, record.description)
            continue
        kind, what, tier = part
        with _Located(name, record.line):
            amount = _amount(record, _UNITS[kind])
            for region in record.regions:
                if amounts.setdefault((kind, what, region, tier), amount) != amount:
                    raise ValueError(
                        f"{record.description!r} has a different price in {region} in an earlier "
                        "row."
                    )
    return amounts, list(unknown.values())


def _known_part(description: str) -> tuple[str, str, str] | None:
    """What a SKU sells and in which tier; None if that is not known for certain."""
    found = _DESCRIPTION.fullmatch(description)
    if found is None:
        return None
    what = found["what"].lower()
    is_spot = found["spot"] is not None or found["attached"] is not None
    tier = Tier.SPOT.value if is_spot else Tier.ON_DEMAND.value
    if what in _ACCELERATORS and found["spot"] is None:
        return _CHIP, _ACCELERATORS[what], tier
    for ending, kind in ((" core", _CORE), (" ram", _RAM)):
        family = _FAMILIES.get(what.removesuffix(ending)) if what.endswith(ending) else None
        if family is not None and found["attached"] is None:
            return kind, family, tier
    return None


def _amount(record: _Record, unit: str) -> Decimal:
    """The price in USD for one unit. A price that depends on the usage is refused."""
    if record.unit != unit:
        raise ValueError(f"pricing_unit of {record.description!r}: expected {unit!r}, got "
                         f"{record.unit!r}.")  # fmt: skip
    if len(record.rates) != 1 or not isinstance(record.rates[0], Mapping):
        raise ValueError(f"{record.description!r} has {len(record.rates)} rates; expected one.")
    rate = record.rates[0]
    if _number(rate, "start_usage_amount", "0") != 0:
        raise ValueError(f"start_usage_amount of {record.description!r}: expected 0.")
    if _number(rate, "pricing_unit_quantity", "1") != 1:
        raise ValueError(f"pricing_unit_quantity of {record.description!r}: expected 1.")
    amount = _number(rate, "usd_amount", "")
    if not 0 < amount <= _AMOUNT_MAX:
        raise ValueError(f"usd_amount of {record.description!r}: expected a price above 0, got "
                         f"{rate['usd_amount']!r}.")  # fmt: skip
    return amount


def _number(rate: Mapping[str, Any], key: str, default: str) -> Decimal:
    """A number, which BigQuery exports as such or as text."""
    given = rate.get(key, default)
    try:
        if isinstance(given, bool):
            raise InvalidOperation
        number = Decimal(default if given is None else str(given).strip())
    except InvalidOperation:
        raise ValueError(f"{key}: expected a number, got {given!r}.") from None
    if not number.is_finite():
        raise ValueError(f"{key}: expected a finite number, got {given!r}.")
    return number


def _machines(
    amounts: Mapping[PartKey, Decimal], day: date, source: str
) -> tuple[list[Price], list[str]]:
    """The price of each machine in each region, and those with a missing part."""
    rows: list[Price] = []
    skipped: dict[str, None] = {}
    places = sorted({(region, tier) for _, _, region, tier in amounts})
    for machine, parts, accelerator, count in _known_machines():
        for region, tier in places:
            found = [amounts.get((kind, what, region, tier)) for kind, what, _ in parts]
            if None in found:
                if found[0] is not None:
                    skipped[f"{machine} in {region}"] = None
                continue
            total = sum(
                (one * number for one, (_, _, number) in zip(found, parts, strict=True) if one),
                Decimal(0),
            )
            is_list = tier == Tier.ON_DEMAND.value and machine in NOT_ON_DEMAND
            rows.append(
                Price(
                    machine=machine,
                    accelerator=accelerator,
                    count=count,
                    location=region,
                    tier=LIST if is_list else tier,
                    amount=total.quantize(_STEP),
                    currency=_CURRENCY,
                    date=day,
                    source=source,
                )
            )
    return rows, list(skipped)


Parts = list[tuple[str, str, Decimal]]


def _known_machines() -> Iterator[tuple[str, Parts, str, int]]:
    """Each machine with its parts, and its accelerators with their number."""
    for machine, size in machine_sizes().items():
        match = _MACHINE.fullmatch(machine)
        if match is None or match["family"] not in _FAMILIES.values():
            continue
        parts = _sized_parts(match["family"], size)
        comes_with = built_in(machine)
        if comes_with is not None and comes_with[0] in _ACCELERATORS.values():
            yield machine, [*parts, (_CHIP, comes_with[0], Decimal(comes_with[1]))], *comes_with
        elif match["family"] not in _WITH_GPUS:
            yield machine, parts, "", 0
    for kind in _ATTACHED.values():
        yield kind, [(_CHIP, kind, Decimal(1))], kind, 1
    # The price of a TPU chip includes its part of the machine.
    for machine, (kind, count) in TPU_MACHINES.items():
        yield machine, [(_CHIP, kind, Decimal(count))], kind, count


def _sized_parts(family: str, size: MachineSize) -> Parts:
    return [
        (_CORE, family, Decimal(size.vcpus)),
        (_RAM, family, Decimal(str(size.memory_gib))),
    ]
