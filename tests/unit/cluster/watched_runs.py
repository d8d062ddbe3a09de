"""A run to watch: a journal as a run writes it, and its objects in the cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from outlast.capacity.workload.file import Workload
from outlast.journal.events import AttemptStarted, Event, StepsPlanned
from outlast.journal.reader import AttemptRecord
from tests.unit.cli.journal_files import START, Simulated

NOW = START + timedelta(hours=10)

WORKLOAD = """
name: tiny
namespace: team-a
kind: training
image: registry.example/trainer:1.4
command: [python, train.py]
accelerator: {type: nvidia-l4, count: 2}
work: {hours: 12}
deadline: 24h
tier: spot
checkpoint: {url: "gs://lab-runs/tiny", size: 12GiB}
cluster: {location: us-central1}
"""


def workload() -> Workload:
    return Workload.parse(WORKLOAD, name="tiny.yaml")


def three_attempts() -> Simulated:
    """Reclaimed once with all work saved, killed once without notice, then running."""
    run = Simulated(step_seconds=30.0)
    run.start(warm_seconds=120)
    run.work(300, save_every=50, stall=2.0)
    run.evict(final_seconds=8, wait_seconds=600)
    run.start(load_seconds=60, warm_seconds=60)
    run.work(240, save_every=50, stall=2.0)
    run.kill(wait_seconds=1200)
    run.start(load_seconds=60, warm_seconds=60)
    run.work(120, save_every=50, stall=2.0)
    return run


def placed(
    records: Sequence[AttemptRecord], *, planned: int = 1440, machine: str = "g2-standard-24"
) -> list[AttemptRecord]:
    """The attempts with the place that a manifest states: Pod `tiny-N` with the UID `uid-N`."""
    return [replace(record, events=tuple(_placed(record, planned, machine))) for record in records]


def records_of(run: Simulated, **given: Any) -> list[AttemptRecord]:
    """All attempts, with the one that still runs."""
    open_events = tuple(run._events)
    last = [AttemptRecord(attempt=len(run.records) + 1, events=open_events)] if open_events else []
    return placed([*run.records, *last], **given)


def _placed(record: AttemptRecord, planned: int, machine: str) -> Iterator[Event]:
    for event in record.events:
        if isinstance(event, AttemptStarted):
            number = record.attempt
            yield replace(
                event,
                pod=f"tiny-{number}",
                pod_uid=f"uid-{number}",
                node=f"gke-spot-{number}",
                tier="spot",
                machine=machine,
                zone="us-central1-a",
            )
            yield StepsPlanned(at=event.at, steps=planned)
        else:
            yield event


def stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def job(**spec: Any) -> dict[str, Any]:
    variables = {
        "OUTLAST_RUN_URL": "gs://lab-runs/tiny",
        "OUTLAST_TIER": "spot",
        "OUTLAST_MACHINE": "g2-standard-24",
    }
    env = [{"name": key, "value": value} for key, value in variables.items()]
    labels = {"app.kubernetes.io/name": "tiny", "app.kubernetes.io/managed-by": "outlast"}
    return {
        "kind": "Job",
        "metadata": {
            "name": "tiny",
            "namespace": "team-a",
            "uid": "job",
            "labels": labels,
            "creationTimestamp": stamp(START),
        },
        "spec": {
            "backoffLimit": 13,
            "parallelism": 1,
            "template": {"spec": {"containers": [{"name": "main", "env": env}]}},
            **spec,
        },
        "status": {"active": 1},
    }


def pod(number: int, phase: str, **status: Any) -> dict[str, Any]:
    spec = {"nodeName": f"gke-spot-{number}"} if phase != "Pending" else {}
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"tiny-{number}",
            "namespace": "team-a",
            "uid": f"uid-{number}",
            "creationTimestamp": stamp(START + timedelta(hours=3 * number)),
            "ownerReferences": [{"uid": "job", "controller": True}],
        },
        "spec": spec,
        "status": {"phase": phase, **status},
    }


def shut_down(exit_code: int, at: datetime) -> dict[str, Any]:
    """The status of a Pod whose node was shut down."""
    target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    ended = {"terminated": {"exitCode": exit_code, "reason": "Error", "finishedAt": stamp(at)}}
    return {
        "reason": "Terminated",
        "message": "Pod was terminated in response to imminent node shutdown.",
        "conditions": [target],
        "containerStatuses": [{"name": "main", "state": ended}],
    }


def unschedulable(message: str, at: datetime) -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": stamp(at),
    }
    return {"conditions": [condition]}


def event(about: str, reason: str, message: str, at: datetime) -> dict[str, Any]:
    return {
        "kind": "Event",
        "metadata": {"uid": f"{about}-{reason}", "namespace": "team-a"},
        "involvedObject": {"uid": about},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "eventTime": stamp(at),
    }
