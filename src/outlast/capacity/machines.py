"""Which machine brings which accelerators, on Compute Engine.

Facts of the platform, for defaults and for catching pairs that cannot be had. A machine or
accelerator that is not listed may be newer than this table and is taken as given.
"""

ATTACHED = "n1"
"""The family to which accelerators are attached freely; all others come with theirs built in."""

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
"""For each accelerator and count, the machine that is taken if the workload names none."""

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
    """The machine for so many accelerators on one node; None if this table knows none."""
    if accelerator is None:
        return DEFAULT_CPU_MACHINE
    return MACHINES.get(accelerator, {}).get(count)


def built_in(machine: str) -> tuple[str, int] | None:
    """The accelerators that come with a machine; None if none do or it is not known."""
    return _ACCELERATORS.get(machine)
