"""The rules by which a Kubernetes Job starts, replaces and gives up on its Pods. Pure.

Exit code 0 is success, no matter why the process exited; after one success a Job creates no more
Pods. A disrupted Pod does not count as a failure. Any other failed Pod does, and more failures than
the backoff limit end the Job.
"""

from dataclasses import dataclass
from enum import StrEnum

BACKOFF_LIMIT = 6
"""The default of a Job."""

BACKOFF_FIRST_SECONDS = 10.0
BACKOFF_SECONDS_MAX = 600.0


class PodEnd(StrEnum):
    """How a Pod ended, as seen by the Job controller."""

    SUCCEEDED = "succeeded"
    DISRUPTED = "disrupted"
    """It failed with the condition DisruptionTarget."""
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRules:
    """`backoff` doubles the wait before each restart, as a Job does."""

    replacement_seconds: float = 0.1
    backoff: bool = False
    backoff_limit: int = BACKOFF_LIMIT


class JobController:
    """The state of a Job during one run."""

    def __init__(self, rules: JobRules) -> None:
        self._rules = rules
        self._failed_pods = 0
        self.failures = 0
        self.succeeded = False

    @property
    def failed(self) -> bool:
        return self.failures > self._rules.backoff_limit and not self.succeeded

    def pod_ended(self, end: PodEnd) -> float | None:
        """Seconds until a replacement is created; None if there is none."""
        if end is PodEnd.SUCCEEDED:
            self.succeeded = True
            return None
        # Failures that a podFailurePolicy ignores lengthen the wait too.
        self._failed_pods += 1
        if end is PodEnd.FAILED:
            self.failures += 1
        if self.succeeded or self.failed:
            return None
        return self.replacement_seconds()

    def replacement_seconds(self) -> float:
        """How long a replacement would wait now."""
        if not self._rules.backoff or not self._failed_pods:
            return self._rules.replacement_seconds
        # The exponent is bounded, because a job can be evicted thousands of times.
        doubled = BACKOFF_FIRST_SECONDS * 2.0 ** min(self._failed_pods - 1, 30)
        return max(self._rules.replacement_seconds, min(doubled, BACKOFF_SECONDS_MAX))
