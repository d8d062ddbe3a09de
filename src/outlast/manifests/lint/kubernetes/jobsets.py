"""What ends a Job and what its JobSet does then: restart everything, count it, or fail.

Pure. The first matching rule of a failurePolicy wins; without one, the JobSet restarts and counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from outlast.manifests.lint.kubernetes.jobs import failure_rules_of, ignores_disruptions
from outlast.manifests.lint.kubernetes.pod import Container, Job
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.nodes import Map

FAILURE_POLICY = ("spec", "failurePolicy")
ROOMY_LIMIT = 50
"""With this many retries, evictions have been allowed for."""
_BACKOFF_DEFAULT = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEnding:
    """How failures of one kind end a Job: for which reason, and how many of them it takes."""

    reason: str
    failures: int


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSetRule:
    """A rule of a failurePolicy that matches a failed Job, at least if its message does too."""

    index: int
    action: str
    needs_message: bool

    @property
    def is_free(self) -> bool:
        """Whether the JobSet restarts without counting it."""
        return self.action.endswith("IgnoreMaxRestarts")


def ending_by_disruptions(job: Job) -> JobEnding | None:
    """How evictions end a Job, None if they do not."""
    for rule in failure_rules_of(job):
        if rule.is_for_disruptions and rule.action == "FailJob":
            return JobEnding(reason="PodFailurePolicy", failures=1)
    return None if ignores_disruptions(job) else _ending_by_failures(job)


def ending_by_code(job: Job, code: int, container: Container) -> JobEnding | None:
    """How an exit code of a container ends a Job, None if it does not."""
    for rule in failure_rules_of(job):
        if rule.codes is None or not rule.codes.has(code, container.name):
            continue
        if rule.action == "FailJob":
            return JobEnding(reason="PodFailurePolicy", failures=1)
        return _ending_by_failures(job) if rule.action == "Count" else None
    return _ending_by_failures(job)


def _ending_by_failures(job: Job) -> JobEnding | None:
    limit = job.backoff_limit
    if job.get("spec", "backoffLimitPerIndex") is not None:
        return None
    if limit is not None and limit >= ROOMY_LIMIT:
        return None
    failures = (_BACKOFF_DEFAULT if limit is None else max(0, limit)) + 1
    return JobEnding(reason="BackoffLimitExceeded", failures=failures)


def failures_allowed(jobset: KubernetesObject, job: Job, ending: JobEnding) -> int | None:
    """How many failures of a Job its JobSet survives, None if there is no limit that matters."""
    for rule in jobset_rules(jobset, job, ending.reason):
        # The message is not known in advance: it may well be the one that the rule is for.
        if rule.is_free:
            return None
        if rule.needs_message:
            continue
        if rule.action == "FailJobSet":
            return ending.failures - 1
        break
    allowed = ending.failures * (max_restarts_of(jobset) + 1) - 1
    return None if allowed >= ROOMY_LIMIT else allowed


def jobset_rules(jobset: KubernetesObject, job: Job, reason: str) -> Iterator[JobSetRule]:
    """The rules that match a Job that failed for this reason, in their order."""
    name = replicated_job_name(jobset, job)
    for index, rule in jobset.mappings(*FAILURE_POLICY, "rules"):
        if _names(rule, "onJobFailureReasons", reason) and _names(
            rule, "targetReplicatedJobs", name
        ):
            yield JobSetRule(
                index=index,
                action=str(rule.get("action")),
                needs_message=bool(rule.get("onJobFailureMessagePatterns")),
            )


def max_restarts_of(jobset: KubernetesObject) -> int:
    return jobset.integer(*FAILURE_POLICY, "maxRestarts") or 0


def replicated_job_name(jobset: KubernetesObject, job: Job) -> str:
    return jobset.text(*job.path[:-1], "name") or ""


def _names(rule: Map, key: str, word: str) -> bool:
    listed = rule.get(key)
    return not isinstance(listed, list) or not listed or word in listed
