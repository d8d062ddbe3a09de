"""The state of a submitted Job, JobSet or Deployment, read from its status. Pure."""

from dataclasses import dataclass
from typing import Any

from outlast.cluster.resources import Object

_ENDINGS = {"Complete": True, "Completed": True, "Failed": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEnding:
    """How a Job or JobSet ended. `reason` is Kubernetes' own word."""

    is_success: bool
    reason: str
    message: str = ""


def ending_of(item: Object) -> JobEnding | None:
    """How it ended, None if it has not, or never ends by itself."""
    if item.get("kind") not in ("Job", "JobSet"):
        return None
    for condition in _mapping(item.get("status")).get("conditions") or ():
        kind = condition.get("type")
        if kind in _ENDINGS and condition.get("status") == "True":
            return JobEnding(
                is_success=_ENDINGS[kind],
                reason=str(condition.get("reason") or kind),
                message=str(condition.get("message") or ""),
            )
    return None


def is_started(item: Object) -> bool:
    """Whether a Pod of it runs, or has run."""
    status = _mapping(item.get("status"))
    if item.get("kind") == "JobSet":
        jobs = status.get("replicatedJobsStatus") or ()
        return any(job.get(key) for job in jobs for key in ("ready", "succeeded", "failed"))
    keys = ("ready", "succeeded", "failed", "readyReplicas", "availableReplicas")
    return any(status.get(key) for key in keys) or ending_of(item) is not None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
