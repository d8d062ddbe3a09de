"""Prices of CPU machines, attached accelerators and TPUs; names that people mistype."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from outlast.capacity.google_cloud import offers_flex_start, similar_accelerator
from outlast.capacity.planning.plan import plan
from outlast.capacity.pricing.prices import PriceUnknown, built_in_prices
from outlast.capacity.vocabulary import Tier
from outlast.cli.plan.prices import PriceFlags, PriceFormat, prices
from tests.unit.capacity.test_plan import RUNS, TRAINING, option, own, planned, without, workload

REGION = "us-central1"


@pytest.mark.parametrize(
    "machine",
    ["e2-standard-8", "n1-standard-8", "c3-standard-8", "ct5lp-hightpu-4t", "ct5p-hightpu-4t",
     "ct6e-standard-8t", "nvidia-tesla-v100"],
)  # fmt: skip
def test_more_machines_have_a_dated_price(machine: str) -> None:
    for tier in (Tier.ON_DEMAND, Tier.SPOT):
        price = built_in_prices().find(machine, REGION, tier)
        assert price.amount > 0 and price.date == date(2026, 8, 21) and price.source


def test_no_region_is_many_times_as_expensive_as_another() -> None:
    amounts: dict[tuple[str, str], list[Decimal]] = {}
    for price in built_in_prices().rows:
        amounts.setdefault((price.machine, price.tier), []).append(price.amount)

    assert all(max(found) < 20 * min(found) for found in amounts.values())


def test_attached_accelerators_are_added_to_their_machine() -> None:
    table = built_in_prices()
    machine, gpu = (
        table.find(one, REGION, Tier.SPOT).amount for one in ("n1-standard-16", "nvidia-tesla-t4")
    )

    both = table.find("n1-standard-16", REGION, Tier.SPOT, attached=("nvidia-tesla-t4", 2))
    made = plan(workload(accelerator="{type: nvidia-tesla-t4, count: 2}"), runs=100)

    assert both.amount == machine + 2 * gpu and both.count == 2
    assert not both.is_estimate
    spot = option(made, Tier.SPOT).price
    assert spot is not None and spot.amount == both.amount


def test_a_family_without_flex_start_does_not_list_it() -> None:
    with pytest.raises(PriceUnknown):
        built_in_prices().find("e2-standard-8", REGION, Tier.FLEX_START)
    listed = {price.machine for price in built_in_prices().estimates()}
    assert "e2-standard-8" not in listed and "nvidia-tesla-t4" not in listed
    assert {"a2-highgpu-1g", "ct6e-standard-4t", "h4d-standard-192"} <= listed
    for machine in ("n2-standard-8", "g4-standard-48", "a4x-highgpu-4g", "n1-standard-8"):
        assert not offers_flex_start(machine)


def test_flex_start_is_not_recommended_where_it_is_not_documented() -> None:
    text = without("checkpoint", TRAINING)
    t4 = {"accelerator": "{type: nvidia-tesla-t4, count: 2}", "work__hours": "10"}
    bought = [own(one, Tier.FLEX_START, "0.1") for one in ("n1-standard-16", "nvidia-tesla-t4")]

    made = planned(text, **t4)
    with_price = plan(
        workload(text, tier="flex-start", **t4),
        prices=built_in_prices().replaced_by(bought),
        runs=RUNS,
    )

    assert made.tier is Tier.ON_DEMAND
    assert "No flex-start price is known" in (option(made, Tier.FLEX_START).why_not or "")
    assert with_price.tier is Tier.FLEX_START
    found = option(with_price, Tier.FLEX_START).price
    assert found is not None and found.amount == Decimal("0.3")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nvidia-h100", "nvidia-h100-80gb"),
        ("h100", "nvidia-h100-80gb"),
        ("nvidia-a100", "nvidia-tesla-a100"),
        ("nvidia-t4", "nvidia-tesla-t4"),
        ("nvidia-h200", "nvidia-h200-141gb"),
        ("nvidia-l5", "nvidia-l4"),
        ("nvidia-gb200", None),
        ("something-else", None),
    ],
)
def test_a_name_with_a_missing_part_is_understood(name: str, meant: str | None) -> None:
    assert similar_accelerator(name) == meant


def test_a_refresh_keeps_what_the_catalog_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = tmp_path / "vms.csv"
    catalog.write_text(
        "InstanceType,AcceleratorName,AcceleratorCount,Region,Price,SpotPrice\n"
        "e2-standard-8,,,us-central1,0.5,0.25\n"
    )

    prices(
        [REGION],
        flags=PriceFlags(
            refresh=catalog,
            date=date(2026, 11, 1),
            today=date(2026, 11, 2),
            format=PriceFormat.CSV,
        ),
    )

    rows = capsys.readouterr().out.splitlines()
    assert "e2-standard-8,,,us-central1,spot,0.25,USD,2026-11-01,vms.csv" in rows
    assert any(row.startswith("a2-highgpu-1g,") and "2026-08-21" in row for row in rows)
    assert Decimal("0.5") != built_in_prices().find("e2-standard-8", REGION, Tier.ON_DEMAND).amount
