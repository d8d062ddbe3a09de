"""Pods that have a node, and whose containers or volumes do not start."""

from collections.abc import Iterator

from outlast.cluster.diagnosis.causes.cause import (
    Cause,
    Match,
    Text,
    event_evidence,
    first_read,
    name,
)
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.facts import EventFact
from outlast.cluster.diagnosis.snapshot import Snapshot, moment

_STARTING = ("ContainerCreating", "PodInitializing", "")
_IMAGE_REASONS = {
    "ErrImagePull": "cannot be pulled",
    "ImagePullBackOff": "cannot be pulled",
    "InvalidImageName": "has an invalid name",
    "ErrImageNeverPull": "is not on the node, and imagePullPolicy is Never",
}
_MOUNT_EVENTS = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady")


def waiting_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Containers that wait for something else than the usual start."""
    return tuple(evidence for _, evidence in _waiting(snapshot))


def _waiting(snapshot: Snapshot) -> Iterator[tuple[str, Evidence]]:
    for pod in snapshot.pending:
        for one in (*pod.init_containers, *pod.containers):
            if one.waiting_reason not in _STARTING:
                where = f"Pod {name(pod.name)}, container {name(one.name)} waiting"
                parts = (one.waiting_reason, one.waiting_message)
                yield one.waiting_reason, Evidence(where=where, text=": ".join(filter(None, parts)))


def _image(snapshot: Snapshot) -> Diagnosis | None:
    for reason, evidence in _waiting(snapshot):
        if reason in _IMAGE_REASONS:
            return Diagnosis(
                cause="P35",
                summary=f"The container image {_IMAGE_REASONS[reason]}.",
                next_step="Check the image's name and tag, and the node's access to the registry.",
                evidence=(evidence,),
            )
    return None


_CONFIG_TEXTS = (
    Text(
        cause="P36",
        pattern=r'(secret|configmap) "([^"]+)" not found',
        summary="The {0} {1} does not exist.",
        next_step="Create the {0} {1} in the Pod's namespace, or correct its name.",
    ),
    Text(
        cause="P36",
        pattern=r"couldn't find key (\S+) in (Secret|ConfigMap) (\S+)",
        summary="The {1} {2} has no key {0}.",
        next_step="Add the key {0}, or correct its name in the Pod.",
    ),
)


def _config(snapshot: Snapshot) -> Diagnosis | None:
    for reason, evidence in _waiting(snapshot):
        found = first_read(_CONFIG_TEXTS, evidence)
        if reason == "CreateContainerConfigError" and found is not None:
            return found
    return None


def mount_failure(snapshot: Snapshot) -> EventFact | None:
    """The newest problem of a Pod on its node, not from before it was bound."""
    found = []
    for pod in snapshot.bound:
        event, scheduled = (
            snapshot.current_warning(pod.uid, *_MOUNT_EVENTS),
            pod.condition("PodScheduled"),
        )
        bound = scheduled.since if scheduled and scheduled.is_true else None
        if event is not None and moment(event.last_seen) >= moment(bound):
            found.append(event)
    return max(found, key=lambda event: moment(event.last_seen), default=None)


def _mount(*texts: Text) -> Match:
    def match(snapshot: Snapshot) -> Diagnosis | None:
        event = mount_failure(snapshot)
        if event is None or event.reason != "FailedMount":
            return None
        return first_read(texts, event_evidence(event))

    return match


_DRIVER_OFF = Text(
    cause="P37",
    pattern=(
        r"driver name gcsfuse\.csi\.storage\.gke\.io not found in the list of registered CSI "
        r"drivers"
    ),
    summary="The Cloud Storage FUSE driver is not running on the node.",
    next_step="Enable the cluster's add-on GcsFuseCsiDriver. On a new node, wait a minute first.",
)
_IDENTITY_OFF = Text(
    cause="P38",
    pattern=r"Workload Identity Federation is not enabled on node",
    summary="Workload Identity is off on the node, so the bucket cannot be mounted.",
    next_step=(
        "Set the node pool's metadata: gcloud container node-pools update POOL "
        "--workload-metadata=GKE_METADATA"
    ),
)
_NO_RIGHT = (
    Text(
        cause="P39",
        pattern=r"code = (Unauthenticated|PermissionDenied) desc",
        summary="The Pod's service account may not read the bucket ({0}).",
        next_step="Grant it access: the rendered setup/access.sh has the commands.",
    ),
    Text(
        cause="P39",
        pattern=r"code = NotFound .*?bucket doesn't exist",
        summary="The bucket does not exist.",
        next_step="Create the bucket, or correct its name.",
    ),
)
_NO_SIDECAR = Text(
    cause="P40",
    pattern=r"failed to find the sidecar container in Pod spec",
    summary="The Pod has no Cloud Storage FUSE sidecar.",
    next_step='Add the annotation gke-gcsfuse/volumes: "true" to the Pod.',
)


def _network(snapshot: Snapshot) -> Diagnosis | None:
    event = mount_failure(snapshot)
    if event is None or event.reason not in ("FailedCreatePodSandBox", "NetworkNotReady"):
        return None
    return Diagnosis(
        cause="P41",
        summary="The node cannot set up the Pod's network.",
        next_step="If it lasts, check the Pods' IP range and the node's network plugin.",
        evidence=(event_evidence(event),),
    )


def _cause(id: str, title: str, seen_in: str, match: Match) -> Cause:
    return Cause(id=id, title=title, seen_in=seen_in, match=match)


_STATE = "Pod status.containerStatuses, state waiting"
CONTAINERS = (
    _cause("P35", "the image", _STATE, _image),
    _cause("P36", "a Secret or ConfigMap", _STATE, _config),
)
MOUNTS = (
    _cause("P37", "FUSE driver off", "Pod event FailedMount", _mount(_DRIVER_OFF)),
    _cause("P38", "Workload Identity off", "Pod event FailedMount", _mount(_IDENTITY_OFF)),
    _cause("P39", "no access to the mounted bucket", "Pod event FailedMount", _mount(*_NO_RIGHT)),
    _cause("P40", "FUSE annotation missing", "Pod event FailedMount", _mount(_NO_SIDECAR)),
    _cause(
        "P41", "the node's network", "Pod events FailedCreatePodSandBox, NetworkNotReady", _network
    ),
)
