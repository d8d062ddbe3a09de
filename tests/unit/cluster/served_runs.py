"""Commands of this process against the API server of tests/servers, and a run in it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from outlast.cli.app import run
from outlast.cluster.resources import JOBS, PODS, Object
from tests.servers.api_server import ApiServer, api_server
from tests.unit.cluster.kubeconfigs import write_kubeconfig
from tests.unit.cluster.watched_runs import job

NAMESPACE = "team-a"


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout)
        return found


@dataclass(frozen=True)
class Served:
    """A server, and the kubeconfig that names it."""

    api: ApiServer
    kubeconfig: Path

    def outlast(self, *words: str | Path) -> Done:
        """Run a command in this process."""
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = run([*map(str, words), "--kubeconfig", str(self.kubeconfig)])
        return Done(code, out.getvalue(), err.getvalue())

    def add_job(self, name: str = "tiny", **spec: Any) -> Object:
        return self.api.store.put(JOBS, named_job(name, **spec))

    def set_pod(self, name: str, status: Object) -> Object:
        """Write the status of a Pod as its kubelet does."""
        return self.api.store.merge(PODS, NAMESPACE, name, {"status": status}, "kubelet")


@contextmanager
def served(folder: Path, *, has_kueue: bool = False) -> Iterator[Served]:
    with api_server(has_kueue=has_kueue) as api:
        config = write_kubeconfig(folder / "kubeconfig", api.url, namespace=NAMESPACE)
        yield Served(api, config)


def named_job(name: str = "tiny", **spec: Any) -> Object:
    made = job(**spec)
    # A path inside the Pod: nothing outside this machine is asked for its journal.
    [container] = made["spec"]["template"]["spec"]["containers"]
    container["env"][0]["value"] = "/mnt/run"
    made["spec"]["template"]["metadata"] = {"labels": made["metadata"]["labels"]}
    made["apiVersion"] = "batch/v1"
    made["metadata"]["name"] = name
    for key in ("uid", "creationTimestamp"):
        del made["metadata"][key]
    del made["status"]
    return made


def failed(exit_code: int, finished_at: str) -> Object:
    ended = {"exitCode": exit_code, "reason": "Error", "finishedAt": finished_at}
    return {
        "phase": "Failed",
        "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
    }
