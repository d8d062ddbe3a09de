"""What a Job does when a Pod fails: the rules of its podFailurePolicy, as the Job controller reads.

Pure. The first rule that matches wins. A rule looks either at exit codes or at conditions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from outlast.manifests.lint.pod import Job

DISRUPTION = ("DisruptionTarget", "True")
KILLED_CODES = frozenset((137, 143))
"""What a container leaves with that is killed, or ends at SIGTERM without a handler."""
INTERRUPTED_CODE = 75
"""What a program of ours leaves with when it is interrupted, unless told otherwise."""
IGNORE_DISRUPTIONS = {"action": "Ignore", "onPodConditions": [{"type": DISRUPTION[0]}]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Codes:
    """Exit codes, of one container or of any. `is_negated`: all but these, and but 0."""

    values: frozenset[int]
    is_negated: bool
    container: str | None = None

    def has(self, code: int, container: str | None = None) -> bool:
        if code == 0 or (container and self.container and container != self.container):
            return False
        return (code in self.values) is not self.is_negated

    def covers(self, other: "Codes") -> bool:
        """Whether all that the other has is in this, too."""
        if self.container is not None and self.container != other.container:
            return False
        if self.is_negated:
            if other.is_negated:
                return self.values <= other.values
            return bool(other.values) and not self.values & other.values
        return not other.is_negated and bool(other.values) and other.values <= self.values


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureRule:
    """One rule. `index` is its place in the list."""

    index: int
    action: str
    codes: Codes | None = None
    conditions: frozenset[tuple[str, str]] = frozenset()

    @property
    def is_for_disruptions(self) -> bool:
        return DISRUPTION in self.conditions

    @property
    def takes_killed(self) -> bool:
        """Whether it takes a Pod whose container was killed, whatever killed it."""
        return self.codes is not None and any(self.codes.has(code) for code in KILLED_CODES)

    def covers(self, other: "FailureRule") -> bool:
        """Whether every Pod that the other takes is taken by this."""
        if self.codes is not None and other.codes is not None:
            return self.codes.covers(other.codes)
        return bool(other.conditions) and other.conditions <= self.conditions


def rules_of(job: Job) -> list[FailureRule]:
    """The rules of a Job that can be read."""
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
    """A rule that ignores an exit code, as it is written."""
    return {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [code]}}


def ignores_disruptions(job: Job) -> bool:
    """Whether an eviction is not counted as a failure."""
    return any(rule.action == "Ignore" and rule.is_for_disruptions for rule in rules_of(job))


def _codes(value: Any) -> Codes | None:
    if not isinstance(value, Mapping) or not isinstance(value.get("values"), list):
        return None
    container = value.get("containerName")
    return Codes(
        values=frozenset(code for code in value["values"] if isinstance(code, int)),
        is_negated=value.get("operator") == "NotIn",
        container=container if isinstance(container, str) and container else None,
    )


def _conditions(value: Any) -> Iterator[tuple[str, str]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("type"), str):
            status = item.get("status")
            yield item["type"], status if isinstance(status, str) else "True"
