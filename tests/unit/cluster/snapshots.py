"""Snapshots from the fixtures in tests/fixtures/cluster: files whose names begin with a cause.

Those in `recorded` were written by tests/servers/recording.py on a real control plane.

An object of a fixture has only the fields that matter. Here it gets a name, a UID (its kind in
lower case) and an owner, unless it has its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from outlast.cluster.diagnosis.autoscaler_log import scale_up_refusals
from outlast.cluster.diagnosis.facts import event_fact, job_fact, node_fact, pod_fact
from outlast.cluster.diagnosis.queue_facts import (
    compute_class_fact,
    job_set_fact,
    provisioning_request_fact,
    workload_fact,
)
from outlast.cluster.diagnosis.snapshot import Snapshot

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cluster"
NOW = datetime(2026, 11, 16, 11, 20, tzinfo=UTC)
READERS: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "Pod": ("pods", pod_fact),
    "Node": ("nodes", node_fact),
    "Job": ("jobs", job_fact),
    "Event": ("events", event_fact),
    "JobSet": ("job_sets", job_set_fact),
    "Workload": ("workloads", workload_fact),
    "ProvisioningRequest": ("requests", provisioning_request_fact),
    "ComputeClass": ("compute_classes", compute_class_fact),
}
_OWNERS = {"Pod": "job", "Workload": "job", "ProvisioningRequest": "workload"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    id: str
    name: str
    source: str
    objects: list[dict[str, Any]]
    log: list[dict[str, Any]]
    snapshot: dict[str, Any]
    expect: dict[str, Any]

    @property
    def is_near_miss(self) -> bool:
        return self.name.startswith("near miss")


def all_cases() -> Iterator[Case]:
    for path in sorted(FIXTURES.rglob("*.yaml")):
        content = yaml.safe_load(path.read_text())
        for case in content["cases"]:
            yield Case(
                id=path.stem.partition(".")[0],
                name=case["name"],
                source=content["source"],
                objects=[completed(item) for item in case["objects"]],
                log=case.get("log", []),
                snapshot=case.get("snapshot", {}),
                expect=case["expect"],
            )


def snapshot_of(objects: list[Any], log: list[Any], more: dict[str, Any]) -> Snapshot:
    facts: dict[str, list[Any]] = {}
    for item in objects:
        field, read = READERS[item["kind"]]
        facts.setdefault(field, []).append(read(item))
    given: dict[str, Any] = {field: tuple(found) for field, found in facts.items()}
    given |= {**more, "unread": frozenset(more.get("unread", ()))}
    return Snapshot(now=NOW, refusals=scale_up_refusals(log), **given)


def completed(item: dict[str, Any]) -> dict[str, Any]:
    kind = item["kind"]
    owner = _OWNERS.get(kind)
    metadata = {
        "name": "tiny",
        "namespace": "team-a",
        "uid": kind.lower(),
        "creationTimestamp": "2026-11-16T11:00:00Z",
        "ownerReferences": [{"uid": owner, "controller": True}] if owner else [],
    }
    return {**item, "metadata": {**metadata, **item.get("metadata", {})}}
