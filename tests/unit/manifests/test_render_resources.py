"""What Pods request, and that every quantity is spelled as the API server would spell it."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from outlast.capacity.google_cloud import DEFAULT_CPU_MACHINE, MACHINES
from outlast.capacity.machine_sizes import machine_size, machine_sizes
from outlast.manifests.render.resources import count_quantity, cpu_quantity, share_of, size_quantity
from tests.unit.manifests.render_cases import CASES, CI, SERVING, case, rendered

GIB = 1024**3
QUANTITIES = ("cpu", "memory", "storage", "sizeLimit", "nominalQuota", "nvidia.com/gpu")
_UNITS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def test_what_is_requested_of_any_machine_fits_beside_what_gke_takes() -> None:
    for machine, size in machine_sizes().items():
        requests = share_of(size)

        free = Fraction(size.memory_gib) - reserved_gib(Fraction(size.memory_gib))
        assert 0 < bytes_of(requests["memory"]) <= (free - 1) * GIB, machine
        assert 0 < cpus_of(requests["cpu"]) <= size.vcpus - Fraction(8, 10), machine
    assert rendered(CI, machine="n2-standard-8").container["resources"]["requests"] == {
        "cpu": "5500m",
        "memory": "21760Mi",
    }


def reserved_gib(capacity: Fraction) -> Fraction:
    """Memory that GKE reserves: shares that fall with the size, and the eviction threshold."""
    total, below = Fraction(100, 1024), Fraction(0)
    for limit, percent in ((4, 25), (8, 20), (16, 10), (128, 6), (10**6, 2)):
        total += max(Fraction(0), min(capacity, Fraction(limit)) - below) * percent / 100
        below = Fraction(limit)
    return total


def bytes_of(quantity: Any) -> int:
    match = re.fullmatch(r"(\d+)([KMGTPE]?)i", quantity)
    assert match is not None, quantity
    return int(match[1]) * 1 << 10 * _UNITS[match[2].replace("K", "k")]


def cpus_of(quantity: Any) -> Fraction:
    if quantity.endswith("m"):
        return Fraction(int(quantity[:-1]), 1000)
    return Fraction(quantity)


def test_the_size_of_every_default_machine_is_known() -> None:
    machines = [machine for counts in MACHINES.values() for machine in counts.values()]

    assert [one for one in [*machines, DEFAULT_CPU_MACHINE] if machine_size(one) is None] == []


def test_a_size_that_is_not_known_is_not_invented() -> None:
    rendering = rendered(CI, machine="z9-standard-8")

    assert "requests" not in rendering.container["resources"]
    assert "The size of z9-standard-8 is unknown" in rendering.text("50-job.yaml")


@pytest.mark.parametrize(
    "overrides",
    [
        {"cluster__mode": "autopilot"},
        {"cluster__pools": "[{name: cheap, tier: spot, exists: true}]"},
    ],
)
def test_nothing_is_requested_of_machines_that_others_choose(overrides: dict[str, str]) -> None:
    assert rendered(**overrides).container["resources"]["requests"] == {"nvidia.com/gpu": "2"}
    assert "OUTLAST_MACHINE" not in rendered(**overrides).env


def test_what_the_workload_asks_for_is_kept() -> None:
    resources = rendered(SERVING, resources__cpu="1.5", resources__memory="24GB").container[
        "resources"
    ]

    assert (resources["requests"]["cpu"], resources["requests"]["memory"]) == ("1500m", "24G")
    assert resources["limits"]["memory"] == "24G"
    assert "memory" not in rendered(SERVING).container["resources"]["limits"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (cpu_quantity(96), "96"),
        (cpu_quantity(0.5), "500m"),
        (cpu_quantity(0.0001), "1m"),
        (cpu_quantity(1000), "1k"),
        (count_quantity(64), "64"),
        (count_quantity(10**6), "1M"),
        (count_quantity(0), "0"),
        (size_quantity(900 * GIB), "900Gi"),
        (size_quantity(2048 * GIB), "2Ti"),
        (size_quantity(12 * 10**9), "12G"),
        (size_quantity(1500), "1500"),
        (size_quantity(1024**5), "1Pi"),
    ],
)
def test_a_quantity_is_written_as_the_api_server_writes_it(written: str, expected: str) -> None:
    assert written == expected


@pytest.mark.parametrize("name", CASES)
def test_no_quantity_would_be_rewritten(name: str) -> None:
    found = [pair for one in case(name).objects.values() for pair in quantities_in(one)]

    for key, value in found:
        assert isinstance(value, str), (key, value)
        assert _canonical(value), (key, value)
    assert not [one for one in case(name).objects.values() if one.get("globalDefault") is False]


def quantities_in(value: Any) -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, dict) else ()
    for key, item in items:
        if key in QUANTITIES and not isinstance(item, dict | list):
            yield key, item
        yield from quantities_in(item)
    for item in value if isinstance(value, list) else ():
        yield from quantities_in(item)


def _canonical(text: str) -> bool:
    """No smaller number with a larger unit means the same."""
    match = re.fullmatch(r"(0|[1-9]\d*)(m|k|[KMGTPE]i?|)", text)
    if match is None:
        return False
    number, unit = int(match[1]), match[2]
    base = 1024 if unit.endswith("i") else 1000
    return number == 0 or unit in ("E", "Ei") or number % base != 0
