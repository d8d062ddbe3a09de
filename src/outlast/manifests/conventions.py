"""Names and numbers that rendered and linted manifests share."""

LABEL_PREFIX = "cloud.google.com/"
SPOT_LABEL = LABEL_PREFIX + "gke-spot"
PREEMPTIBLE_LABEL = LABEL_PREFIX + "gke-preemptible"
FLEX_START_LABEL = LABEL_PREFIX + "gke-flex-start"
PROVISIONING_LABEL = LABEL_PREFIX + "gke-provisioning"
QUEUED_LABEL = LABEL_PREFIX + "gke-queued"
POOL_LABEL = LABEL_PREFIX + "gke-nodepool"
CLASS_LABEL = LABEL_PREFIX + "compute-class"
ACCELERATOR_LABEL = LABEL_PREFIX + "gke-accelerator"
MAX_RUN_LABEL = LABEL_PREFIX + "gke-max-run-duration-seconds"

FUSE_DRIVER = "gcsfuse.csi.storage.gke.io"
FUSE_ANNOTATION = "gke-gcsfuse/volumes"

KUEUE_GROUP = "kueue.x-k8s.io"
QUEUE_LABEL = f"{KUEUE_GROUP}/queue-name"
PROVISIONING_PREFIX = "provreq.kueue.x-k8s.io/"
CONSUME_ANNOTATIONS = tuple(
    f"{prefix}/consume-provisioning-request"
    for prefix in ("autoscaling.x-k8s.io", "cluster-autoscaler.kubernetes.io")
)
"""They name the ProvisioningRequest whose nodes a Pod waits for; the second one is old."""

CLASS_ANNOTATIONS = tuple(
    f"{prefix}/provisioning-class-name"
    for prefix in ("autoscaling.x-k8s.io", "cluster-autoscaler.kubernetes.io")
)
QUEUED_CLASS = "queued-provisioning.gke.io"
"""The class of GKE's queued provisioning, whose nodes have a lease like those of flex-start."""

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"

INTERRUPTED_CODE = 75
"""The exit code of an interrupted process. Not 0, which a Job would count as completion."""

GPU = "nvidia.com/gpu"
SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh"))

SYSTEM_DOMAINS = ("k8s.io", "kubernetes.io", "gke.io", "google.com", "googleapis.com")
"""Nodes have more labels in these domains than a description of their pool shows."""
