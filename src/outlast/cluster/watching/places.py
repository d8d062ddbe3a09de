"""Where an attempt ran, from the labels of its node. Pure."""

from outlast.cluster.diagnosis.facts import NodeFact
from outlast.journal.place import AttemptPlace
from outlast.manifests.conventions import (
    FLEX_START_LABEL,
    PROVISIONING_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
)

_MACHINE_LABEL = "node.kubernetes.io/instance-type"
_ZONE_LABEL = "topology.kubernetes.io/zone"


def place_of(node: NodeFact) -> AttemptPlace:
    """Tier, machine and zone as far as the node states them: a node without labels states none."""
    return AttemptPlace(
        node=node.name,
        tier=_tier(node),
        machine=node.labels.get(_MACHINE_LABEL) or None,
        zone=node.labels.get(_ZONE_LABEL) or None,
    )


def _tier(node: NodeFact) -> str | None:
    labels = node.labels
    if labels.get(SPOT_LABEL) == "true" or labels.get(PROVISIONING_LABEL) == "spot":
        return "spot"
    if "true" in (labels.get(FLEX_START_LABEL), labels.get(QUEUED_LABEL)):
        return "flex-start"
    return "on-demand" if labels.get(PROVISIONING_LABEL) == "standard" else None
