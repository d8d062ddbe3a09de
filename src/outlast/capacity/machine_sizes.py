"""vCPUs and memory of machine types.

The table next to this file was taken on 2026-08-22 from the public catalog of SkyPilot for Google
Cloud (skypilot-catalog f2624ac, v8/gcp/vms.csv). Machines with fewer than 4 vCPUs and bare-metal
machines are left out. A machine that is not listed may be newer: its size is unknown, not guessed.
"""

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TABLE = Path(__file__).with_name("machine_sizes.csv")


class MachineSize(NamedTuple):
    vcpus: int
    memory_gib: float


def machine_size(machine: str) -> MachineSize | None:
    """The size of a machine type; None if it is not listed."""
    return machine_sizes().get(machine)


@cache
def machine_sizes() -> dict[str, MachineSize]:
    """The sizes of all listed machine types."""
    with _TABLE.open(encoding="ascii", newline="") as file:
        return {
            row["machine"]: MachineSize(int(row["vcpus"]), float(row["memory_gib"]))
            for row in csv.DictReader(file)
        }
