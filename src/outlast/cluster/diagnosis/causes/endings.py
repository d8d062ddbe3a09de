"""How the attempt of a Pod ended."""

from outlast.cluster.diagnosis.causes.cause import EndingCause, clock, condition_evidence, name
from outlast.cluster.diagnosis.causes.job import ended_at
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.facts import ConditionFact, ContainerFact, PodFact
from outlast.cluster.diagnosis.snapshot import Snapshot, moment

INTERRUPTED_CODE = 75
"""What Outlast exits with after it has saved; rendered Jobs do not count it."""

_SIGKILL_CODE = 137
_NOT_STARTED = ("StartError", "ContainerCannotRun")
"""Of containerd and Docker. What the runtime reports is in the message."""
_LEASE_SECONDS = 300.0
_CLOCK_SECONDS = 5.0
_MARK_ENDED_PODS = ("DeletionByTaintManager", "EvictionByEvictionAPI")
_REFUSALS = ("NodeShutdown", "NodeAffinity", "UnexpectedAdmissionError", "OutOf")
_NOT_COUNTED = "Nothing to do: the Job starts a new Pod, which resumes."


def has_ended(pod: PodFact) -> bool:
    return pod.phase in ("Failed", "Succeeded")


def disruption(pod: PodFact) -> ConditionFact | None:
    """Why the Pod was disrupted, None if it was not."""
    found = pod.condition("DisruptionTarget")
    if found is None or not found.is_true or _is_marked_late(pod, found):
        return None
    return found


def is_ignored(pod: PodFact) -> bool:
    """Whether a Job with the rendered podFailurePolicy does not count the failure of a Pod.

    What counts are the conditions at the time when the Job accounts for it. With a limit for each
    index, that is when its replacement is created.
    """
    container = exited(pod)
    if container is not None and container.exit_code == INTERRUPTED_CODE:
        return True
    return disruption(pod) is not None or (pod.is_tracked and pod.is_true("DisruptionTarget"))


def _is_marked_late(pod: PodFact, found: ConditionFact) -> bool:
    """Whether the Pod had ended before: taints and evictions mark ended Pods of a node, too."""
    if found.reason not in _MARK_ENDED_PODS:
        return False
    if _is_refusal(pod):
        return True
    finished = [one.finished_at for one in pod.containers if one.finished_at is not None]
    ready = pod.condition("Ready")
    if not finished and ready is not None and ready.reason == "PodFailed" and ready.since:
        # A container that was lost has no time of its own.
        finished = [ready.since]
    if found.since is None or not finished:
        return False
    # The kubelet and the controllers may have clocks that differ by a few seconds.
    return (found.since - max(finished)).total_seconds() > _CLOCK_SECONDS


def exited(pod: PodFact) -> ContainerFact | None:
    """The container whose exit counts: the first that failed, else the first that ended."""
    ended = [one for one in pod.containers if one.exit_code is not None]
    return next((one for one in ended if one.exit_code), ended[0] if ended else None)


def _is_disrupted_by(pod: PodFact, reason: str) -> bool:
    found = disruption(pod)
    return found is not None and found.reason == reason


def pod_evidence(pod: PodFact) -> tuple[Evidence, ...]:
    """What the Pod itself shows about its end."""
    found, container, of = disruption(pod), exited(pod), f"Pod {name(pod.name)}"
    evidence = [condition_evidence(of, found)] if found else []
    if pod.reason or pod.message:
        text = ": ".join(part for part in (pod.reason, pod.message) if part)
        evidence.append(Evidence(where=f"{of}, status.reason", text=text))
    if container is not None:
        text = f"{container.exit_code} {container.exit_reason}".rstrip()
        where = f"{of}, container {name(container.name)}, exit code"
        evidence.append(Evidence(where=where, text=text, seen=container.finished_at))
    return tuple(evidence) or (Evidence(where=f"{of}, status.phase", text=pod.phase),)


def _diagnosis(cause: str, pod: PodFact, summary: str, next_step: str = _NOT_COUNTED) -> Diagnosis:
    return Diagnosis(cause=cause, summary=summary, next_step=next_step, evidence=pod_evidence(pod))


def _is_shutdown(pod: PodFact) -> bool:
    return pod.reason == "Terminated" and _is_disrupted_by(pod, "TerminationByKubelet")


def _shutdown(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not _is_shutdown(pod):
        return None
    container = exited(pod)
    is_saved = container is not None and container.exit_code == INTERRUPTED_CODE
    saved = " after saving" if is_saved else ""
    return _diagnosis(
        "E01", pod, f"Its node was shut down, as for a Spot reclaim; it exited{saved}."
    )


def _shutdown_as_success(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if pod.phase != "Succeeded" or not _is_disrupted_by(pod, "TerminationByKubelet"):
        return None
    return _diagnosis(
        "E02",
        pod,
        "It exited with 0 while its node was shut down, so the Job counts it as finished.",
        "If the journal has no `finished`, the work is not done: exit with 75 at an interruption.",
    )


def _shutdown_killed(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    container = exited(pod)
    if not _is_shutdown(pod) or container is None or container.exit_code != _SIGKILL_CODE:
        return None
    return _diagnosis(
        "E03",
        pod,
        "Its node was shut down, and it was killed before it exited.",
        "Save faster or raise the grace period: work since the last checkpoint is lost.",
    )


def _node_deleted(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not _is_disrupted_by(pod, "DeletionByPodGC"):
        return None
    return _diagnosis("E04", pod, "Its node is gone, without notice to the program.")


def _node_replaced(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not _is_disrupted_by(pod, "DeletionByGCPControllerManager"):
        return None
    return _diagnosis(
        "E05", pod, "Its machine is gone, and came back under its old name, without notice."
    )


def _unreachable(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not _is_disrupted_by(pod, "DeletionByTaintManager"):
        return None
    node = snapshot.node(pod.node)
    ready = node.condition("Ready") if node else None
    if ready is not None and ready.is_true is None:
        where = f"its node {name(pod.node)} did not answer"
    else:
        where = f"node {name(pod.node) or '(unknown)'} got a NoExecute taint"
    return _diagnosis("E06", pod, f"It was evicted by a taint: {where}.")


def _evicted_by_api(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not _is_disrupted_by(pod, "EvictionByEvictionAPI"):
        return None
    return _diagnosis(
        "E07", pod, "It was evicted by the API: a drain, an upgrade or a scale-down of its node."
    )


def _preempted(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not _is_disrupted_by(pod, "PreemptionByScheduler"):
        return None
    return _diagnosis("E08", pod, "The scheduler preempted it for a Pod with a higher priority.")


def _pressure(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if pod.phase != "Failed" or pod.reason != "Evicted":
        return None
    if disruption(pod) is None:
        return _diagnosis(
            "E09",
            pod,
            "The kubelet evicted it for its own use of storage; the Job counts this as a failure.",
            "Raise the sizeLimit of its emptyDir or its ephemeral-storage, or write less.",
        )
    return _diagnosis(
        "E09",
        pod,
        "The kubelet evicted it because its node ran short of a resource.",
        "Request as much memory and ephemeral storage as it uses.",
    )


def _made_room(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if pod.reason != "Preempting" or not _is_disrupted_by(pod, "TerminationByKubelet"):
        return None
    return _diagnosis("E10", pod, "The kubelet removed it to make room for a critical Pod.")


def _is_refusal(pod: PodFact) -> bool:
    """Whether its kubelet did not admit it, so that no program ran."""
    is_known = pod.reason.startswith(_REFUSALS) or pod.message.startswith("Pod was rejected")
    return pod.phase == "Failed" and not pod.containers and is_known


def _refused(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not _is_refusal(pod) or disruption(pod):
        return None
    return _diagnosis(
        "E11",
        pod,
        f"The kubelet of {name(pod.node) or 'its node'} refused it ({name(pod.reason)}): "
        "no program ran, and the Job counts it as a failure.",
        "Nothing to do unless it repeats: then keep a reserve in backoffLimit.",
    )


def _evicted_by_kueue(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    owners = {pod.owner, *(job.owner for job in snapshot.jobs if job.uid == pod.owner)}
    workloads = [one for one in snapshot.workloads if one.owner in owners and one.owner]
    evictions = [
        (one, evicted)
        for one in workloads
        if (evicted := one.condition("Evicted")) is not None and evicted.is_true
    ]
    target = pod.condition("TerminationTarget")
    is_stopped = (target is not None and target.is_true) or was_suspended(snapshot, pod)
    if disruption(pod) or not is_stopped or not evictions:
        return None
    workload, evicted = evictions[0]
    return Diagnosis(
        cause="E12",
        summary=f"Kueue evicted it ({name(evicted.reason) or 'no reason given'}).",
        next_step="Wait: Kueue starts it again when there is quota.",
        evidence=(
            condition_evidence(f"Workload {name(workload.name)}", evicted),
            *pod_evidence(pod),
        ),
    )


def _suspended(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if disruption(pod) or not was_suspended(snapshot, pod):
        return None
    return _diagnosis(
        "E13", pod, "The Job was suspended, so it was stopped.", "Resume the Job to go on."
    )


def was_suspended(snapshot: Snapshot, pod: PodFact) -> bool:
    """Whether the Job was suspended before the Pod ended."""
    for job in snapshot.jobs:
        suspended = job.condition("Suspended")
        if job.uid == pod.owner and job.is_suspended and suspended and suspended.is_true:
            seconds = (moment(suspended.since) - moment(ended_at(pod))).total_seconds()
            is_before = ended_at(pod) is None or seconds <= _CLOCK_SECONDS
            return pod.phase != "Succeeded" and is_before
    return False


def _lease(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    node, ended = snapshot.node(pod.node), ended_at(pod)
    by_node = _shutdown, _shutdown_as_success, _node_deleted, _node_replaced, _evicted_by_api
    if node is None or node.expires_at is None or ended is None:
        return None
    if abs((ended - node.expires_at).total_seconds()) > _LEASE_SECONDS:
        return None
    if not any(match(snapshot, pod) for match in by_node):
        return None
    expiry = Evidence(
        where=f"Node {name(node.name)}, node.gke.io/machine-termination-datetime",
        text=node.expires_at.isoformat(),
    )
    return Diagnosis(
        cause="E14",
        summary=f"The lease of its node ended at {clock(node.expires_at, snapshot.now)}.",
        next_step=_NOT_COUNTED,
        evidence=(expiry, *pod_evidence(pod)),
    )


def _out_of_memory(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not any(one.exit_reason == "OOMKilled" for one in pod.containers):
        return None
    return _diagnosis(
        "E15",
        pod,
        "It ran out of memory and was killed; the Job counts this as a failure.",
        "Raise the memory limit, or use less memory.",
    )


def _lost(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not any(one.exit_reason == "ContainerStatusUnknown" for one in pod.containers):
        return None
    return _diagnosis(
        "E16",
        pod,
        "Its container was lost when the node restarted"
        + ("." if disruption(pod) else "; the Job counts this as a failure."),
        "Nothing to do unless it repeats: then keep a reserve in backoffLimit.",
    )


def _device_taint(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if not _is_disrupted_by(pod, "DeletionByDeviceTaintManager"):
        return None
    return _diagnosis("E17", pod, "It was evicted because one of its devices got a taint.")


def _false_alarm(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    condition = pod.condition("DisruptionTarget")
    if condition is None or condition.is_true is not False or has_ended(pod):
        return None
    return Diagnosis(
        cause="E18",
        summary="A disruption was announced and did not happen; the Pod goes on.",
        next_step="Nothing to do.",
        evidence=(condition_evidence(f"Pod {name(pod.name)}", condition),),
    )


def _failed(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    container = exited(pod)
    if pod.phase != "Failed" or disruption(pod) or container is None or not container.exit_code:
        return None
    if container.exit_reason in _NOT_STARTED:
        return _not_started(pod, container)
    if container.exit_code == INTERRUPTED_CODE or container.exit_reason not in ("Error", ""):
        return None
    code = container.exit_code
    signal = f" (killed by signal {code - 128})" if 128 < code < 160 else ""
    counts = (
        "the Job does not count it, because its node was tainted or drained before it was replaced"
        if is_ignored(pod)
        else "the Job counts it"
    )
    return _diagnosis(
        "E21",
        pod,
        f"The program failed with exit code {code}{signal}; {counts}.",
        "See the program's log.",
    )


def _not_started(pod: PodFact, container: ContainerFact) -> Diagnosis:
    where = f"Pod {name(pod.name)}, container {name(container.name)}, {container.exit_reason}"
    return Diagnosis(
        cause="E21",
        summary="The program could not be started; the Job counts it.",
        next_step="Check the command, and that the image has the program.",
        evidence=(Evidence(where=where, text=container.exit_message, seen=container.finished_at),),
    )


def _finished(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    if pod.phase != "Succeeded" or disruption(pod):
        return None
    return _diagnosis("E22", pod, "The program finished.", "Nothing to do.")


def _interrupted(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    container = exited(pod)
    if pod.phase != "Failed" or disruption(pod) or container is None:
        return None
    if container.exit_code != INTERRUPTED_CODE:
        return None
    return _diagnosis(
        "E23",
        pod,
        "It was interrupted and exited after saving; the cluster does not record by what.",
    )


_TARGET = "Pod condition DisruptionTarget"
_REASON = "Pod status.reason"
_EXIT = "Pod status.containerStatuses, state terminated"
# From the most specific to the most general.
ENDINGS = (
    EndingCause(id="E18", title="false alarm", seen_in=f"{_TARGET}=False", match=_false_alarm),
    EndingCause(
        id="E14",
        title="lease ended",
        seen_in="Node annotation node.gke.io/machine-termination-datetime",
        match=_lease,
    ),
    EndingCause(
        id="E02", title="node shutdown, exit 0", seen_in=_TARGET, match=_shutdown_as_success
    ),
    EndingCause(id="E03", title="node shutdown, killed", seen_in=_TARGET, match=_shutdown_killed),
    EndingCause(id="E01", title="node shutdown", seen_in=_TARGET, match=_shutdown),
    EndingCause(id="E04", title="node gone without notice", seen_in=_TARGET, match=_node_deleted),
    EndingCause(id="E05", title="machine replaced", seen_in=_TARGET, match=_node_replaced),
    EndingCause(id="E06", title="node unreachable or tainted", seen_in=_TARGET, match=_unreachable),
    EndingCause(id="E07", title="evicted by the API", seen_in=_TARGET, match=_evicted_by_api),
    EndingCause(id="E08", title="preempted", seen_in=_TARGET, match=_preempted),
    EndingCause(id="E17", title="device taint", seen_in=_TARGET, match=_device_taint),
    EndingCause(id="E10", title="kubelet made room", seen_in=_REASON, match=_made_room),
    EndingCause(id="E09", title="node pressure", seen_in=_REASON, match=_pressure),
    EndingCause(id="E11", title="refused by the kubelet", seen_in=_REASON, match=_refused),
    EndingCause(
        id="E12",
        title="evicted by Kueue",
        seen_in="Workload condition Evicted",
        match=_evicted_by_kueue,
    ),
    EndingCause(id="E15", title="out of memory", seen_in=_EXIT, match=_out_of_memory),
    EndingCause(
        id="E13", title="suspended by a person", seen_in="Job condition Suspended", match=_suspended
    ),
    EndingCause(id="E16", title="container lost", seen_in=_EXIT, match=_lost),
    EndingCause(id="E21", title="program failed", seen_in=_EXIT, match=_failed),
    EndingCause(id="E22", title="program finished", seen_in="Pod status.phase", match=_finished),
    EndingCause(id="E23", title="interrupted by something else", seen_in=_EXIT, match=_interrupted),
)
