"""The rules by which a Kubernetes Job starts, replaces and gives up on its Pods. Pure.

Exit 0 is success, whatever it was that made the process leave; after one success a Job creates no
further Pod. A Pod that was disrupted does not count as a failure, any other that fails does, and
more failures than the limit end the Job.
"""

from dataclasses import dataclass
from enum import StrEnum

BACKOFF_LIMIT = 6
"""What a Job has if its manifest says nothing."""

BACKOFF_FIRST_SECONDS = 10.0
BACKOFF_SECONDS_MAX = 600.0


class PodEnd(StrEnum):
    """How the Job controller sees the end of a Pod."""

    SUCCEEDED = "succeeded"
    DISRUPTED = "disrupted"
    """It failed, and carries the condition DisruptionTarget."""
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRules:
    """`backoff` makes the wait before each restart grow as a Job's does."""

    replacement_seconds: float = 0.1
    backoff: bool = False
    backoff_limit: int = BACKOFF_LIMIT


class Job:
    """A Job over the time of one leg."""

    def __init__(self, rules: JobRules) -> None:
        self._rules = rules
        self._failed_pods = 0
        self.failures = 0
        self.succeeded = False

    @property
    def failed(self) -> bool:
        return self.failures > self._rules.backoff_limit and not self.succeeded

    def pod_ended(self, end: PodEnd) -> float | None:
        """Seconds until a replacement is created; None if there will be none."""
        if end is PodEnd.SUCCEEDED:
            self.succeeded = True
            return None
        # Failures that a podFailurePolicy ignores lengthen the wait all the same.
        self._failed_pods += 1
        if end is PodEnd.FAILED:
            self.failures += 1
        if self.succeeded or self.failed:
            return None
        return self.replacement_seconds()

    def replacement_seconds(self) -> float:
        """How long a replacement waits now."""
        if not self._rules.backoff or not self._failed_pods:
            return self._rules.replacement_seconds
        # The exponent is bounded, because a job may be evicted thousands of times.
        doubled = BACKOFF_FIRST_SECONDS * 2.0 ** min(self._failed_pods - 1, 30)
        return max(self._rules.replacement_seconds, min(doubled, BACKOFF_SECONDS_MAX))
