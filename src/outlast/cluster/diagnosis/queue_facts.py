"""What a diagnosis needs to know of Kueue, ProvisioningRequests, ComputeClasses and JobSets.

Nothing here raises, as in `facts.py`.
"""

from dataclasses import dataclass

from outlast.cluster.diagnosis.facts import (
    MANAGER,
    MANAGER_LABEL,
    ConditionedFact,
    ConditionFact,
    conditions_of,
    owned,
    queue_of,
)
from outlast.cluster.diagnosis.fields import map_of, maps_of, number_of, text_of
from outlast.cluster.resources import Object


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionCheckFact:
    name: str
    state: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadFact(ConditionedFact):
    """A Workload of Kueue: its request to run a Job or JobSet."""

    is_active: bool = True
    queue: str = ""
    requeues: int = 0
    checks: tuple[AdmissionCheckFact, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ProvisioningRequestFact(ConditionedFact):
    """A request to the cluster autoscaler for nodes that arrive together."""

    class_name: str = ""
    pool: str = ""
    zone: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PriorityFact:
    """One priority of a ComputeClass, by its index or as ScaleUpAnyway."""

    identifier: str
    conditions: tuple[ConditionFact, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeClassFact(ConditionedFact):
    when_unsatisfiable: str = ""
    priorities: tuple[PriorityFact, ...] = ()
    """Empty unless the server has them switched on."""
    priority_count: int = 0
    """How many priorities its spec has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSetFact(ConditionedFact):
    is_suspended: bool = False
    queue: str = ""
    restarts: int = 0
    restarts_counted: int = 0
    restarts_max: int | None = None
    is_ours: bool = False


def workload_fact(workload: Object) -> WorkloadFact:
    spec, status = map_of(workload, "spec"), map_of(workload, "status")
    return WorkloadFact(
        **owned(workload),
        is_active=spec.get("active") is not False,
        queue=text_of(spec, "queueName"),
        requeues=number_of(map_of(status, "requeueState"), "count") or 0,
        conditions=conditions_of(status),
        checks=tuple(
            AdmissionCheckFact(
                name=text_of(one, "name"),
                state=text_of(one, "state"),
                message=text_of(one, "message"),
            )
            for one in maps_of(status, "admissionChecks")
        ),
    )


def provisioning_request_fact(request: Object) -> ProvisioningRequestFact:
    status = map_of(request, "status")
    details = map_of(status, "provisioningClassDetails")
    return ProvisioningRequestFact(
        **owned(request),
        class_name=text_of(map_of(request, "spec"), "provisioningClassName"),
        pool=text_of(details, "NodePoolName"),
        zone=text_of(details, "SelectedZone"),
        conditions=conditions_of(status),
    )


def compute_class_fact(found: Object) -> ComputeClassFact:
    spec, status = map_of(found, "spec"), map_of(found, "status")
    return ComputeClassFact(
        **owned(found),
        when_unsatisfiable=text_of(spec, "whenUnsatisfiable"),
        conditions=conditions_of(status),
        priorities=tuple(
            PriorityFact(identifier=_identifier(one), conditions=conditions_of(one))
            for one in maps_of(status, "priorityStatuses")
        ),
        priority_count=len(maps_of(spec, "priorities")),
    )


def job_set_fact(found: Object) -> JobSetFact:
    status = map_of(found, "status")
    labels = map_of(map_of(found, "metadata"), "labels")
    return JobSetFact(
        **owned(found),
        is_ours=text_of(labels, MANAGER_LABEL) == MANAGER,
        restarts_max=number_of(map_of(map_of(found, "spec"), "failurePolicy"), "maxRestarts"),
        is_suspended=map_of(found, "spec").get("suspend") is True,
        queue=queue_of(found),
        restarts=number_of(status, "restarts") or 0,
        restarts_counted=number_of(status, "restartsCountTowardsMax") or 0,
        conditions=conditions_of(status),
    )


def _identifier(priority: Object) -> str:
    return text_of(priority, "identifier") or str(priority.get("identifier", ""))[:40]
