"""What a check of `outlast doctor` looks at, and what it reports."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from outlast.capacity.workload.spec import WorkloadSpec
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.google_cloud import GkeCluster
from outlast.cluster.errors import shown
from outlast.cluster.resources import Object, name_of
from outlast.manifests.lint.kubernetes.templates import SLOTS, expand
from outlast.yamltext.nodes import get


class CheckOutcome(StrEnum):
    """The result of a check. UNKNOWN is never counted as OK."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """One line of the report. A failure has a next step."""

    outcome: CheckOutcome
    text: str
    next_step: str = ""

    def __post_init__(self) -> None:
        if self.outcome is CheckOutcome.FAIL and not self.next_step:
            raise ValueError("A failed check needs a next step.")


def ok(text: str) -> CheckResult:
    return CheckResult(outcome=CheckOutcome.OK, text=shown(text))


def warn(text: str, next_step: str = "") -> CheckResult:
    return CheckResult(outcome=CheckOutcome.WARN, text=shown(text), next_step=shown(next_step))


def fail(text: str, next_step: str) -> CheckResult:
    return CheckResult(outcome=CheckOutcome.FAIL, text=shown(text), next_step=shown(next_step))


def unknown(text: str, next_step: str = "") -> CheckResult:
    return CheckResult(outcome=CheckOutcome.UNKNOWN, text=shown(text), next_step=shown(next_step))


@dataclass(frozen=True, kw_only=True, slots=True)
class PodTemplate:
    """A Pod template in an object. `pods` is how many of it run at once, as far as known."""

    owner: Object
    spec: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The cluster, and what is to run on it: no objects if no file was given.

    `gke` is None if the context is not one of GKE's.
    """

    cluster: ClusterClient
    namespace: str
    objects: tuple[Object, ...] = ()
    workload: WorkloadSpec | None = None
    gke: GkeCluster | None = None

    def pod_templates(self) -> Iterator[PodTemplate]:
        for item in self.objects:
            group = str(item.get("apiVersion")).rpartition("/")[0]
            for slot in SLOTS.get((group, str(item.get("kind"))), ()):
                for path in expand(item, slot.template):
                    spec = get(item, (*path, "spec"))
                    if isinstance(spec, dict):
                        yield PodTemplate(owner=item, spec=spec)

    def has(self, kind: str, name: str) -> bool:
        """Whether the file has an object, which `outlast submit --setup` would create."""
        return any(item.get("kind") == kind and name_of(item) == name for item in self.objects)


Check = Callable[[Subject], Iterator[CheckResult]]
