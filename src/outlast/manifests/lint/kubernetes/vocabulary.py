"""GKE's labels and values for nodes, and the correction of misspelled ones.

GKE adds names with every release, so a name that is not close to a known one is assumed to be new.
"""

import re
from difflib import get_close_matches

from outlast.manifests.conventions import (
    ACCELERATOR_LABEL,
    FLEX_START_LABEL,
    LABEL_PREFIX,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
)

# The labels that place Pods: a name close to one of these is a mistake.
_CAPACITY_NAMES = (
    "compute-class",
    "gke-accelerator",
    "gke-accelerator-count",
    "gke-consolidation-delay-seconds",
    "gke-flex-start",
    "gke-max-run-duration-seconds",
    "gke-node-recycle-lead-time-seconds",
    "gke-nodepool",
    "gke-preemptible",
    "gke-provisioning",
    "gke-queued",
    "gke-spot",
    "gke-tpu-accelerator",
    "gke-tpu-topology",
)
# These exist as well, and some are close to one above.
_OTHER_NAMES = frozenset(
    (
        "gke-boot-disk",
        "gke-confidential-nodes",
        "gke-container-runtime",
        "gke-cpu-scaling-level",
        "gke-ephemeral-storage-local-ssd",
        "gke-gpu",
        "gke-gpu-driver-version",
        "gke-gpu-partition-size",
        "gke-gpu-sharing-strategy",
        "gke-local-nvme-ssd",
        "gke-logging-variant",
        "gke-max-pods-per-node",
        "gke-max-shared-clients-per-gpu",
        "gke-memory-gb-scaling-level",
        "gke-nodepool-group-name",
        "gke-os-distribution",
        "gke-placement-group",
        "gke-provisioning-request",
        "gke-stack-type",
        "gke-tpu-slice",
        "gke-tpu-slice-topology",
        "gke-workload-type",
        "machine-family",
    )
)
_ALIASES = {
    "gke-flex": "gke-flex-start",
    "gke-gpu-accelerator": "gke-accelerator",
    "gke-gpu-count": "gke-accelerator-count",
    "gke-gpu-type": "gke-accelerator",
    "gke-max-run-duration": "gke-max-run-duration-seconds",
    "gke-spot-vm": "gke-spot",
    "gke-spot-vms": "gke-spot",
}
_FLAGS = (SPOT_LABEL, PREEMPTIBLE_LABEL, FLEX_START_LABEL, QUEUED_LABEL)
_PROVISIONING = {
    "flex-start": ("flex", "flexstart", "flex_start"),
    "preemptible": ("preemptable",),
    "spot": ("spot-vm", "spot-vms"),
    "standard": ("on-demand", "ondemand", "regular"),
}
_ACCELERATORS = frozenset(
    (
        "nvidia-a100-80gb",
        "nvidia-b200",
        "nvidia-b300",
        "nvidia-gb200",
        "nvidia-gb300",
        "nvidia-h100-80gb",
        "nvidia-h100-mega-80gb",
        "nvidia-h200-141gb",
        "nvidia-l4",
        "nvidia-rtx-pro-6000",
        "nvidia-tesla-a100",
        "nvidia-tesla-k80",
        "nvidia-tesla-p100",
        "nvidia-tesla-p4",
        "nvidia-tesla-t4",
        "nvidia-tesla-v100",
    )
)
# Vendor names and old names.
_ACCELERATOR_ALIASES = {
    "nvidia-a100": "nvidia-tesla-a100",
    "nvidia-a100-40gb": "nvidia-tesla-a100",
    "nvidia-b200-180gb": "nvidia-b200",
    "nvidia-b200-192gb": "nvidia-b200",
    "nvidia-h100": "nvidia-h100-80gb",
    "nvidia-h100-mega": "nvidia-h100-mega-80gb",
    "nvidia-h200": "nvidia-h200-141gb",
    "nvidia-l4-24gb": "nvidia-l4",
    "nvidia-p100": "nvidia-tesla-p100",
    "nvidia-p4": "nvidia-tesla-p4",
    "nvidia-t4": "nvidia-tesla-t4",
    "nvidia-t4-16gb": "nvidia-tesla-t4",
    "nvidia-tesla-a100-80gb": "nvidia-a100-80gb",
    "nvidia-tesla-a100-40gb": "nvidia-tesla-a100",
    "nvidia-tesla-h100": "nvidia-h100-80gb",
    "nvidia-tesla-l4": "nvidia-l4",
    "nvidia-v100": "nvidia-tesla-v100",
    "nvidia-v100-16gb": "nvidia-tesla-v100",
}
# Placeholders that a tool fills in.
_PLACEHOLDER = re.compile(r"[${}<>\[\]]")
_LENGTH_MAX = 80


def meant_key(key: str) -> str | None:
    """The GKE label that was probably meant, None if the key is correct or not close to one."""
    domain, slash, name = key.rpartition("/")
    if len(key) > _LENGTH_MAX or _PLACEHOLDER.search(key):
        return None
    if domain + slash != LABEL_PREFIX:
        # A name that only GKE has, with another domain or none.
        is_gke = name in _CAPACITY_NAMES and name.startswith("gke-")
        return LABEL_PREFIX + name if is_gke else None
    if name in _CAPACITY_NAMES or name in _OTHER_NAMES:
        return None
    if f"gke-{name}" in _CAPACITY_NAMES:
        return f"{LABEL_PREFIX}gke-{name}"
    if name in _ALIASES:
        return LABEL_PREFIX + _ALIASES[name]
    near = get_close_matches(name.lower(), _CAPACITY_NAMES, n=1, cutoff=0.85)
    # With another word at its end, it is a name of its own.
    return LABEL_PREFIX + near[0] if near and not name.startswith(f"{near[0]}-") else None


def meant_value(key: str, value: str) -> str | None:
    """The value of a GKE label that was probably meant, None if the value may be correct."""
    if len(value) > _LENGTH_MAX or _PLACEHOLDER.search(value):
        return None
    if key in _FLAGS:
        is_meant = value.lower() in ("true", "yes", "on", "1")
        return "true" if is_meant and value != "true" else None
    if key == PROVISIONING_LABEL:
        return _meant_provisioning(value)
    if key == ACCELERATOR_LABEL:
        return meant_accelerator(value)
    return None


def is_on_no_node(key: str, value: str) -> bool:
    """Whether no node has this value of the label: GKE sets these labels to true or not at all."""
    return key in _FLAGS and value.lower() in ("", "false", "no", "off", "0")


def meant_accelerator(value: str) -> str | None:
    """GKE's name for an accelerator, None if it is correct already or may be a new one."""
    if value in _ACCELERATORS or len(value) > _LENGTH_MAX or _PLACEHOLDER.search(value):
        return None
    lower = value.lower().replace("_", "-")
    full = lower if lower.startswith("nvidia-") else f"nvidia-{lower}"
    if full in _ACCELERATORS:
        return full
    if full in _ACCELERATOR_ALIASES:
        return _ACCELERATOR_ALIASES[full]
    # A different number is a different accelerator.
    alike = [known for known in _ACCELERATORS if _numbers(known) == _numbers(full)]
    near = get_close_matches(full, sorted(alike), n=1, cutoff=0.85)
    return near[0] if near and not full.startswith(f"{near[0]}-") else None


def _meant_provisioning(value: str) -> str | None:
    if value in _PROVISIONING:
        return None
    lower = value.lower()
    for known, others in _PROVISIONING.items():
        if lower == known or lower in others:
            return known
    near = get_close_matches(lower, _PROVISIONING, n=1, cutoff=0.75)
    return near[0] if near else None


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)
