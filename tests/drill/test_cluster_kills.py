"""`outlast stop` and `resume`, killed at each request that changes something, then repeated.

The command is a real process. The API server of tests/servers kills it before it acts on the n-th
such request, or after that and before it answers, so nothing depends on time.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from outlast.cluster.resources import JOBS, JOBSETS
from tests.patience import PATIENCE_SECONDS
from tests.servers.api_server import QUEUE_LABEL, KillPoint, Write
from tests.unit.cli.journal_files import write_journal
from tests.unit.cluster.served_runs import NAMESPACE, Served, named_job, served
from tests.unit.cluster.watched_runs import records_of, three_attempts

WORKLOAD = """
name: tiny
kind: training
namespace: team-a
image: example.com/train:1
command: [python, train.py]
machine: e2-standard-8
tier: spot
work: {hours: 5}
checkpoint: {url: "gs://runs/tiny", size: 1GiB}
"""


def _job(cluster: Served, folder: Path) -> None:
    cluster.add_job()


def _parts(cluster: Served, folder: Path) -> None:
    for index in range(3):
        cluster.add_job(f"tiny-{index}")


def _job_set(cluster: Served, folder: Path, **labels: str) -> None:
    metadata = {"name": "tiny", "namespace": NAMESPACE, "labels": labels}
    item = {"apiVersion": JOBSETS.api_version, "kind": "JobSet", "metadata": metadata}
    cluster.api.store.put(JOBSETS, {**item, "spec": {"suspend": False}})


def _queued(cluster: Served, folder: Path) -> None:
    item = named_job(suspend=True)
    item["metadata"]["labels"][QUEUE_LABEL] = "q"
    cluster.api.store.put(JOBS, item)


def _queued_set(cluster: Served, folder: Path) -> None:
    _job_set(cluster, folder, **{QUEUE_LABEL: "q"})


def _submitted(cluster: Served, folder: Path) -> None:
    (folder / "tiny.yaml").write_text(WORKLOAD)
    done = cluster.outlast("submit", folder / "tiny.yaml", "--setup")
    assert done.code == 0, done


@dataclass(frozen=True)
class Scenario:
    """A run, and a command for it. `writes` is how many requests of the command change something.

    `is_stopped`: the run is stopped first.
    """

    make: Callable[[Served, Path], None]
    command: tuple[str, ...]
    writes: int
    is_stopped: bool = False
    has_kueue: bool = False


MOVE = ("resume", "{folder}/tiny.yaml", "--tier", "on-demand")
SCENARIOS = {
    "stop a Job": Scenario(_job, ("stop", "tiny"), 1),
    "stop three Jobs": Scenario(_parts, ("stop", "tiny"), 3),
    "stop a JobSet": Scenario(_job_set, ("stop", "tiny"), 1),
    "stop a queued Job": Scenario(_queued, ("stop", "tiny"), 1, has_kueue=True),
    "stop a queued JobSet": Scenario(_queued_set, ("stop", "tiny"), 1, has_kueue=True),
    "resume a Job": Scenario(_job, ("resume", "tiny"), 1, is_stopped=True),
    "resume three Jobs": Scenario(_parts, ("resume", "tiny"), 3, is_stopped=True),
    "resume a JobSet": Scenario(_job_set, ("resume", "tiny"), 1, is_stopped=True),
    "resume a queued Job": Scenario(
        _queued, ("resume", "tiny"), 1, is_stopped=True, has_kueue=True
    ),
    "resume a queued JobSet": Scenario(
        _queued_set, ("resume", "tiny"), 1, is_stopped=True, has_kueue=True
    ),
    # The Job's change that is refused, its deletion, its creation. Two objects stay as they are.
    "move a stopped Job": Scenario(_submitted, MOVE, 3, is_stopped=True),
    "move a running Job": Scenario(_submitted, MOVE, 3),
}


@dataclass(frozen=True)
class Outcome:
    """What a command leaves behind."""

    code: int
    state: dict[str, Any]
    writes: tuple[Write, ...]


@contextmanager
def _opened(name: str) -> Iterator[tuple[Served, list[str]]]:
    """A server with the run, and the words of the command."""
    scenario = SCENARIOS[name]
    with TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "tiny.yaml").write_text(WORKLOAD)
        words = [word.format(folder=folder) for word in scenario.command]
        if scenario.command[0] == "stop":
            words += ["--journal", _saved_run(folder)]
        with served(folder, has_kueue=scenario.has_kueue) as cluster:
            cluster.api.store.restore(_beginning(scenario.make, scenario.is_stopped))
            yield cluster, words


@cache
def _beginning(make: Callable[[Served, Path], None], is_stopped: bool) -> object:
    """The objects before the command, made once: the submission of a workload takes a while."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        with served(folder, has_kueue=make in (_queued, _queued_set)) as cluster:
            make(cluster, folder)
            if is_stopped:
                done = cluster.outlast("stop", "tiny", "--journal", _saved_run(folder))
                assert done.code == 0, done
            return cluster.api.store.saved()


def _saved_run(folder: Path) -> str:
    """The journal of a run that was interrupted and has saved all its work."""
    run = three_attempts()
    run.evict(final_seconds=5)
    return write_journal(folder / "run", records_of(run))


@cache
def _undisturbed(name: str) -> Outcome:
    with _opened(name) as (cluster, words):
        done = cluster.outlast(*words)
        return Outcome(done.code, cluster.api.state(), tuple(cluster.api.writes))


def _points() -> Iterator[Any]:
    for name, scenario in SCENARIOS.items():
        for number in range(1, scenario.writes + 1):
            for is_after in (False, True):
                when = "after" if is_after else "before"
                yield pytest.param(name, number, is_after, id=f"{name}, {when} write {number}")


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_request_that_changes_something_is_a_kill_point(name: str) -> None:
    done = _undisturbed(name)

    assert len(done.writes) == SCENARIOS[name].writes
    jobs = [item for title, item in done.state.items() if title.startswith("Job ")]
    is_stop = SCENARIOS[name].command[0] == "stop"
    assert jobs and {item["spec"]["suspend"] for item in jobs} == {is_stop}


@pytest.mark.parametrize(("name", "number", "is_after"), [*_points()])
def test_killed_and_repeated_it_ends_as_if_it_had_not_been_killed(
    name: str, number: int, is_after: bool
) -> None:
    wanted = _undisturbed(name)

    with _opened(name) as (cluster, words):
        cluster.api.kill_point = point = KillPoint(number=number, is_after=is_after)
        command = [sys.executable, "-m", "outlast", *words]
        killed = subprocess.Popen(
            [*command, "--kubeconfig", str(cluster.kubeconfig)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        point.process_id = killed.pid
        point.is_known.set()
        assert killed.wait(PATIENCE_SECONDS) == -SIGKILL
        cluster.api.kill_point = None

        again = cluster.outlast(*words)

        assert (again.code, cluster.api.state()) == (wanted.code, wanted.state)


@pytest.mark.parametrize("name", [one for one in SCENARIOS if SCENARIOS[one].has_kueue])
def test_beside_kueue_suspend_is_never_written(name: str) -> None:
    done = _undisturbed(name)

    is_stop = SCENARIOS[name].command[0] == "stop"
    assert [write.body["spec"] for write in done.writes] == [{"active": not is_stop}]
    assert all("/workloads/" in write.path for write in done.writes)
