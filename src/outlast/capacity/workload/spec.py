"""The top-level keys of a workload file, their defaults and derived properties."""

from datetime import timedelta
from typing import Annotated, Any

from outlast.capacity.google_cloud import ATTACHED, default_machine, offers_flex_start
from outlast.capacity.vocabulary import Launcher, StorageKind, Tier, WorkloadKind
from outlast.capacity.workload.cluster import Cluster
from outlast.capacity.workload.fields import (
    BeforeValidator,
    Duration,
    Field,
    GoogleName,
    ImageName,
    Label,
    Moment,
    SecretRef,
    Text,
    VariableName,
    WorkloadSection,
)
from outlast.capacity.workload.sections import (
    Accelerator,
    AddressOrSecret,
    Alerts,
    CheckpointSpec,
    Hybrid,
    Measured,
    Resources,
    Security,
    ServiceAccount,
    Serving,
    Storage,
    Work,
)

MAX_RUN_DEFAULT = timedelta(days=7)
START_SECONDS = 120.0
"""Assumed time from a new node to the first step, without reading a checkpoint."""


def _listed(given: object) -> object:
    """Refuse a command given as one string: splitting it into words is up to the user."""
    if isinstance(given, str):
        words = ", ".join(given.split()[:12])
        raise ValueError(f"Expected a list of words, such as [{words}].")
    return given


def _endpoint(given: object) -> object:
    return {"url": given} if isinstance(given, str) else given


def _or_text(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"type": "string", "description": "A URL."}, *schema["anyOf"]]


class WorkloadSpec(WorkloadSection):
    """The keys of a workload file. Use `Workload`, which also checks how they combine."""

    name: Label = Field(description="Name of the workload, used for its Pods and Services.")
    namespace: Label = Field(
        default_factory=lambda data: data.get("name", ""),
        description="Kubernetes namespace. Default: the workload's name.",
    )
    kind: WorkloadKind = Field(description="Kind of workload.")
    image: ImageName = Field(description="Container image, by tag or preferably by digest.")
    command: Annotated[tuple[Text, ...], BeforeValidator(_listed)] = Field(
        default=(),
        description="Command as a list. Kubernetes expands $(NAME). Default: that of the image.",
    )
    accelerator: Accelerator | None = Field(
        default=None, description="Accelerators per node. Omit for CPU only."
    )
    machine: GoogleName | None = Field(
        default=None, description="Machine type. Default: one with the requested accelerators."
    )
    nodes: int = Field(default=1, ge=1, le=1000, description="Number of nodes of a training run.")
    launcher: Launcher | None = Field(
        default=None,
        description="What starts one rank per accelerator. Default: torchrun if a Python command "
        "runs on several nodes, otherwise none.",
    )
    parallelism: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Number of independent Pods that run at the same time.",
    )
    endless: bool = Field(
        default=False,
        description="Keep waiting for items when the queue is empty (batch inference).",
    )
    work: Work | None = Field(default=None, description="The amount of work.")
    deadline: Moment | None = Field(
        default=None,
        description="Deadline: a duration from the start, such as 72h, or a time with a time zone.",
    )
    value_of_time: float | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="What finishing one hour earlier is worth, in the currency of the prices.",
    )
    checkpoint: CheckpointSpec | None = Field(
        default=None, description="Where and how often checkpoints are saved."
    )
    storage: Storage = Field(default=Storage(), description="How Pods access the checkpoint URL.")
    queue: Annotated[AddressOrSecret | None, BeforeValidator(_endpoint)] = Field(
        default=None,
        json_schema_extra=_or_text,
        description="Queue of batch inference: a URL, or the Secret that contains it.",
    )
    sink: Annotated[AddressOrSecret | None, BeforeValidator(_endpoint)] = Field(
        default=None,
        json_schema_extra=_or_text,
        description="Where results are stored: a URL, or the Secret that contains it.",
    )
    interruptible: bool = Field(
        default_factory=lambda data: data.get("kind") is not WorkloadKind.SERVING,
        description="Whether it may be stopped at any time. Default: true, except for serving.",
    )
    resumable: bool = Field(
        default_factory=lambda data: _resumes(data),
        description="Whether it can continue after a stop. Default: derived from the other keys.",
    )
    tier: Tier = Field(default=Tier.AUTO, description="How capacity is bought.")
    hybrid: Hybrid = Field(default=Hybrid(), description="How a hybrid workload combines tiers.")
    max_run: Duration = Field(
        default=MAX_RUN_DEFAULT,
        description="Maximum lifetime of a flex-start node, 10m to 7d.",
        json_schema_extra={"default": "7d"},
    )
    cluster: Cluster = Field(default=Cluster(), description="The GKE cluster.")
    service_account: ServiceAccount = Field(
        default=ServiceAccount(), description="The identity of the Pods."
    )
    resources: Resources = Field(
        default=Resources(),
        description="Resource requests of each Pod, in addition to accelerators.",
    )
    security: Security = Field(
        default=Security(), description="Privileges of the Pods. Default: restricted."
    )
    env: dict[VariableName, Text] = Field(
        default_factory=dict, description="Environment variables."
    )
    secrets: dict[VariableName, SecretRef] = Field(
        default_factory=dict, description="Environment variables read from a Secret: NAME/KEY."
    )
    grace: Duration | None = Field(
        default=None, description="Time from notice to kill. Default: depends on the tier."
    )
    retries: int = Field(
        default=3, ge=0, le=1000, description="Retries after failures. Evictions do not count."
    )
    priority: int = Field(
        default_factory=lambda data: 0 if data.get("nodes", 1) > 1 else -5,
        ge=-10,
        le=10**9,
        description="Pod priority. Servers have 0. Default: -5, or 0 with several nodes.",
    )
    serving: Serving = Field(default=Serving(), description="How a server is reached.")
    alerts: Alerts = Field(default=Alerts(), description="Alerts for the workload.")
    measured: Measured = Field(
        default=Measured(),
        description="Measurements from earlier runs, used instead of assumptions.",
    )

    @property
    def machine_type(self) -> str:
        """The given machine type, or the default for the accelerators."""
        if self.machine is not None:
            return self.machine
        accelerator = self.accelerator
        machine = default_machine(
            accelerator.type if accelerator else None, accelerator.count if accelerator else 0
        )
        assert machine is not None, "checked when the workload was created"
        return machine

    @property
    def has_flex_start(self) -> bool:
        """Whether flex-start offers its machine type."""
        return self.accelerator is not None or offers_flex_start(self.machine_type)

    @property
    def attached(self) -> tuple[str, int] | None:
        """Accelerators that are attached to the machine type instead of built into it."""
        accelerator = self.accelerator
        if accelerator is None or not self.machine_type.startswith(f"{ATTACHED}-"):
            return None
        return accelerator.type, accelerator.count

    @property
    def pods(self) -> int:
        """How many Pods run at the same time, each on a separate node."""
        if self.kind is WorkloadKind.TRAINING:
            return self.nodes
        return self.serving.replicas if self.kind is WorkloadKind.SERVING else self.parallelism

    @property
    def accelerators_total(self) -> int:
        """Accelerators of all Pods that run at the same time."""
        return self.pods * (self.accelerator.count if self.accelerator else 0)

    @property
    def storage_kind(self) -> StorageKind:
        """How Pods access checkpoints: as specified, else derived from the URL."""
        if self.storage.kind is not None:
            return self.storage.kind
        by_file = self.checkpoint is not None and self.checkpoint.url.startswith("file:")
        return StorageKind.CLAIM if by_file else StorageKind.OBJECT

    @property
    def work_seconds(self) -> float | None:
        """Uninterrupted work of one Pod, or of a training run on all its nodes; None if unknown.

        Items are not split: the last round takes as long as the others, even if it is not full.
        """
        work = self.work
        if work is None:
            return None
        if work.hours is not None:
            return work.hours * 3600
        if work.items is None or work.seconds_per_item is None:
            return None
        return -(-work.items // self.pods) * work.seconds_per_item

    @property
    def start_seconds(self) -> float:
        """Time to the first step without reading a checkpoint: measured, else assumed."""
        restart = self.measured.restart
        return START_SECONDS if restart is None else restart.total_seconds()


def _resumes(data: dict[str, Any]) -> bool:
    """Whether work can continue after an interruption.

    Trials, CI jobs and replicas are small: for them, starting over counts as resuming.
    """
    if data.get("kind") is WorkloadKind.TRAINING:
        return data.get("checkpoint") is not None
    if data.get("kind") is WorkloadKind.BATCH_INFERENCE:
        return data.get("queue") is not None or data.get("checkpoint") is not None
    return True
