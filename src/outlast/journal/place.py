"""Where an attempt runs: variables that a manifest fills from the Pod and its node.

Recorded as they are, and never an error: a run must not fail because of what it notes about itself.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from outlast._base.settings import Setting, setting, text_of
from outlast.interruption.settings import NODE_NAME

_CHARACTERS_MAX = 253
"""The longest name in Kubernetes. A longer value is cut."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptPlace:
    """Where an attempt ran, as far as its manifest stated it."""

    pod: str | None = None
    pod_uid: str | None = None
    node: str | None = None
    tier: str | None = None
    machine: str | None = None
    zone: str | None = None


def _stated(name: str, meaning: str, hint: str) -> Setting[str | None]:
    return setting(
        "",
        text_of("A name"),
        None,
        variable=f"OUTLAST_{name}",
        default_text="unknown",
        meaning=meaning,
        hint=hint,
    )


POD_NAME = _stated("POD_NAME", "Name of this Pod, for the journal.", "Fill it from metadata.name.")
POD_UID = _stated("POD_UID", "UID of this Pod, for the journal.", "Fill it from metadata.uid.")
TIER = _stated("TIER", "Tier of this node, for the journal.", "Use spot, flex-start or on-demand.")
MACHINE = _stated(
    "MACHINE", "Machine type of this node, for the journal.", "Use a name such as g2-standard-8."
)
ZONE = _stated(
    "ZONE",
    "Zone of this node, for the journal.",
    "Fill it from the Pod's label topology.kubernetes.io/zone (Kubernetes 1.35).",
)

PLACE_SETTINGS: tuple[Setting[object], ...] = (POD_NAME, POD_UID, TIER, MACHINE, ZONE)


def place_from(environ: Mapping[str, str] = os.environ) -> AttemptPlace:
    """The place of this process. What is empty or not set is unknown."""

    def stated(one: Setting[str | None]) -> str | None:
        return environ.get(one.variable, "").strip()[:_CHARACTERS_MAX] or None

    return AttemptPlace(
        pod=stated(POD_NAME),
        pod_uid=stated(POD_UID),
        node=stated(NODE_NAME),
        tier=stated(TIER),
        machine=stated(MACHINE),
        zone=stated(ZONE),
    )
