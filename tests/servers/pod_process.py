"""A Pod as a process: its environment, its signals, and the statuses that a kubelet reports."""

import base64
import contextlib
import datetime
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast.cluster.resources import Object, name_of

GRACE_SECONDS_MIN = 2
SHUTDOWN_MESSAGE = "Pod was terminated in response to imminent node shutdown."
SecretReader = Callable[[str], Object | None]


class MissingConfig(Exception):
    """The environment needs a Secret or a key that is not there. The message is a kubelet's."""


class PodProcess:
    """A Pod that runs here."""

    def __init__(self, pod: Object, process: "subprocess.Popen[bytes]") -> None:
        self.pod = pod
        self.process = process
        self.started = now()
        self.is_shut_down = False
        self.is_stopping = False

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    def stop(self, grace_seconds: float) -> None:
        """SIGTERM to the first process only, then after the grace period SIGKILL to all."""
        if self.is_stopping:
            return
        self.is_stopping = True
        self.signal(signal.SIGTERM)
        timer = threading.Timer(max(GRACE_SECONDS_MIN, grace_seconds), self.kill)
        timer.daemon = True
        timer.start()

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


def start_process(pod: Object, environ: dict[str, str], folder: Path) -> "subprocess.Popen[bytes]":
    """The first container, as a session of its own; POD.log in the folder has what it prints."""
    container = pod["spec"]["containers"][0]
    with (folder / f"{name_of(pod)}.log").open("wb") as output:
        return subprocess.Popen(
            [*(container.get("command") or ()), *(container.get("args") or ())],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
        )


def variables(pod: Object, node: str, read_secret: SecretReader) -> dict[str, str]:
    """The environment of the first container. Raises `MissingConfig`."""
    found = {"HOSTNAME": name_of(pod), "PATH": os.environ.get("PATH", "")}
    for variable in pod["spec"]["containers"][0].get("env") or ():
        source = variable.get("valueFrom") or {}
        if "fieldRef" in source:
            found[variable["name"]] = _field(pod, node, source["fieldRef"]["fieldPath"])
        elif "secretKeyRef" in source:
            found[variable["name"]] = _secret(pod, source["secretKeyRef"], read_secret)
        elif "value" in variable:
            found[variable["name"]] = variable["value"]
    return found


def _field(pod: Object, node: str, path: str) -> str:
    if path == "spec.nodeName":
        return node
    for kind in ("annotations", "labels"):
        if path.startswith(f"metadata.{kind}["):
            return str((pod["metadata"].get(kind) or {}).get(path.split("'")[1], ""))
    return str(pod["metadata"].get(path.removeprefix("metadata."), ""))


def _secret(pod: Object, reference: dict[str, str], read_secret: SecretReader) -> str:
    name, key = reference["name"], reference["key"]
    secret = read_secret(name)
    if secret is None:
        raise MissingConfig(f'secret "{name}" not found')
    if key not in (secret.get("data") or {}):
        where = f"{pod['metadata']['namespace']}/{name}"
        raise MissingConfig(f"couldn't find key {key} in Secret {where}")
    return base64.b64decode(secret["data"][key]).decode()


def running_status(running: PodProcess) -> dict[str, Any]:
    state = {"running": {"startedAt": running.started}}
    return {
        "phase": "Running",
        "startTime": running.started,
        "conditions": [condition("Ready", "True"), condition("ContainersReady", "True")],
        "containerStatuses": [container_status(running.pod, state, is_ready=True)],
    }


def waiting_status(pod: Object, reason: str, message: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [container_status(pod, state)]}


def refused_status(reason: str) -> dict[str, Any]:
    """A Pod that a kubelet does not admit fails without any condition or container status."""
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {reason}"}


def unstarted_status(pod: Object, error: OSError) -> dict[str, Any]:
    """As containerd reports a program that it cannot execute."""
    terminated = {
        "exitCode": 128,
        "reason": "StartError",
        "message": f"failed to create containerd task: exec: {error.filename}: {error.strerror}",
        "finishedAt": now(),
    }
    conditions = [condition(kind, "False", "PodFailed") for kind in ("Ready", "ContainersReady")]
    status = container_status(pod, {"terminated": terminated})
    return {"phase": "Failed", "conditions": conditions, "containerStatuses": [status]}


def ended_status(running: PodProcess, code: int) -> dict[str, Any]:
    """That the node disrupted a Pod is reported only together with its end."""
    terminated = {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": running.started,
        "finishedAt": now(),
    }
    reason = "PodCompleted" if code == 0 else "PodFailed"
    conditions = [condition(kind, "False", reason) for kind in ("Ready", "ContainersReady")]
    status: dict[str, Any] = {
        "phase": "Succeeded" if code == 0 else "Failed",
        "containerStatuses": [container_status(running.pod, {"terminated": terminated})],
    }
    if running.is_shut_down:
        conditions.append(
            condition("DisruptionTarget", "True", "TerminationByKubelet", SHUTDOWN_MESSAGE)
        )
        if code != 0:
            status |= {"reason": "Terminated", "message": SHUTDOWN_MESSAGE}
    return {**status, "conditions": conditions}


def lost_status(pod: Object) -> dict[str, Any]:
    terminated = {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
    }
    conditions = [condition(kind, "False", "PodFailed") for kind in ("Ready", "ContainersReady")]
    status = container_status(pod, {"terminated": terminated})
    return {"phase": "Failed", "conditions": conditions, "containerStatuses": [status]}


def container_status(
    pod: Object, state: dict[str, Any], *, is_ready: bool = False
) -> dict[str, Any]:
    container = pod["spec"]["containers"][0]
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": 0,
        "state": state,
    }


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    given = {"reason": reason, "message": message}
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": now(),
        **{key: value for key, value in given.items() if value},
    }


def now(*, micro: bool = False) -> str:
    time = datetime.datetime.now(datetime.UTC)
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")
