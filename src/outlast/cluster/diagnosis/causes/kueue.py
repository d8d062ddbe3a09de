"""Suspended Jobs: Kueue has not admitted them, or nothing will resume them."""

from collections.abc import Callable, Iterator

from outlast.cluster.diagnosis.causes.cause import (
    Cause,
    Match,
    Text,
    condition_evidence,
    first_read,
    name,
)
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.facts import ConditionFact
from outlast.cluster.diagnosis.queue_facts import WorkloadFact
from outlast.cluster.diagnosis.snapshot import Snapshot

_BY_KUEUE = "DeactivatedDueTo"
_REQUEUED_TOO_OFTEN = ("RequeuingLimitExceeded", f"{_BY_KUEUE}RequeuingLimitExceeded")


def _workloads(snapshot: Snapshot) -> Iterator[WorkloadFact]:
    for one in snapshot.suspended:
        workload = snapshot.workload_of(one.uid)
        if workload is not None:
            yield workload


def workload_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """What Kueue reports about the suspended Jobs, for when it is not recognized."""
    reported = tuple(
        _evidence(workload, condition)
        for workload in _workloads(snapshot)
        for condition in workload.conditions
    )
    return reported or tuple(
        Evidence(where=f"{name(one.name)}, spec.suspend", text="true") for one in snapshot.suspended
    )


def _evidence(workload: WorkloadFact, condition: ConditionFact) -> Evidence:
    return condition_evidence(f"Workload {name(workload.name)}", condition)


def _unmanaged(snapshot: Snapshot) -> Diagnosis | None:
    for one in snapshot.suspended:
        if snapshot.workload_of(one.uid) is not None or "workloads" in snapshot.unread:
            continue
        if snapshot.has_kueue is False:
            why = "nothing is going to resume it: Kueue is not installed"
            next_step = "Install Kueue, or set `suspend: false`."
        elif not one.queue:
            why = "nothing is going to resume it: it has no queue label for Kueue"
            next_step = "Add the label kueue.x-k8s.io/queue-name, or set `suspend: false`."
        else:
            why = "Kueue has made no Workload for it yet"
            next_step = "Check that Kueue runs and manages this kind and namespace."
        return Diagnosis(
            cause="P23",
            summary=f"{name(one.name)} is suspended, and {why}.",
            next_step=next_step,
            evidence=(Evidence(where=f"{name(one.name)}, spec.suspend", text="true"),),
        )
    return None


def _reserved(reasons: tuple[str, ...], *texts: Text) -> Match:
    """A cause by the reason of Kueue 0.19 and later, or by the text of earlier releases."""

    def match(snapshot: Snapshot) -> Diagnosis | None:
        for workload in _workloads(snapshot):
            quota = workload.condition("QuotaReserved")
            if quota is None or quota.is_true is not False:
                continue
            evidence = _evidence(workload, quota)
            found = first_read(texts[:-1], evidence)
            if found is None and quota.reason in reasons:
                found = texts[-1].read(evidence)
            if found is not None:
                return found
        return None

    return match


def _any(cause: str, summary: str, next_step: str) -> Text:
    """What is reported if the reason is known and the text is not."""
    return Text(cause=cause, pattern="", summary=summary, next_step=next_step)


_POSITION = "Wait, or see the queue: kubectl kueue list workload"
_NEVER = "It never starts like this: request less, or raise the quota of the ClusterQueue."
_FLAVOR = "It never starts like this: correct the Pod's selectors or tolerations, or the flavor."
_NO_QUOTA = _reserved(
    ("WaitingForQuota",),
    Text(
        cause="P24",
        pattern=(r"insufficient unused quota for (\S+) in flavor ([^\s,]+), ([^\s,]+) more needed"),
        summary="Kueue has no free quota: {2} more {0} needed in flavor {1}.",
        next_step=_POSITION,
    ),
    _any("P24", "Kueue has no free quota for it now.", _POSITION),
)
_TOO_MUCH = _reserved(
    ("ExceedsMaxQuota", "NoMatchingFlavor"),
    Text(
        cause="P25",
        pattern=r"(?:insufficient quota for (\S+) in flavor ([^\s,]+).*)?> maximum capacity",
        summary="It requests more than the queue can ever have.",
        next_step=_NEVER,
    ),
    Text(
        cause="P25",
        pattern=r"untolerated taint .*?in flavor ([^\s,]+)",
        summary="It does not tolerate a taint of flavor {0}.",
        next_step=_FLAVOR,
    ),
    Text(
        cause="P25",
        pattern=r"flavor (\S+) doesn't match node affinity",
        summary="Its node selector or affinity does not match flavor {0}.",
        next_step=_FLAVOR,
    ),
    Text(
        cause="P25",
        pattern=r"doesn't match node affinity",
        summary="Its node selector or affinity matches none of the flavors.",
        next_step=_FLAVOR,
    ),
    _any("P25", "The queue can never provide what it requests.", _NEVER),
)
_NO_QUEUE = _reserved(
    ("Misconfigured", "Suspended"),
    Text(
        cause="P26",
        pattern=r"((?:Local|Cluster)Queue) (\S+) doesn't exist",
        summary="The {0} {1} does not exist.",
        next_step="Create the {0}, or correct the queue label of the Job.",
    ),
    Text(
        cause="P26",
        pattern=r"((?:Local|Cluster)Queue) (\S+) is (inactive|stopped)",
        summary="The {0} {1} is {2}.",
        next_step="See its conditions and stopPolicy: kubectl describe {0} {1}",
    ),
    _any("P26", "The queue is missing or stopped.", "See the conditions of the queue."),
)


def _check(snapshot: Snapshot) -> Diagnosis | None:
    for workload in _workloads(snapshot):
        if not workload.is_true("QuotaReserved"):
            continue
        for check in workload.checks:
            if check.state not in ("Pending", "Retry", "Rejected"):
                continue
            state = {"Pending": "has not passed yet", "Retry": "is retried"}.get(
                check.state, "rejected it"
            )
            return Diagnosis(
                cause="P27",
                summary=f"Quota is reserved, but the admission check {name(check.name)} {state}.",
                next_step="See the object of the check, such as its ProvisioningRequest.",
                evidence=(
                    Evidence(
                        where=f"Workload {name(workload.name)}, admission check {check.state}",
                        text=check.message,
                    ),
                ),
            )
    return None


def _deactivated(snapshot: Snapshot) -> Diagnosis | None:
    for workload in _workloads(snapshot):
        evicted = workload.condition("Evicted")
        if workload.is_active:
            continue
        reason = evicted.reason if evicted is not None and evicted.is_true else ""
        why = ": it was requeued too often" if reason in _REQUEUED_TOO_OFTEN else ""
        # Kueue gives no other reason if a person, or `outlast stop`, has switched it off.
        is_by_kueue = why or reason.startswith(_BY_KUEUE)
        own = Evidence(where=f"Workload {name(workload.name)}, spec.active", text="false")
        more = (_evidence(workload, evicted),) if evicted else ()
        return Diagnosis(
            cause="P28",
            summary=f"Kueue's Workload {name(workload.name)} is deactivated{why}.",
            next_step=(
                "Fix the reason, then run `outlast resume`."
                if is_by_kueue
                else "Run `outlast resume` to continue."
            ),
            evidence=(own, *more),
        )
    return None


def _late(snapshot: Snapshot) -> Diagnosis | None:
    for workload in _workloads(snapshot):
        evicted = workload.condition("Evicted")
        if evicted is None or not evicted.is_true or evicted.reason != "PodsReadyTimeout":
            continue
        return Diagnosis(
            cause="P29",
            summary=(
                "Kueue has evicted it because its Pods were not ready in time "
                f"(requeued {workload.requeues} times)."
            ),
            next_step=(
                "Raise the timeout of waitForPodsReady: it must cover a new node and the image."
            ),
            evidence=(_evidence(workload, evicted),),
        )
    return None


_SEEN = "Workload condition QuotaReserved=False"


def _cause(
    id: str, title: str, seen_in: str, match: Callable[[Snapshot], Diagnosis | None]
) -> Cause:
    return Cause(id=id, title=title, seen_in=seen_in, match=match)


DEACTIVATED = (_cause("P28", "Workload deactivated", "Workload spec.active", _deactivated),)
KUEUE = (
    _cause("P27", "admission check", "Workload status.admissionChecks", _check),
    _cause("P29", "Pods ready too late", "Workload condition Evicted", _late),
    _cause("P26", "queue missing or stopped", _SEEN, _NO_QUEUE),
    _cause("P25", "more than the queue has", _SEEN, _TOO_MUCH),
    _cause("P24", "no free quota", _SEEN, _NO_QUOTA),
    _cause("P23", "suspended without a queue", "Job spec.suspend, and no Workload", _unmanaged),
)
