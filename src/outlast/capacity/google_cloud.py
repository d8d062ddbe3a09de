"""Machines and regions of Google Cloud.

Facts about the platform, for defaults and for catching combinations that do not exist. A machine,
accelerator or region that is not listed may be newer than these tables, and is accepted as given.
"""

import re
from difflib import get_close_matches

from outlast._base.google_cloud import DUAL_REGIONS, MULTI_REGIONS

ATTACHED = "n1"
"""The machine family that accelerators can be attached to; in all others they are built in."""

_BUILT_IN: dict[str, dict[int, str]] = {
    "nvidia-l4": {
        1: "g2-standard-8",
        2: "g2-standard-24",
        4: "g2-standard-48",
        8: "g2-standard-96",
    },
    "nvidia-tesla-a100": {
        1: "a2-highgpu-1g",
        2: "a2-highgpu-2g",
        4: "a2-highgpu-4g",
        8: "a2-highgpu-8g",
        16: "a2-megagpu-16g",
    },
    "nvidia-a100-80gb": {
        1: "a2-ultragpu-1g",
        2: "a2-ultragpu-2g",
        4: "a2-ultragpu-4g",
        8: "a2-ultragpu-8g",
    },
    "nvidia-h100-80gb": {
        1: "a3-highgpu-1g",
        2: "a3-highgpu-2g",
        4: "a3-highgpu-4g",
        8: "a3-highgpu-8g",
    },
    "nvidia-h100-mega-80gb": {8: "a3-megagpu-8g"},
    "nvidia-h200-141gb": {8: "a3-ultragpu-8g"},
    "nvidia-b200": {8: "a4-highgpu-8g"},
    "nvidia-rtx-pro-6000": {
        1: "g4-standard-48",
        2: "g4-standard-96",
        4: "g4-standard-192",
        8: "g4-standard-384",
    },
}
_ATTACHED: dict[str, dict[int, str]] = {
    "nvidia-tesla-t4": {1: "n1-standard-8", 2: "n1-standard-16", 4: "n1-standard-32"},
    "nvidia-tesla-v100": {
        1: "n1-standard-8",
        2: "n1-standard-16",
        4: "n1-standard-32",
        8: "n1-standard-64",
    },
    "nvidia-tesla-p100": {1: "n1-standard-8", 2: "n1-standard-16", 4: "n1-standard-32"},
    "nvidia-tesla-p4": {1: "n1-standard-8", 2: "n1-standard-16", 4: "n1-standard-32"},
}
MACHINES: dict[str, dict[int, str]] = {**_BUILT_IN, **_ATTACHED}
"""The default machine type for each accelerator and count."""

TPU_MACHINES: dict[str, tuple[str, int]] = {
    "ct5lp-hightpu-1t": ("tpu-v5-lite-podslice", 1),
    "ct5lp-hightpu-4t": ("tpu-v5-lite-podslice", 4),
    "ct5lp-hightpu-8t": ("tpu-v5-lite-podslice", 8),
    "ct5p-hightpu-4t": ("tpu-v5p-slice", 4),
    "ct6e-standard-1t": ("tpu-v6e-slice", 1),
    "ct6e-standard-4t": ("tpu-v6e-slice", 4),
    "ct6e-standard-8t": ("tpu-v6e-slice", 8),
}
"""Machine types with TPUs, with the accelerator label of GKE and the number of chips."""

# All accelerator-optimized machines except A4X and G4, and H4D
# (cloud.google.com/compute/docs/instances/about-flex-start-vms, read on 2026-11-19); in GKE, TPUs.
_FLEX_START = re.compile(r"(a[234]|g2|h4d|ct\d+l?p|ct6e|tpu7x)-", re.ASCII)
_WITH_TPUS = re.compile(r"(?:ct|tpu)\d", re.ASCII)
_SMALLER_G2 = {
    "g2-standard-4": 1,
    "g2-standard-12": 1,
    "g2-standard-16": 1,
    "g2-standard-32": 1,
}
_ACCELERATORS = {
    machine: (accelerator, count)
    for accelerator, counts in _BUILT_IN.items()
    for count, machine in counts.items()
} | {machine: ("nvidia-l4", count) for machine, count in _SMALLER_G2.items()}

DEFAULT_CPU_MACHINE = "e2-standard-8"


def default_machine(accelerator: str | None, count: int) -> str | None:
    """The machine type for `count` accelerators per node; None if this table has none."""
    if accelerator is None:
        return DEFAULT_CPU_MACHINE
    return MACHINES.get(accelerator, {}).get(count)


def built_in(machine: str) -> tuple[str, int] | None:
    """The accelerators built into a machine type; None if it has none or is not listed."""
    return _ACCELERATORS.get(machine)


def has_tpus(machine: str) -> bool:
    """Whether a machine type has TPUs, also one that is newer than the table."""
    return _WITH_TPUS.match(machine) is not None


def offers_flex_start(machine: str) -> bool:
    """Whether flex-start is documented to sell this machine type."""
    return _FLEX_START.match(machine) is not None


# Accelerators of machines that have no public price (A4X). Similar names are other accelerators.
_WITHOUT_MACHINE = ("gb200", "gb300")


def similar_accelerator(name: str) -> str | None:
    """The accelerator that a name most likely means; None if nothing is similar.

    A name with a missing part, such as the size of the memory, is better than one that only looks
    similar: nvidia-h100 means nvidia-h100-80gb, not nvidia-b200.
    """
    words = name.lower().removeprefix("nvidia-").removeprefix("tesla-").split("-")
    if words[0] in _WITHOUT_MACHINE:
        return None
    bare = {one.removeprefix("nvidia-").removeprefix("tesla-"): one for one in MACHINES}
    longer = [one for one in bare if set(words) <= set(one.split("-"))]
    if longer:
        return bare[min(longer, key=len)]
    near = get_close_matches("-".join(words), bare, n=1, cutoff=0.7)
    if near:
        return bare[near[0]]
    return next(iter(get_close_matches(name, MACHINES, n=1, cutoff=0.8)), None)


REGIONS = (
    "africa-south1",
    "asia-east1", "asia-east2",
    "asia-northeast1", "asia-northeast2", "asia-northeast3",
    "asia-south1", "asia-south2",
    "asia-southeast1", "asia-southeast2", "asia-southeast3",
    "australia-southeast1", "australia-southeast2",
    "europe-central2", "europe-north1", "europe-north2", "europe-southwest1",
    "europe-west1", "europe-west2", "europe-west3", "europe-west4", "europe-west6",
    "europe-west8", "europe-west9", "europe-west10", "europe-west12",
    "me-central1", "me-central2", "me-west1",
    "northamerica-northeast1", "northamerica-northeast2", "northamerica-south1",
    "southamerica-east1", "southamerica-west1",
    "us-central1", "us-east1", "us-east4", "us-east5", "us-south1",
    "us-west1", "us-west2", "us-west3", "us-west4",
)  # fmt: skip


_ZONE = re.compile(r"(?P<region>[a-z]+-[a-z]+\d+)-[a-z]", re.ASCII)


def region_of(location: str) -> str:
    """The region of a zone. A region is returned unchanged."""
    match = _ZONE.fullmatch(location)
    return match["region"] if match else location


def covers(location: str, region: str) -> bool | None:
    """Whether a bucket in this location is close to the region; None for an unknown location.

    A location is a region, a dual-region such as nam4, a multi-region such as eu, or a zone.
    """
    if location in DUAL_REGIONS:
        return region in DUAL_REGIONS[location]
    if location in MULTI_REGIONS:
        return region.startswith(MULTI_REGIONS[location])
    if region_of(location) == region:
        return True
    return False if region_of(location) in REGIONS else None
