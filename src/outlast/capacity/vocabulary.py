"""The words that a workload file chooses from."""

from enum import StrEnum


class Kind(StrEnum):
    """What a workload does."""

    TRAINING = "training"
    SWEEP = "sweep"
    BATCH_INFERENCE = "batch-inference"
    SERVING = "serving"
    CI = "ci"


class Tier(StrEnum):
    """How capacity is bought. `AUTO` leaves the choice to the rules and the plan."""

    AUTO = "auto"
    SPOT = "spot"
    FLEX_START = "flex-start"
    ON_DEMAND = "on-demand"
    HYBRID = "hybrid"


class ClusterMode(StrEnum):
    """Who looks after the nodes."""

    STANDARD = "standard"
    AUTOPILOT = "autopilot"


class StorageKind(StrEnum):
    """How a checkpoint reaches its place: by the store's API, a mounted bucket or a claim."""

    OBJECT = "object"
    FUSE = "fuse"
    CLAIM = "claim"


class AccessMode(StrEnum):
    """Who may mount a claim at the same time."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class AlertStack(StrEnum):
    """Which objects carry the alerts: Google's managed Prometheus, or the operator's."""

    GMP = "gmp"
    OPERATOR = "operator"


class TaintEffect(StrEnum):
    """What a taint does to Pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"
