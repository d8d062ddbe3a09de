"""The sections of a workload file, each with its own keys and checks."""

from datetime import timedelta
from typing import Self

from outlast.capacity.vocabulary import (
    AccessMode,
    AlertStack,
    StorageKind,
    Tier,
)
from outlast.capacity.workload.addresses import CHECKPOINT_SCHEMES, check_url
from outlast.capacity.workload.fields import (
    Duration,
    Field,
    FieldError,
    GoogleEmail,
    GoogleName,
    HttpPath,
    Interval,
    Label,
    MountPath,
    Reason,
    SecretRef,
    Size,
    WorkloadSection,
    model_validator,
)

NO_TPUS = (
    "TPUs are not supported in workload files: only CPU machines and nvidia-... accelerators can "
    "be planned and rendered. `outlast prices` shows what TPUs cost."
)


class Accelerator(WorkloadSection):
    """The accelerators of each node."""

    type: GoogleName = Field(description="GKE name, such as nvidia-l4.")
    count: int = Field(default=1, ge=1, le=16, description="Number per node.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.type.startswith("tpu"):
            raise FieldError(("type",), NO_TPUS)
        if not self.type.startswith("nvidia-"):
            raise FieldError(("type",), "Only nvidia-... accelerators are supported.")
        return self


class Work(WorkloadSection):
    """The amount of work: hours on the requested nodes, or items and the time for each."""

    hours: float | None = Field(
        default=None, gt=0, le=100_000, description="Duration in hours if never interrupted."
    )
    items: int | None = Field(
        default=None, ge=1, le=10**12, description="Number of items or trials."
    )
    seconds_per_item: float | None = Field(
        default=None, gt=0, le=10**7, description="Time for one item on one Pod."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hours is not None and self.items is not None:
            raise FieldError(("items",), "Specify either hours or items, not both.")
        if self.hours is None and self.items is None:
            raise FieldError((), "Specify either hours or items.")
        if self.seconds_per_item is not None and self.items is None:
            raise FieldError(("seconds_per_item",), "seconds_per_item requires items.")
        return self

    @property
    def compute_hours(self) -> float | None:
        """Hours for a single worker to do everything; None if the time per item is unknown."""
        if self.hours is not None:
            return self.hours
        if self.items is None or self.seconds_per_item is None:
            return None
        return self.items * self.seconds_per_item / 3600


class CheckpointSpec(WorkloadSection):
    """Where checkpoints are saved, how large they are and how often they are made."""

    url: str = Field(description="A folder in a bucket, or file:///... on a PersistentVolumeClaim.")
    size: Size | None = Field(default=None, description="Size of one checkpoint, such as 12GiB.")
    interval: Interval = Field(
        default=None,
        description="Time between saves: auto, a number of steps, or a duration such as 10m.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            check_url(self.url, CHECKPOINT_SCHEMES)
        except ValueError as error:
            raise FieldError(("url",), str(error)) from None
        return self


class Storage(WorkloadSection):
    """How Pods access the checkpoint URL."""

    kind: StorageKind | None = Field(
        default=None, description="Access method. Default: derived from the URL."
    )
    mount: MountPath | None = Field(default=None, description="Mount path of the bucket or claim.")
    claim: Label | None = Field(
        default=None, description="Name of an existing PersistentVolumeClaim."
    )
    size: Size = Field(
        default=100 * 1024**3,
        description="Size of a new PersistentVolumeClaim.",
        json_schema_extra={"default": "100GiB"},
    )
    access: AccessMode = Field(
        default=AccessMode.READ_WRITE_ONCE,
        description="Access mode of the claim. Several Pods need ReadWriteMany.",
    )
    storage_class: Label | None = Field(
        default=None,
        description="StorageClass of a new claim. Default: standard-rwo; if shared, standard-rwx.",
    )


class AddressOrSecret(WorkloadSection):
    """A URL, or the Secret that contains it if it has a password."""

    url: str | None = Field(default=None, description="A URL without a password.")
    secret: SecretRef | None = Field(
        default=None, description="NAME/KEY of a Secret that contains the URL."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.url is None) == (self.secret is None):
            raise FieldError((), "Specify either url or secret.")
        return self


class ServiceAccount(WorkloadSection):
    """The identity of the Pods."""

    name: Label | None = Field(
        default=None, description="Kubernetes service account. Default: the workload's name."
    )
    google: GoogleEmail | None = Field(
        default=None, description="Google service account to impersonate, if any."
    )


class Resources(WorkloadSection):
    """Resource requests of each Pod, in addition to accelerators."""

    cpu: float | None = Field(default=None, gt=0, le=1000, description="CPU cores.")
    memory: Size | None = Field(default=None, description="Memory request and limit.")
    shared_memory: Size | None = Field(default=None, description="Size of /dev/shm.")


HOME = "/home/outlast"
"""The home directory of a Pod that does not run as root."""

TEMPORARY = "/tmp"
USER_DEFAULT = 10_001
"""Not root, numeric so that the kubelet can check it, and not a user of the node."""


class Security(WorkloadSection):
    """Privileges of the Pod. Default: the restricted Pod Security Standard."""

    user: int | None = Field(
        default=None,
        ge=1,
        le=2**31 - 1,
        description="Numeric user and group ID of the process.",
        json_schema_extra={"default": USER_DEFAULT},
    )
    writable: tuple[MountPath, ...] = Field(
        default=(),
        max_length=20,
        description="Writable directories besides /tmp and $HOME. Deleted with the Pod.",
    )
    writable_root: Reason | None = Field(
        default=None, description="Makes the image's own files writable. The value is the reason."
    )
    run_as_root: Reason | None = Field(
        default=None,
        description="Runs as root, without the restricted standard. The value is the reason.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.run_as_root is not None:
            for key in ("user", "writable", "writable_root"):
                if getattr(self, key) not in (None, ()):
                    raise FieldError((key,), "This has no effect together with run_as_root.")
        for index, path in enumerate(self.writable):
            if path in (TEMPORARY, HOME):
                raise FieldError(("writable", index), f"{path} is already writable.")
            if path in self.writable[:index]:
                raise FieldError(("writable", index), f"{path} is listed twice.")
        return self


class Hybrid(WorkloadSection):
    """How a hybrid workload combines tiers."""

    order: tuple[Tier, ...] = Field(
        default=(Tier.SPOT, Tier.FLEX_START, Tier.ON_DEMAND),
        description="The order in which tiers are tried.",
    )
    recycle_lead: Duration = Field(
        default=timedelta(hours=1),
        description="How long before its expiry a flex-start node is replaced.",
        json_schema_extra={"default": "1h"},
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for index, tier in enumerate(self.order):
            if tier in (Tier.AUTO, Tier.HYBRID) or tier in self.order[:index]:
                raise FieldError(
                    ("order", index), "Expected spot, flex-start and on-demand, each at most once."
                )
        if not self.order:
            raise FieldError(("order",), "Expected at least one tier.")
        return self


class Serving(WorkloadSection):
    """How a server is reached."""

    port: int = Field(default=8080, ge=1, le=65_535, description="Port the server listens on.")
    health: HttpPath = Field(
        default="/healthz", description="Path that returns 200 when the server is ready."
    )
    replicas: int = Field(default=2, ge=1, le=10_000, description="Number of replicas.")


class Alerts(WorkloadSection):
    """Alerts, and the objects that define them."""

    stack: AlertStack = Field(
        default=AlertStack.GMP, description="Google Managed Prometheus, or the Prometheus operator."
    )
    pending: Duration | None = Field(
        default=None,
        description="Alert when a Pod is Pending for longer than this. Default: by tier.",
    )
    metrics_port: int = Field(
        default=9464, ge=1024, le=65_535, description="Port on which the process exports metrics."
    )
    collectors: tuple[Label, ...] = Field(
        default=(),
        description="Namespaces that may read the metrics. Default: those of the alert stack.",
    )


class Measured(WorkloadSection):
    """Measurements from earlier runs, used instead of assumptions."""

    save: Duration | None = Field(
        default=None, description="Time from the start of a save until it is durable."
    )
    stall: Duration | None = Field(
        default=None, description="How long a save blocks the training loop."
    )
    restart: Duration | None = Field(
        default=None, description="Time from a new node to the first step."
    )
    between_interruptions: Duration | None = Field(
        default=None, description="Mean time between interruptions of one node."
    )
    unannounced: float | None = Field(
        default=None, ge=0, le=1, description="Share of interruptions without notice, 0 to 1."
    )
    age_shape: float | None = Field(
        default=None,
        gt=1,
        le=1000,
        description="How similar nodes are in how long they last: 2 if an old node is much safer "
        "than a new one, 100 if age hardly matters.",
    )
    grace: Duration | None = Field(default=None, description="Grace period that Pods actually got.")
    waiting: Duration | None = Field(default=None, description="Mean wait for a new node.")
