"""Prices from a pricing export of Cloud Billing, in the documented schema with made-up prices."""

import csv
import io
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from outlast.capacity.pricing.billing_export import (
    CSV_COLUMNS,
    is_billing_export,
    parse_billing_export,
)
from outlast.capacity.pricing.catalog import ImportedPrices
from outlast.capacity.pricing.prices import LIST, PriceError, built_in_prices, parse_prices
from outlast.cli.plan.prices import PriceFlags, PriceFormat, prices
from outlast.errors import OutlastError

DAY = "2026-08-30 07:00:00 UTC"
REGIONS = ("us-central1", "us-east1")
TODAY = date(2026, 9, 1)


def row(description: str, amount: object, *, unit: str = "h", **changes: Any) -> dict[str, Any]:
    """A row of the table, as `bq extract` writes it: numbers of the type NUMERIC are text."""
    return {
        "export_time": "2026-08-30 09:12:00.123 UTC",
        "pricing_as_of_time": DAY,
        "billing_account_id": "010101-F0FFF0-10X10X",
        "business_entity_name": "GCP",
        "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
        "sku": {"id": f"ID {description}", "description": description},
        "geo_taxonomy": {"type": "MULTI_REGION", "regions": list(REGIONS)},
        "pricing_unit": unit,
        "account_currency_code": "USD",
        "list_price": {
            "tiered_rates": [
                {"pricing_unit_quantity": 1, "start_usage_amount": 0, "usd_amount": amount}
            ]
        },
        **changes,
    }


A2 = [
    row("A2 Instance Core running in Americas", "0.03"),
    row("A2 Instance Ram running in Americas", "0.004", unit="GiBy.h"),
    row("Nvidia Tesla A100 GPU running in Americas", "2.9"),
]
A2_SPOT = [
    row("Spot Preemptible A2 Instance Core running in Americas", "0.01"),
    row("Spot Preemptible A2 Instance Ram running in Americas", "0.001", unit="GiBy.h"),
    row("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas", "1.1"),
]


def imported(rows: list[dict[str, Any]]) -> ImportedPrices:
    text = "".join(json.dumps(one) + "\n" for one in rows)
    assert is_billing_export(text)
    return parse_billing_export(text, name="export.json", source="ours")


def amount_of(found: ImportedPrices, machine: str, tier: str, region: str = REGIONS[0]) -> Decimal:
    (amount,) = [one.amount for one in found.rows if one.key == (machine, region, tier)]
    return amount


def test_a_machine_costs_the_sum_of_its_parts_in_each_region_and_tier() -> None:
    found = imported([*A2, *A2_SPOT])

    for region in REGIONS:
        on_demand = amount_of(found, "a2-highgpu-2g", "on-demand", region)
        assert on_demand == 24 * Decimal("0.03") + 170 * Decimal("0.004") + 2 * Decimal("2.9")
        spot = amount_of(found, "a2-highgpu-2g", "spot", region)
        assert spot == 24 * Decimal("0.01") + 170 * Decimal("0.001") + 2 * Decimal("1.1")
    for one in found.rows:
        assert (one.currency, one.date, one.source) == ("USD", date(2026, 8, 30), "ours")


def test_cpu_machines_attached_accelerators_and_tpus_are_read() -> None:
    found = imported(
        [
            row("N1 Predefined Instance Core running in Americas", 0.03),
            row("N1 Predefined Instance Ram running in Americas", 0.004, unit="GiBy.h"),
            row("Nvidia Tesla T4 GPU running in Americas", 0.35),
            row("TpuV6e running in Americas", 2.7),
            row("TpuV6e attached to Spot Preemptible VMs running in Americas", 1.25),
        ]
    )

    assert amount_of(found, "n1-standard-16", "on-demand") == Decimal("0.72")
    assert amount_of(found, "nvidia-tesla-t4", "on-demand") == Decimal("0.35")
    assert amount_of(found, "ct6e-standard-4t", "on-demand") == Decimal("10.8")
    assert amount_of(found, "ct6e-standard-4t", "spot") == Decimal(5)


def test_a_machine_that_is_not_sold_on_demand_has_a_list_price() -> None:
    found = imported(
        [
            row("A3 Instance Core running in Americas", 0.03),
            row("A3 Instance Ram running in Americas", 0.002, unit="GiBy.h"),
            row("Nvidia H100 80GB GPU running in Americas", 9.8),
        ]
    )

    assert {one.tier for one in found.rows if one.machine == "a3-highgpu-1g"} == {LIST}
    assert {one.tier for one in found.rows if one.machine == "a3-highgpu-8g"} == {"on-demand"}
    # Its GPUs have a SKU of their own, which is not here.
    assert not [one for one in found.rows if one.machine == "a3-megagpu-8g"]


@pytest.mark.parametrize(
    "description",
    [
        "Commitment v1: A2 Cpu in Americas for 1 Year",
        "Commitment v1: Nvidia Tesla A100 GPU running in Americas for 1 Year",
        "Reserved TpuV5p in Delhi in Calendar Mode",
        "A2 Custom Instance Core running in Americas",
        "Nvidia Tesla A100 80GB Plus GPU running in Americas",
        "SSD backed PD Capacity",
    ],
)
def test_a_sku_that_is_not_known_for_certain_is_counted_and_not_guessed(description: str) -> None:
    found = imported([*A2, row(description, "0.000001", unit="GiBy.mo")])

    assert found.unknown_skus == (description,)
    assert found.rows == imported(A2).rows


def test_a_machine_with_a_missing_part_is_skipped() -> None:
    found = imported([*A2, *A2_SPOT[:2]])

    assert "a2-highgpu-1g in us-central1" in found.skipped
    assert {one.tier for one in found.rows} == {"on-demand"}


def test_only_the_newest_day_counts() -> None:
    old = [{**one, "pricing_as_of_time": "2026-08-29 07:00:00 UTC"} for one in A2_SPOT]

    found = imported([*old, *A2])

    assert {one.tier for one in found.rows} == {"on-demand"}


def test_other_services_are_ignored() -> None:
    other = row("A2 Instance Core running in Americas", "77")
    other["service"] = {"id": "1", "description": "Cloud Storage"}

    assert imported([*A2, other]) == imported(A2)
    with pytest.raises(PriceError, match="no price of Compute Engine"):
        imported([other])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (row("A2 Instance Core running in X", "0"), "expected a price above 0, got '0'"),
        (row("A2 Instance Core running in X", "-1"), "expected a price above 0"),
        (row("A2 Instance Core running in X", "inf"), "expected a finite number"),
        (row("A2 Instance Core running in X", "NaN"), "expected a finite number"),
        (row("A2 Instance Core running in X", True), "usd_amount: expected a number, got True"),
        (row("A2 Instance Core running in X", "1 USD"), "usd_amount: expected a number"),
        (row("A2 Instance Core running in X", None), "usd_amount: expected a number"),
        (row("A2 Instance Core running in X", "1", unit="s"), "expected 'h', got 's'"),
        (row("A2 Instance Core running in X", "1"), "a different price in us-central1"),
        (
            row("A2 Instance Core running in X", "1", account_currency_code="EUR"),
            "account_currency_code: expected USD, got 'EUR'",
        ),
        (
            row("A2 Instance Core running in X", "1", pricing_as_of_time="yesterday"),
            "pricing_as_of_time: expected a time",
        ),
        (row("A2 Instance Core running in X", "1", pricing_as_of_time=None), "expected a time"),
        (row("A2 Instance Core running in X", "1", list_price={}), "has 0 rates"),
        (
            row(
                "A2 Instance Core running in X",
                "1",
                list_price={"tiered_rates": [{"usd_amount": "1", "pricing_unit_quantity": 1000}]},
            ),
            "pricing_unit_quantity of 'A2 Instance Core running in X': expected 1",
        ),
        (
            row(
                "A2 Instance Core running in X",
                "1",
                list_price={"tiered_rates": [{"usd_amount": "1", "start_usage_amount": 5}]},
            ),
            "start_usage_amount of 'A2 Instance Core running in X': expected 0",
        ),
        (row("A2 Instance Core running in X", "1", sku="A2"), "sku: expected an object"),
    ],
)
def test_what_is_not_a_valid_price_is_refused_with_its_line(
    changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(PriceError) as caught:
        imported([*A2, changed])

    assert words in str(caught.value)
    assert str(caught.value).startswith("export.json:4: ")
    assert (caught.value.file, caught.value.line) == ("export.json", 4)


@pytest.mark.parametrize("text", ['{"a": 1', "[1, 2]", '{"a": 1, "a": 2}', '{"usd_amount": NaN}'])
def test_what_is_not_a_row_is_refused(text: str) -> None:
    with pytest.raises(PriceError, match=r"export\.json:1: "):
        parse_billing_export(text, name="export.json", source="ours")


def csv_text(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    for one in rows:
        for region in one["geo_taxonomy"]["regions"]:
            for rate in one["list_price"]["tiered_rates"]:
                writer.writerow(
                    (
                        *(one["pricing_as_of_time"], one["account_currency_code"]),
                        *(one["service"]["description"], one["sku"]["id"]),
                        *(one["sku"]["description"], region, one["pricing_unit"]),
                        *(rate["start_usage_amount"], rate["usd_amount"]),
                    )
                )
    return text.getvalue()


def test_an_array_and_csv_give_the_same_prices() -> None:
    rows = [*A2, *A2_SPOT]
    expected = imported(rows)

    for text in (json.dumps(rows, indent=1), csv_text(rows)):
        assert is_billing_export(text)
        assert parse_billing_export(text, name="export", source="ours") == expected


def test_a_csv_without_a_column_is_refused() -> None:
    text = csv_text(A2).replace("account_currency_code", "currency", 1)

    with pytest.raises(PriceError, match="has no column 'account_currency_code'"):
        parse_billing_export(text, name="export.csv", source="ours")


def test_a_refresh_replaces_what_the_export_has_and_keeps_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "export.json"
    rows = [*A2, row("Storage PD Capacity", "0.04", unit="GiBy.mo")]
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))

    prices(flags=PriceFlags(refresh=file, today=TODAY, format=PriceFormat.CSV))

    shown = capsys.readouterr()
    found = {one.key: one for one in parse_prices(shown.out, name="shown")}
    new = found["a2-highgpu-1g", "us-central1", "on-demand"]
    assert (new.amount, new.date, new.source) == (Decimal("3.6"), date(2026, 8, 30), "export.json")
    key = ("a2-highgpu-1g", "us-central1", "spot")
    assert found[key] == {one.key: one for one in built_in_prices().rows}[key]
    assert "SKUs that are not known parts of machines: 1, such as Storage PD Capacity." in shown.err
    assert "machines without prices for all their parts" in shown.err


def test_an_export_has_a_date_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(json.dumps(A2))

    with pytest.raises(OutlastError, match="contains the date of its prices"):
        prices(flags=PriceFlags(refresh=file, date=TODAY, today=TODAY))
