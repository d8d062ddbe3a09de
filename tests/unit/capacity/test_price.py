"""Prices: the published figures, exact, dated and sourced; estimates told apart; clear refusals."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from outlast.capacity.google_cloud import region_of
from outlast.capacity.pricing.catalog import parse_catalog
from outlast.capacity.pricing.prices import (
    COLUMNS,
    Price,
    PriceError,
    PriceTable,
    PriceUnknown,
    age_days,
    built_in_prices,
    check_currency,
    format_prices,
    parse_multiplier,
    parse_prices,
    read_prices,
)
from outlast.capacity.vocabulary import Tier

HEAD = ",".join(COLUMNS)
ROW = "g2-standard-4,nvidia-l4,1,us-central1,spot,0.42,USD,2026-08-21,test"


def price(machine: str, tier: Tier, location: str = "us-central1") -> Price:
    return built_in_prices().find(machine, location, tier)


@pytest.mark.parametrize(
    ("machine", "on_demand", "spot"),
    [
        ("g2-standard-4", "0.707", "0.424"),
        ("g2-standard-48", "4.002", "2.400"),
        ("a2-highgpu-1g", "3.673", "2.121"),
        ("a2-highgpu-8g", "29.387", "16.966"),
        ("a2-ultragpu-1g", "5.028", "2.903"),
        ("a3-highgpu-8g", "87.832", "52.699"),
        ("a3-megagpu-8g", "92.214", "55.321"),
        ("a3-ultragpu-8g", "86.760", "50.380"),
        ("g4-standard-48", "4.500", "1.649"),
    ],
)
def test_the_built_in_prices_are_the_published_ones(
    machine: str, on_demand: str, spot: str
) -> None:
    cent = Decimal("0.001")

    assert price(machine, Tier.ON_DEMAND).amount.quantize(cent) == Decimal(on_demand)
    assert price(machine, Tier.SPOT).amount.quantize(cent) == Decimal(spot)


def test_every_built_in_price_has_a_date_a_source_and_one_currency() -> None:
    rows = built_in_prices().rows

    assert len(rows) > 700
    assert {row.currency for row in rows} == {"USD"}
    assert all(row.source and row.date >= date(2026, 8, 21) and row.amount > 0 for row in rows)
    assert len({row.key for row in rows}) == len(rows)


@pytest.mark.parametrize("machine", ["a4-highgpu-8g", "a3-highgpu-1g"])
def test_what_is_not_sold_on_demand_has_no_such_price_but_an_estimate(machine: str) -> None:
    with pytest.raises(PriceUnknown, match="has no on-demand price"):
        price(machine, Tier.ON_DEMAND)

    assert price(machine, Tier.FLEX_START).is_estimate
    assert price(machine, Tier.SPOT).amount > 0


def test_flex_start_is_an_estimate_by_multiplier_and_says_so() -> None:
    estimate = price("a2-highgpu-1g", Tier.FLEX_START)

    assert estimate.is_estimate
    assert estimate.amount == price("a2-highgpu-1g", Tier.ON_DEMAND).amount * Decimal("0.5")
    assert estimate.source == "estimate: 0.5 x the on-demand price"


def test_the_order_of_the_tiers_is_not_fixed() -> None:
    h200, b200 = "a3-ultragpu-8g", "a4-highgpu-8g"

    assert price(h200, Tier.FLEX_START).amount < price(h200, Tier.SPOT).amount
    assert price(b200, Tier.FLEX_START).amount > price(b200, Tier.SPOT).amount


def test_a_price_of_ones_own_replaces_the_built_in_one_and_is_no_estimate() -> None:
    text = f"{HEAD}\na2-highgpu-1g,,,us-central1,flex-start,1.99,USD,2026-11-01,contract\n"

    table = built_in_prices().replaced_by(parse_prices(text, name="mine.csv"))
    found = table.find("a2-highgpu-1g", "us-central1-b", Tier.FLEX_START)

    assert (found.amount, found.source, found.is_estimate) == (Decimal("1.99"), "contract", False)
    assert table.find("a2-highgpu-1g", "us-central1", Tier.SPOT).amount == Decimal("2.12081")


def test_a_zone_has_the_price_of_its_region() -> None:
    assert region_of("us-central1-a") == "us-central1"
    assert region_of("us-central1") == "us-central1"
    assert price("g2-standard-4", Tier.SPOT, "us-central1-c").amount == Decimal("0.42396")


@pytest.mark.parametrize(
    ("machine", "location", "words", "hint"),
    [
        ("g2-standard-5", "us-central1", "machine type 'g2-standard-5'", "'g2-standard-4'"),
        ("g2-standard-4", "us-centrall1", "in 'us-centrall1'", "Did you mean 'us-central1'"),
        # This region exists: it is no misspelled europe-west1.
        ("a4-highgpu-8g", "southamerica-west1", "in 'southamerica-west1'", "Prices are available"),
        ("a9-highgpu-8g", "us-central1", "'a9-highgpu-8g'", "supply its prices with --prices"),
        ("g2-standard-4", "mars", "in 'mars'", "Prices are available in asia-east1"),
        ("quantum", "us-central1", "machine type 'quantum'", "outlast prices"),
    ],
)
def test_an_unknown_name_brings_the_nearest_ones(
    machine: str, location: str, words: str, hint: str
) -> None:
    with pytest.raises(PriceUnknown) as caught:
        price(machine, Tier.SPOT, location)

    assert words in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_a_table_survives_being_written_and_read() -> None:
    rows = built_in_prices().rows

    assert tuple(parse_prices(format_prices(rows), name="t")) == rows


def test_the_age_is_that_of_the_oldest() -> None:
    rows = parse_prices(f"{HEAD}\n{ROW}\n{ROW.replace('08-21', '10-01')}", name="t")

    assert age_days(rows, today=date(2026, 11, 20)) == 91


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no columns 'machine', 'accelerator'"),
        ("machine,price\na,1", "has no columns 'accelerator'"),
        (HEAD.replace("currency,", "") + "\n", "has no column 'currency'"),
        (HEAD, "contains no prices"),
        (f"{HEAD}\n{ROW.replace('0.42', '0')}", "t:2: price: zero is not accepted"),
        (f"{HEAD}\n{ROW.replace('0.42', '-1')}", "t:2: price: expected a number such as 1.8471"),
        (f"{HEAD}\n{ROW.replace('0.42', '1e3')}", "t:2: price: expected a number such as 1.8471"),
        (f"{HEAD}\n{ROW.replace('0.42', 'NaN')}", "t:2: price: expected a number such as 1.8471"),
        (f"{HEAD}\n{ROW.replace('spot', 'cheap')}", "got 'cheap'"),
        (f"{HEAD}\n{ROW.replace('USD', '$')}", "three letters such as USD"),
        (
            f"{HEAD}\n{ROW.replace('2026-08-21', 'yesterday')}",
            "t:2: date: expected a date such as 2026-08-21, got 'yesterday'",
        ),
        (
            f"{HEAD}\n{ROW.replace('2026-08-21', '2026-13-01')}",
            "t:2: date: expected a date such as 2026-08-21, got '2026-13-01'",
        ),
        (
            f"{HEAD}\n{ROW.replace(',1,', ',-2,')}",
            "t:2: count: expected a whole number or an empty value, got '-2'",
        ),
        (
            f"{HEAD}\n{ROW.replace(',1,', ',two,')}",
            "t:2: count: expected a whole number or an empty value, got 'two'",
        ),
        (
            f"{HEAD}\n{ROW.replace('g2-standard-4', 'G2 <b>')}",
            "machine: expected lowercase letters, digits and '-', got 'G2 <b>'",
        ),
        (f"{HEAD}\n{ROW},more", "number of values differs from the header"),
        (f'{HEAD}\n"{ROW}', "Invalid CSV"),
    ],
)
def test_a_broken_table_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(PriceError) as caught:
        parse_prices(text, name="t")

    assert words in str(caught.value)


def test_prices_in_two_currencies_may_stand_in_a_table_but_not_be_compared() -> None:
    own = f"{HEAD}\n{ROW.replace('USD', 'EUR')}"
    table = built_in_prices().replaced_by(parse_prices(own, name="t"))
    spot = table.find("g2-standard-4", "us-central1", Tier.SPOT)
    on_demand = table.find("g2-standard-4", "us-central1", Tier.ON_DEMAND)

    check_currency([spot, spot])
    with pytest.raises(
        PriceError, match=r"is in EUR, but the on-demand price .* is in USD. Currencies are not"
    ):
        check_currency([spot, on_demand])


@pytest.mark.parametrize("multiplier", ["0", "-1", "11", "NaN", "Infinity"])
def test_a_multiplier_that_cannot_be_is_refused(multiplier: str) -> None:
    with pytest.raises(PriceError, match="Expected a flex-start multiplier above 0 and at most 10"):
        PriceTable((), Decimal(multiplier))


@pytest.mark.parametrize("text", ["abc", "nan", "inf", "1e3", "-1", ""])
def test_a_multiplier_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(PriceError, match="Expected a flex-start multiplier above 0 and at most 10"):
        parse_multiplier(text)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match=r"Could not read .*: No such file"):
        read_prices(tmp_path / "no.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PriceError, match="not UTF-8 text"):
        read_prices(tmp_path / "bytes.csv")


CATALOGUE = """\
InstanceType,vCPUs,AcceleratorName,AcceleratorCount,Region,AvailabilityZone,Price,SpotPrice
g2-standard-4,4.0,,,us-central1,us-central1-a,0.14679,0.08806
g2-standard-4,4.0,,,us-central1,us-central1-b,0.14679,0.08806
a4-highgpu-8g,224.0,,,us-central1,us-central1-b,0.0,0.0
a3-ultragpu-8g,224.0,,,europe-west4,europe-west4-a,12.0,7.0
weird-8,8.0,,,us-central1,us-central1-a,1.0,0.5
,,L4,1,us-central1,us-central1-a,0.56004,0.3359
,,L4,1,us-central1,us-central1-b,0.56004,0.3359
,,B200,8,us-central1,us-central1-b,90.216,39.6336
,,H200,8,europe-west4,europe-west4-a,,49.1656
,,T4,1,us-central1,us-central1-a,0.35,0.14
"""


def imported(text: str = CATALOGUE) -> dict[tuple[str, str], Decimal]:
    found = parse_catalog(text, name="c.csv", dated=date(2026, 8, 21), source="test")
    return {(row.machine, row.tier): row.amount for row in found.rows}


def test_a_catalogues_machines_and_accelerators_are_added_up() -> None:
    assert imported() == {
        ("g2-standard-4", "on-demand"): Decimal("0.70683"),
        ("g2-standard-4", "spot"): Decimal("0.42396"),
        # Its list price is no price that one can pay.
        ("a4-highgpu-8g", "list"): Decimal("90.2160"),
        ("a4-highgpu-8g", "spot"): Decimal("39.6336"),
        # Half of the on-demand price is missing, so there is none.
        ("a3-ultragpu-8g", "spot"): Decimal("56.1656"),
        # It is attached to other machines, so it has a price of its own.
        ("nvidia-tesla-t4", "on-demand"): Decimal("0.35"),
        ("nvidia-tesla-t4", "spot"): Decimal("0.14"),
    }


def test_a_placeholder_of_a_catalogue_is_no_price() -> None:
    tpu = ",,tpu-v6e-8,1,{region},{region}-a,{price},{price}\n"
    rows = tpu.format(region="asia-east1", price="700.0") + tpu.format(
        region="us-east1", price="21.6"
    )

    found = parse_catalog(CATALOGUE + rows, name="c.csv", dated=date(2026, 8, 21), source="test")

    assert {row.location for row in found.rows if row.machine == "ct6e-standard-8t"} == {"us-east1"}


def test_what_cannot_be_added_up_is_named() -> None:
    found = parse_catalog(CATALOGUE, name="c.csv", dated=date(2026, 8, 21), source="test")

    assert found.skipped == ("weird-8 in us-central1",)
    assert {row.date for row in found.rows} == {date(2026, 8, 21)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("InstanceType,Price\na,1\n", "has no columns 'AcceleratorName', 'AcceleratorCount'"),
        (
            CATALOGUE.replace("0.56004,0.3359\n,,B", "0.6,0.3359\n,,B"),
            "a different price in an earlier line",
        ),
        (CATALOGUE.replace("90.216", "free"), "c.csv:9: Price: expected a number, got 'free'"),
        (CATALOGUE.splitlines()[0], "contains no machine whose total price could be computed"),
        (
            CATALOGUE.replace("B200,8", "B200,inf"),
            "c.csv:9: AcceleratorCount: expected a whole number, got 'inf'",
        ),
        (
            CATALOGUE.replace("B200,8", "B200,nan"),
            "c.csv:9: AcceleratorCount: expected a whole number, got 'nan'",
        ),
        (
            CATALOGUE.replace("B200,8", "B200,"),
            "c.csv:9: AcceleratorCount: expected a whole number, got ''",
        ),
        (
            CATALOGUE.replace("B200,8", "B200,0.5"),
            "c.csv:9: AcceleratorCount: expected a whole number, got '0.5'",
        ),
    ],
    ids=["columns", "zones differ", "no number", "empty", "inf", "nan", "no count", "half"],
)
def test_a_broken_catalogue_is_refused(text: str, words: str) -> None:
    with pytest.raises(PriceError) as caught:
        imported(text)

    assert words in str(caught.value)
