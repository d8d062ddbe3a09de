"""Write what a control plane showed as a fixture, so that machines without one test it too.

    RECORD_CLUSTER=1.36.4 pytest tests/integration/test_live_causes.py

rewrites tests/fixtures/cluster/recorded, one file for each test. Only the fields that a diagnosis
reads are kept; names and UIDs become plain ones, and times are moved to those of the other
fixtures, so that nothing of this machine is in them.
"""

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from outlast.cluster.diagnosis.diagnosis import Diagnosis
from outlast.cluster.diagnosis.engine import endings, why_waiting
from outlast.cluster.resources import Object, name_of
from tests.unit.cluster.snapshots import FIXTURES, NOW, completed, snapshot_of

# Read now, because tests run without the settings of whoever started them.
VERSION = os.environ.get("RECORD_CLUSTER", "")
FOLDER = FIXTURES / "recorded"
_KEPT = {
    "metadata": "name uid creationTimestamp deletionTimestamp labels annotations ownerReferences"
    " finalizers",
    "spec": "nodeName priority schedulingGates nodeSelector affinity tolerations containers suspend"
    " backoffLimit taints unschedulable active queueName provisioningClassName priorities"
    " whenUnsatisfiable",
    "status": "phase reason message conditions containerStatuses allocatable active failed"
    " succeeded terminating requeueState admissionChecks provisioningClassDetails priorityStatuses"
    " restarts restartsCountTowardsMax",
}
_EVENT = "involvedObject reason type message count series eventTime lastTimestamp"
_MARKS = (
    "pool",
    "kueue.x-k8s.io/queue-name",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-index-failure-count",
    "batch.kubernetes.io/job-index-ignored-failure-count",
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "node.gke.io/machine-termination-datetime",
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def record(
    id: str, test: str, namespace: str, objects: list[Object], diagnosis: Diagnosis, **expect: Any
) -> None:
    """Write the fixture of a diagnosis. It must lead to the same diagnosis."""
    kept = [item for item in objects if _is_relevant(item, namespace, expect)]
    names = _names(kept, namespace)
    shift = NOW - datetime.now(UTC)
    clean = [_renamed(_cut(item), names, shift) for item in kept]
    told: dict[str, Any] = {
        "cause": diagnosis.cause,
        **{key: value for key, value in expect.items() if key == "is_counted"},
        "summary": _text(diagnosis.summary, names, shift),
        "next_step": _text(diagnosis.next_step, names, shift),
    }
    more = expect.get("snapshot") or {}
    _check(clean, more, told)
    case = {"name": test, "objects": clean, "snapshot": more, "expect": told}
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{id}.{test.replace(' ', '-')}.yaml"
    content = {"source": f"recorded: {VERSION}", "cases": [case]}
    path.write_text(yaml.safe_dump(content, sort_keys=False, width=100, allow_unicode=True))


def _is_relevant(item: Object, namespace: str, expect: dict[str, Any]) -> bool:
    if item["kind"] == "Node":
        return bool(name_of(item).startswith(namespace))
    if item["kind"] == "Pod" and "pod" in expect:
        return name_of(item) == str(expect["pod"])
    return item["kind"] != "Event" or item.get("type") == "Warning"


def _names(objects: list[Object], namespace: str) -> dict[str, str]:
    """Plain names for those of the test. Longer ones first: a Pod's begins with its Job's."""
    found: dict[str, str] = {}
    counts: dict[str, int] = {}
    for item in objects:
        kind = item["kind"].lower()
        counts[kind] = counts.get(kind, 0) + 1
        suffix = "" if counts[kind] == 1 else f"-{counts[kind]}"
        found[item["metadata"]["uid"]] = f"{kind}{suffix}"
        if kind == "node":
            found[name_of(item)] = f"n{counts[kind]}"
        elif kind == "pod":
            found[name_of(item)] = f"run-{counts[kind]}"
    found[namespace] = "team-a"
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def _cut(item: Object) -> Object:
    if item["kind"] == "Event":
        event = {key: item[key] for key in _EVENT.split() if item.get(key)}
        about = {"uid": item["involvedObject"].get("uid", "")}
        return {"kind": "Event", **event, "involvedObject": about}
    found: Object = {"kind": item["kind"]}
    for part, keys in _KEPT.items():
        kept = {key: item[part][key] for key in keys.split() if item.get(part, {}).get(key)}
        trimmed = {key: _trimmed(key, value) for key, value in kept.items()}
        found[part] = {key: value for key, value in trimmed.items() if value}
    return {key: value for key, value in found.items() if value}


def _trimmed(key: str, value: Any) -> Any:
    if key in ("labels", "annotations"):
        return {name: text for name, text in value.items() if name in _MARKS}
    if key == "ownerReferences":
        return [{"uid": one["uid"], "controller": True} for one in value if one.get("controller")]
    if key == "containers":
        return [{"name": one["name"], "resources": one.get("resources", {})} for one in value]
    if key == "containerStatuses":
        return [{"name": one["name"], "state": one["state"]} for one in value]
    if key == "conditions":
        unused = ("lastProbeTime", "lastHeartbeatTime", "observedGeneration")
        kept = [one for one in value if not one["type"].endswith(("Pressure", "ContainersReady"))]
        return [{k: v for k, v in one.items() if k not in unused} for one in kept]
    if key == "tolerations":
        # Every Pod has these two.
        return [one for one in value if one.get("tolerationSeconds") != 300]
    if key == "taints":
        return [{k: v for k, v in one.items() if k != "timeAdded"} for one in value]
    return value


def _renamed(value: Any, names: dict[str, str], shift: timedelta) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(one, names, shift) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names, shift) for one in value]
    return _text(value, names, shift) if isinstance(value, str) else value


def _text(text: str, names: dict[str, str], shift: timedelta) -> str:
    for old, new in names.items():
        text = text.replace(old, new)
    text = _TIME.sub(lambda found: _moved(found[0], shift), text)
    return re.sub(r"\b\d\d:\d\d:\d\d(?= UTC)", lambda found: _clock(found[0], shift), text)


def _moved(time: str, shift: timedelta) -> str:
    return (datetime.fromisoformat(time) + shift).strftime("%Y-%m-%dT%H:%M:%SZ")


def _clock(time: str, shift: timedelta) -> str:
    day = datetime.now(UTC).date()
    return (datetime.fromisoformat(f"{day}T{time}Z") + shift).strftime("%H:%M:%S")


def _check(objects: list[Object], more: dict[str, Any], told: dict[str, Any]) -> None:
    snapshot = snapshot_of([completed(item) for item in objects], [], more)
    if "is_counted" in told:
        (ending,) = endings(snapshot)
        found = ending.diagnosis
        assert ending.is_counted == told["is_counted"]
    else:
        waiting = why_waiting(snapshot)
        assert waiting is not None
        found = waiting
    assert (found.cause, found.summary) == (told["cause"], told["summary"])
