"""The keys of a workload file, their defaults, and what follows from them alone."""

from datetime import timedelta
from typing import Annotated, Any

from outlast.capacity.cluster import Cluster
from outlast.capacity.fields import (
    BeforeValidator,
    Duration,
    Field,
    GoogleName,
    ImageName,
    Label,
    Moment,
    Part,
    SecretRef,
    Text,
    VariableName,
)
from outlast.capacity.machines import default_machine
from outlast.capacity.parts import (
    Accelerator,
    Alerts,
    Checkpoint,
    Endpoint,
    Hybrid,
    Measured,
    Resources,
    ServiceAccount,
    Serving,
    Storage,
    Work,
)
from outlast.capacity.vocabulary import Kind, StorageKind, Tier

MAX_RUN_DEFAULT = timedelta(days=7)


def _listed(given: object) -> object:
    """Refuses a command as one text: where its words end is for the user to say."""
    if isinstance(given, str):
        words = ", ".join(given.split()[:12])
        raise ValueError(f"A command is a list of words, such as [{words}].")
    return given


def _endpoint(given: object) -> object:
    return {"url": given} if isinstance(given, str) else given


def _or_text(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"type": "string", "description": "An address."}, *schema["anyOf"]]


class WorkloadSpec(Part):
    """The keys of a workload file. Use `Workload`, which checks them against each other too."""

    name: Label = Field(description="Pods and Services are named after it.")
    namespace: Label = Field(
        default_factory=lambda data: data.get("name", ""), description="Default: the name."
    )
    kind: Kind = Field(description="What it does.")
    image: ImageName = Field(description="The container image, by tag or better by digest.")
    command: Annotated[tuple[Text, ...], BeforeValidator(_listed)] = Field(
        default=(), description="Its words. Kubernetes fills in $(NAME). Default: the image's own."
    )
    accelerator: Accelerator | None = Field(default=None, description="None for CPUs alone.")
    machine: GoogleName | None = Field(
        default=None, description="Machine type. Default: one that brings the accelerators."
    )
    nodes: int = Field(default=1, ge=1, le=1000, description="That one training run spans.")
    parallelism: int = Field(
        default=1, ge=1, le=10_000, description="Pods at the same time, each on its own."
    )
    endless: bool = Field(
        default=False, description="Batch inference that waits for more when its queue is empty."
    )
    work: Work | None = Field(default=None, description="How much there is to do.")
    deadline: Moment | None = Field(
        default=None, description="A duration from the start such as 72h, or a time with its zone."
    )
    checkpoint: Checkpoint | None = Field(default=None, description="What is saved, and where to.")
    storage: Storage = Field(default=Storage(), description="How the checkpoint is reached.")
    queue: Annotated[Endpoint | None, BeforeValidator(_endpoint)] = Field(
        default=None,
        json_schema_extra=_or_text,
        description="What batch inference pulls from: an address, or the Secret that holds it.",
    )
    sink: Annotated[Endpoint | None, BeforeValidator(_endpoint)] = Field(
        default=None, json_schema_extra=_or_text, description="Where its results go, likewise."
    )
    interruptible: bool = Field(
        default_factory=lambda data: data.get("kind") is not Kind.SERVING,
        description="Whether it may be stopped at any time. Default: all but servers.",
    )
    resumable: bool = Field(
        default_factory=lambda data: _resumes(data),
        description="Whether it goes on where it was stopped. Default: from the other keys.",
    )
    tier: Tier = Field(default=Tier.AUTO, description="How its capacity is bought.")
    hybrid: Hybrid = Field(default=Hybrid(), description="How tiers are mixed.")
    max_run: Duration = Field(
        default=MAX_RUN_DEFAULT,
        description="How long a flex-start node lives, 10m to 7d.",
        json_schema_extra={"default": "7d"},
    )
    cluster: Cluster = Field(default=Cluster(), description="Where it runs.")
    service_account: ServiceAccount = Field(
        default=ServiceAccount(), description="Whom its Pods act as."
    )
    resources: Resources = Field(
        default=Resources(), description="What a Pod asks for beside accelerators."
    )
    env: dict[VariableName, Text] = Field(
        default_factory=dict, description="Variables for the process."
    )
    secrets: dict[VariableName, SecretRef] = Field(
        default_factory=dict, description="Variables filled from a Secret: NAME/KEY."
    )
    grace: Duration | None = Field(
        default=None, description="From the notice to the kill. Default: what the tier gives."
    )
    retries: int = Field(default=3, ge=0, le=1000, description="Real failures, not evictions.")
    priority: int = Field(
        default=-5, ge=-10, le=10**9, description="Against other Pods; servers have 0."
    )
    serving: Serving = Field(default=Serving(), description="How requests reach a server.")
    alerts: Alerts = Field(default=Alerts(), description="When to call somebody.")
    measured: Measured = Field(
        default=Measured(), description="What earlier runs have shown, in place of assumptions."
    )

    @property
    def machine_type(self) -> str:
        """The machine named, or the default for the accelerators."""
        if self.machine is not None:
            return self.machine
        accelerator = self.accelerator
        machine = default_machine(
            accelerator.type if accelerator else None, accelerator.count if accelerator else 0
        )
        assert machine is not None, "checked when the workload was made"
        return machine

    @property
    def pods(self) -> int:
        """How many Pods run at the same time, each on a node of its own."""
        if self.kind is Kind.TRAINING:
            return self.nodes
        return self.serving.replicas if self.kind is Kind.SERVING else self.parallelism

    @property
    def accelerators_total(self) -> int:
        """Over all Pods that run at the same time."""
        return self.pods * (self.accelerator.count if self.accelerator else 0)

    @property
    def storage_kind(self) -> StorageKind:
        """How checkpoints are reached: as the file says, else by their address."""
        if self.storage.kind is not None:
            return self.storage.kind
        by_file = self.checkpoint is not None and self.checkpoint.url.startswith("file:")
        return StorageKind.CLAIM if by_file else StorageKind.OBJECT


def _resumes(data: dict[str, Any]) -> bool:
    """Whether an interruption leaves something to go on from.

    Trials, CI jobs and replicas are small: starting one anew is their way to resume.
    """
    if data.get("kind") is Kind.TRAINING:
        return data.get("checkpoint") is not None
    if data.get("kind") is Kind.BATCH_INFERENCE:
        return data.get("queue") is not None or data.get("checkpoint") is not None
    return True
