"""Jobs: the rules of their podFailurePolicy, and how many Pods run at once.

Pure. The first matching rule wins. A rule matches either exit codes or conditions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from outlast.manifests.conventions import INTERRUPTED_CODE
from outlast.manifests.lint.kubernetes.pod import Container, Job, Pod
from outlast.yamltext.nodes import Path

DISRUPTION = ("DisruptionTarget", "True")
CODE_VARIABLE = "OUTLAST_EXIT_CODE"
KILLED_CODES = frozenset((137, 143))
"""The exit codes of a container that is killed, or terminated by SIGTERM without a handler."""
IGNORE_DISRUPTIONS = {"action": "Ignore", "onPodConditions": [{"type": DISRUPTION[0]}]}
_REPLICATED = ("Deployment", "ReplicaSet", "ReplicationController", "Rollout", "StatefulSet")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExitCodes:
    """Exit codes of one container or of any. `is_negated`: all codes except these and 0."""

    values: frozenset[int]
    is_negated: bool
    container: str | None = None

    def has(self, code: int, container: str | None = None) -> bool:
        if code == 0 or (container and self.container and container != self.container):
            return False
        return (code in self.values) is not self.is_negated

    def covers(self, other: "ExitCodes") -> bool:
        """Whether these include all of the other's codes."""
        if self.container is not None and self.container != other.container:
            return False
        if self.is_negated:
            if other.is_negated:
                return self.values <= other.values
            return bool(other.values) and not self.values & other.values
        return not other.is_negated and bool(other.values) and other.values <= self.values


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureRule:
    """One rule of a podFailurePolicy. `index` is its position in the list."""

    index: int
    action: str
    codes: ExitCodes | None = None
    conditions: frozenset[tuple[str, str]] = frozenset()

    @property
    def is_for_disruptions(self) -> bool:
        return DISRUPTION in self.conditions

    @property
    def takes_killed(self) -> bool:
        """Whether it matches a Pod whose container was killed, for any reason."""
        return self.codes is not None and any(self.codes.has(code) for code in KILLED_CODES)

    def covers(self, other: "FailureRule") -> bool:
        """Whether it matches every Pod that the other matches."""
        if self.codes is not None and other.codes is not None:
            return self.codes.covers(other.codes)
        return bool(other.conditions) and other.conditions <= self.conditions


def failure_rules_of(job: Job) -> list[FailureRule]:
    """The valid rules in the podFailurePolicy of a Job."""
    return [
        FailureRule(
            index=index,
            action=str(rule.get("action")),
            codes=_codes(rule.get("onExitCodes")),
            conditions=frozenset(_conditions(rule.get("onPodConditions"))),
        )
        for index, rule in job.failure_rules
    ]


def ignoring_code(code: int) -> dict[str, Any]:
    """A rule that ignores an exit code, as it is written in a manifest."""
    return {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [code]}}


def interrupted_code_of(container: Container) -> int | None:
    """The code that a container exits with when it is interrupted, None if unknown."""
    variable = container.variables.get(CODE_VARIABLE)
    if variable is not None:
        value = variable.value or ""
        return int(value) if value.isdecimal() and len(value) < 4 else None
    names = [word.rpartition("/")[2] for word in container.words[:1]]
    uses_outlast = "outlast" in names or "OUTLAST_RUN_URL" in container.variables
    return INTERRUPTED_CODE if uses_outlast else None


def ignores_disruptions(job: Job) -> bool:
    """Whether evictions do not count as failures."""
    return any(
        rule.action == "Ignore" and rule.is_for_disruptions for rule in failure_rules_of(job)
    )


def _codes(value: Any) -> ExitCodes | None:
    if not isinstance(value, Mapping) or not isinstance(value.get("values"), list):
        return None
    container = value.get("containerName")
    return ExitCodes(
        values=frozenset(code for code in value["values"] if isinstance(code, int)),
        is_negated=value.get("operator") == "NotIn",
        container=container if isinstance(container, str) and container else None,
    )


def _conditions(value: Any) -> Iterator[tuple[str, str]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("type"), str):
            status = item.get("status")
            yield item["type"], status if isinstance(status, str) else "True"


@dataclass(frozen=True, kw_only=True, slots=True)
class PodCount:
    """A number of Pods. `at` is the path in the object of the field that determines it."""

    pods: int
    at: Path


def pods_at_once(pod: Pod) -> PodCount | None:
    """How many Pods of a template run at the same time.

    None for kinds without a number, such as a DaemonSet, and if the value is not an integer.
    """
    if pod.job is not None:
        return _of_job(pod.job)
    if pod.owner_kind == "Pod":
        return PodCount(pods=1, at=("metadata", "name"))
    if pod.owner_kind in _REPLICATED:
        replicas = _whole_number(pod.manifest.get("spec", "replicas"))
        return None if replicas is None else PodCount(pods=replicas, at=("spec", "replicas"))
    return None


def job_pods(job: Job) -> int | None:
    """How many Pods one Job runs at once: never more than its completions."""
    parallelism = _whole_number(job.get("spec", "parallelism"))
    completions = _whole_number(job.get("spec", "completions"), default=parallelism)
    if parallelism is None or completions is None:
        return None
    return min(parallelism, completions)


def _of_job(job: Job) -> PodCount | None:
    pods = job_pods(job)
    replicas, at = 1, (*job.path, "spec", "parallelism")
    if job.owner_kind == "JobSet":
        around = job.path[:-1]
        given = _whole_number(job.manifest.get(*around, "replicas"))
        if given is None:
            return None
        replicas = given
        at = at if replicas == 1 else (*around, "replicas")
    return None if pods is None else PodCount(pods=pods * replicas, at=at)


def _whole_number(given: object, *, default: int | None = 1) -> int | None:
    """The value if it is an integer, the default if it is missing, None for anything else."""
    if given is None:
        return default
    return given if isinstance(given, int) and not isinstance(given, bool) else None
