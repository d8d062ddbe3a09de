"""The parts of a workload file below its top: each with its own keys and its own checks."""

from datetime import timedelta
from typing import Self

from outlast.capacity.addresses import CHECKPOINT_SCHEMES, check_url
from outlast.capacity.fields import (
    Duration,
    Field,
    FieldError,
    GoogleEmail,
    GoogleName,
    HttpPath,
    Interval,
    Label,
    MountPath,
    Part,
    SecretRef,
    Size,
    model_validator,
)
from outlast.capacity.vocabulary import AccessMode, AlertStack, StorageKind, Tier


class Accelerator(Part):
    """What each node brings."""

    type: GoogleName = Field(description="As GKE calls it, such as nvidia-l4.")
    count: int = Field(default=1, ge=1, le=16, description="Per node.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.type.startswith("nvidia-"):
            raise FieldError(
                ("type",), "Only nvidia-... accelerators are known so far; TPU slices are not."
            )
        return self


class Work(Part):
    """How much there is to do: hours on the nodes asked for, or items and the time for one."""

    hours: float | None = Field(default=None, gt=0, le=100_000, description="Without any stop.")
    items: int | None = Field(default=None, ge=1, le=10**12, description="Items, or trials.")
    seconds_per_item: float | None = Field(default=None, gt=0, le=10**7, description="On one Pod.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hours is not None and self.items is not None:
            raise FieldError(("items",), "Work is given in hours or in items, not in both.")
        if self.hours is None and self.items is None:
            raise FieldError((), "Work is given in hours or in items.")
        if self.seconds_per_item is not None and self.items is None:
            raise FieldError(("seconds_per_item",), "It needs items beside it.")
        return self

    @property
    def compute_hours(self) -> float | None:
        """Hours of one worker that does everything; None if the time for an item is not known."""
        if self.hours is not None:
            return self.hours
        if self.items is None or self.seconds_per_item is None:
            return None
        return self.items * self.seconds_per_item / 3600


class Checkpoint(Part):
    """What is saved, where to and how often."""

    url: str = Field(description="A folder of a bucket, or file:///... on a claim.")
    size: Size | None = Field(default=None, description="Of one checkpoint, such as 12GiB.")
    interval: Interval = Field(
        default=None, description="auto, a number of steps, or a duration such as 10m."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            check_url(self.url, CHECKPOINT_SCHEMES)
        except ValueError as error:
            raise FieldError(("url",), str(error)) from None
        return self


class Storage(Part):
    """How the checkpoint's address is reached."""

    kind: StorageKind | None = Field(default=None, description="Default: from the address.")
    mount: MountPath | None = Field(default=None, description="Where a bucket or claim is mounted.")
    claim: Label | None = Field(default=None, description="A claim that exists already.")
    size: Size = Field(
        default=100 * 1024**3,
        description="Of a new claim.",
        json_schema_extra={"default": "100GiB"},
    )
    access: AccessMode = Field(
        default=AccessMode.READ_WRITE_ONCE, description="ReadWriteMany for several Pods."
    )
    storage_class: Label | None = Field(
        default=None, description="Default: standard-rwo, or standard-rwx for many."
    )


class Endpoint(Part):
    """An address, or the Secret that holds it where it has a password."""

    url: str | None = Field(default=None, description="An address without a password.")
    secret: SecretRef | None = Field(default=None, description="NAME/KEY of the Secret.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.url is None) == (self.secret is None):
            raise FieldError((), "Give url or secret, one of them.")
        return self


class ServiceAccount(Part):
    """Whom the Pods act as."""

    name: Label | None = Field(default=None, description="Default: the workload's name.")
    google: GoogleEmail | None = Field(
        default=None, description="A Google service account to act as, where one is used."
    )


class Resources(Part):
    """What each Pod asks for beside its accelerators."""

    cpu: float | None = Field(default=None, gt=0, le=1000, description="Cores.")
    memory: Size | None = Field(default=None, description="Requested, and the limit too.")
    shared_memory: Size | None = Field(default=None, description="Of /dev/shm.")


class Hybrid(Part):
    """The order in which tiers are tried."""

    order: tuple[Tier, ...] = Field(
        default=(Tier.SPOT, Tier.FLEX_START, Tier.ON_DEMAND), description="Tried from the first."
    )
    recycle_lead: Duration = Field(
        default=timedelta(hours=1),
        description="How long before its end a lease is renewed.",
        json_schema_extra={"default": "1h"},
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for index, tier in enumerate(self.order):
            if tier in (Tier.AUTO, Tier.HYBRID) or tier in self.order[:index]:
                raise FieldError(
                    ("order", index), "The order names spot, flex-start and on-demand once each."
                )
        if not self.order:
            raise FieldError(("order",), "The order names at least one tier.")
        return self


class Serving(Part):
    """How requests reach a server."""

    port: int = Field(default=8080, ge=1, le=65_535, description="Where it listens.")
    health: HttpPath = Field(default="/healthz", description="Answers 200 when ready.")
    replicas: int = Field(default=2, ge=1, le=10_000, description="How many serve.")


class Alerts(Part):
    """When to call somebody, and by which objects."""

    stack: AlertStack = Field(
        default=AlertStack.GMP, description="Google's managed Prometheus, or the operator."
    )
    pending: Duration | None = Field(
        default=None, description="How long a Pod may wait for its node. Default: by tier."
    )
    metrics_port: int = Field(
        default=9464, ge=1024, le=65_535, description="Where the process exports its metrics."
    )


class Measured(Part):
    """What earlier runs have shown, in place of assumptions."""

    save: Duration | None = Field(default=None, description="From staging until durable.")
    stall: Duration | None = Field(default=None, description="How long a save holds the loop.")
    restart: Duration | None = Field(default=None, description="From the node to the first step.")
    between_interruptions: Duration | None = Field(default=None, description="Mean, per node.")
    unannounced: float | None = Field(default=None, ge=0, le=1, description="A share.")
    grace: Duration | None = Field(default=None, description="Really given.")
    waiting: Duration | None = Field(default=None, description="For a node.")
