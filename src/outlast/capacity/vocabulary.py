"""The enumerations of a workload file."""

from enum import StrEnum


class WorkloadKind(StrEnum):
    """The kind of a workload."""

    TRAINING = "training"
    SWEEP = "sweep"
    BATCH_INFERENCE = "batch-inference"
    SERVING = "serving"
    CI = "ci"


class Tier(StrEnum):
    """How capacity is bought. With `AUTO`, the rules and the plan choose."""

    AUTO = "auto"
    SPOT = "spot"
    FLEX_START = "flex-start"
    ON_DEMAND = "on-demand"
    HYBRID = "hybrid"


class Launcher(StrEnum):
    """What starts the ranks on a node: torchrun, or the command itself."""

    TORCHRUN = "torchrun"
    NONE = "none"


class ClusterMode(StrEnum):
    """Whether the user (standard) or Google (autopilot) manages the nodes."""

    STANDARD = "standard"
    AUTOPILOT = "autopilot"


class StorageKind(StrEnum):
    """How Pods access checkpoints: an object store API, a mounted bucket or a volume claim."""

    OBJECT = "object"
    FUSE = "fuse"
    CLAIM = "claim"


class AccessMode(StrEnum):
    """How many nodes may mount a claim at the same time."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class AlertStack(StrEnum):
    """Who evaluates the alerts: Google Managed Prometheus (gmp) or the Prometheus operator."""

    GMP = "gmp"
    OPERATOR = "operator"


class TaintEffect(StrEnum):
    """The effect of a taint on Pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"
