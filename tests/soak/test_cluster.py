"""Rendered workloads on a real control plane, evicted in every way until they complete.

A training Job has one back-off for all its evictions: 10 s, then twice as long each time, up to ten
minutes. So the evictions are spread over several Jobs, or over the indexes of one, which have a
back-off each. The sweep and the batch take about five minutes, the training Jobs twelve. They must
not run at once on one control plane: Pods go to the Spot nodes of any of them. More is up to the
environment:

    SOAK_EVICTIONS=50    of each workload
    SOAK_RUNS=13         training Jobs to spread them over; with 1 it takes seven hours
    SOAK_SUSPENSIONS=3   of the sweep and the batch: each evicts all their Pods
    SOAK_SEED=1          in which order things happen
"""

import base64
import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.cli.app import run as run_command
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.resources import JOBS, Object, Resource
from outlast.cluster.submitting.state import ending_of
from outlast.journal.derive import summarize
from outlast.journal.reader import read_journal
from outlast.storage import open_store
from tests.programs import Program
from tests.programs import outlast as outlast_program
from tests.servers.control_plane import ControlPlane
from tests.servers.live_run import LiveRun, live_run
from tests.servers.node_agent import SECRETS
from tests.servers.postgres import running_postgres
from tests.soak.spot_pool import SUSPEND, WAYS, SpotPool, Target, Way, spot_pool, until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(8 * 3600),
    pytest.mark.needs("control-plane"),
]

EVICTIONS = int(os.environ.get("SOAK_EVICTIONS", "50"))
RUNS = int(os.environ.get("SOAK_RUNS", "13"))
SUSPENSIONS = int(os.environ.get("SOAK_SUSPENSIONS", "3"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
FAILURES = "batch.kubernetes.io/job-index-failure-count"
STEPS = 10_000
ITEMS = 8_000
VOLUMES = Resource(
    api_version="v1", kind="PersistentVolume", plural="persistentvolumes", is_namespaced=False
)

# Slow until it may finish, so that there is something to evict.
TRAIN = f"""
import os, sys, time
from pathlib import Path
import numpy as np
import outlast

finish, results = Path(sys.argv[1]), Path(sys.argv[2])
index = os.environ.get("JOB_COMPLETION_INDEX", "0")
rng = np.random.default_rng(int(index))
state = {{"weights": np.zeros(64), "rng": rng}}
with outlast.Run(os.environ["OUTLAST_RUN_URL"] + "/" + index, state, every_steps=100) as run:
    print(f"starting at step {{run.step}}", flush=True)
    for step in run.steps({STEPS}):
        state["weights"] += rng.normal(size=64)
        if not finish.exists():
            time.sleep(0.2)
(results / index).write_text(state["weights"].tobytes().hex())
"""
COUNT = """
import os, time

def count(item):
    if not os.path.exists(os.environ["FINISH"]):
        time.sleep(2)
    return {"square": item["number"] ** 2}
"""


@pytest.fixture
def run(control_plane: ControlPlane, admin: ClusterClient, namespace: str) -> Iterator[LiveRun]:
    with live_run(control_plane, admin, namespace) as live:
        yield live


class Evictions:
    """What was done to each target, in order."""

    def __init__(self, pool: SpotPool, started: str) -> None:
        self.pool = pool
        self._started = started
        self._lock = threading.Lock()
        self.done: dict[Target, list[Way]] = {}
        self.began = time.monotonic()

    @property
    def total(self) -> int:
        return sum(map(len, self.done.values()))

    def evict(self, target: Target, way: Way) -> None:
        agent, pod = self.running(target)
        way.act(self.pool, target, agent, pod)
        self.check(target, way, pod)
        way.tidy(self.pool, target, agent)

    def running(self, target: Target) -> Any:
        """Wait until the target's program runs and hears signals. Its node and Pod."""
        until(lambda: self._has_started(target), f"{target.key} runs")
        return self.pool.find(target)

    def _has_started(self, target: Target) -> bool:
        found = self.pool.find(target)
        return found is not None and self._started in found[0].log_of(found[1])

    def check(self, target: Target, way: Way, pod: str) -> None:
        """The diagnosis must say exactly this of the Pod."""
        observer = self.pool.run.observer
        until(lambda: pod in {one.pod.name for one in observer.endings()}, f"{pod} is seen to end")
        [ending] = [one for one in observer.endings() if one.pod.name == pod]
        assert ending.diagnosis.cause in way.causes, (way.name, ending.diagnosis)
        assert ending.is_counted is way.is_counted, (way.name, ending.diagnosis)
        with self._lock:
            self.done.setdefault(target, []).append(way)
        print(f"{time.monotonic() - self.began:6.0f} s {target.key}: {way.name}", flush=True)


def _spread(targets: list[Target], ways: tuple[Way, ...], count: int) -> dict[Target, list[Way]]:
    """So many evictions over the targets, each way about as often as any other."""
    chance = random.Random(SEED)
    plan: dict[Target, list[Way]] = {target: [] for target in targets}
    stock: list[Way] = []
    for number in range(count):
        if not stock:
            stock = chance.sample(ways, len(ways))
        plan[targets[number % len(targets)]].append(stock.pop())
    return plan


def _evict_all(evictions: Evictions, plan: dict[Target, list[Way]]) -> None:
    """Each target in a thread of its own: evict, wait for the next Pod, and again."""

    def work(target: Target) -> None:
        for way in plan[target]:
            evictions.evict(target, way)
        evictions.running(target)

    with ThreadPoolExecutor(len(plan)) as threads:
        for future in [threads.submit(work, target) for target in plan]:
            future.result()


def _submit(run: LiveRun, folder: Path, workload: str) -> None:
    path = folder / f"workload-{len(list(folder.iterdir()))}.yaml"
    path.write_text(workload)
    kubeconfig = run.plane.kubeconfig(folder / "kubeconfig", namespace=run.namespace)
    words = ["submit", str(path), "--setup", "--kubeconfig", str(kubeconfig)]
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run_command(words)
    assert code == 0, (out.getvalue(), err.getvalue())


def _make_volume(run: LiveRun, claim: str, folder: Path, kind: str = "standard-rwo") -> None:
    """For the claim that is rendered: a folder of this machine, which Pods see at the same path."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{run.namespace}-{claim}"},
        "spec": {
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "storageClassName": kind,
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": run.namespace, "name": claim},
        },
    }
    run.admin.apply(VOLUMES, volume)


def _finished(run: LiveRun, job: str) -> Object:
    """Wait until a Job ends. It must be Complete."""

    def ended() -> Object | None:
        found = run.admin.get(JOBS, job, run.namespace) or {}
        return found if ending_of(found) else None

    until(ended, f"Job {job} ends")
    found = ended()
    assert found is not None
    ending = ending_of(found)
    assert ending is not None and ending.is_success, ending
    return found


def _expected(folder: Path, program: Path, index: str) -> str:
    """The result of a run that nobody disturbs."""
    alone = folder / "alone"
    alone.mkdir(exist_ok=True)
    environ = {**os.environ, "OUTLAST_RUN_URL": str(alone / "run"), "JOB_COMPLETION_INDEX": index}
    command = [sys.executable, str(program), str(folder), str(alone)]
    subprocess.run(command, env=environ, check=True, capture_output=True)
    return (alone / index).read_text()


def _counted(ways: list[Way]) -> int:
    """How many failures the Job must count: a refused Pod follows the one that was deleted."""
    return sum(way.is_counted or "refused" in way.name for way in ways)


def _check_indexes(run: LiveRun, job: Object, evictions: Evictions) -> None:
    """Each index has spent exactly its failures, and nothing on evictions that are marked."""
    assert job["status"].get("failedIndexes", "") == ""
    spent = {
        target: int(pod["metadata"]["annotations"][FAILURES])
        for target in evictions.done
        for pod in run.pods()
        if target.owns(pod) and pod["status"]["phase"] == "Succeeded"
    }
    failures = {target: _counted(ways) for target, ways in evictions.done.items()}
    print(f"retries spent: {sum(spent.values())} on {sum(failures.values())} failures")
    assert spent == failures
    assert job["status"].get("failed", 0) == sum(failures.values())


def _report(evictions: Evictions) -> None:
    ways = Counter(way.name for done in evictions.done.values() for way in done)
    print(f"{evictions.total} evictions in {time.monotonic() - evictions.began:.0f} s: {ways}")


@contextlib.contextmanager
def _watching(run: LiveRun, folder: Path, *words: str) -> Iterator[Program]:
    """`outlast watch` in a process of its own, from now until the run has ended."""
    kubeconfig = run.plane.kubeconfig(folder / "kubeconfig", namespace=run.namespace)
    with outlast_program(
        "watch", *words, "--format", "json", "--kubeconfig", str(kubeconfig)
    ) as watch:
        watch.wait_for('"version"')
        yield watch


def _watched(run: LiveRun, folder: Path, *words: str) -> dict[str, Any]:
    """What `outlast watch --once` shows."""
    kubeconfig = run.plane.kubeconfig(folder / "kubeconfig", namespace=run.namespace)
    command = ["watch", *words, "--once", "--format", "json", "--kubeconfig", str(kubeconfig)]
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run_command(command)
    assert code == 0, err.getvalue()
    found = json.loads(out.getvalue())
    assert isinstance(found, dict)
    return found


def _last_view(watch: Program) -> dict[str, Any]:
    assert watch.wait() == 0, watch.output
    found = json.loads(watch.lines[-1])
    assert isinstance(found, dict)
    assert (found["state"], found["alarms"]) == ("finished", []), found
    return found


def _check_count(found: dict[str, Any], evictions: int) -> None:
    """`outlast watch` counts as the journals do."""
    progress = found["progress"]
    print(
        f"watch: {progress['evictions']} of {evictions} evictions, {progress['attempts']} attempts"
    )
    assert progress["is_finished"]
    assert progress["evictions"] == evictions
    assert progress["evictions_missed"] == progress["failures"] == 0


def _check_causes(found: dict[str, Any], evictions: Evictions) -> None:
    """`outlast watch` has seen how each Pod ended."""
    # Of a Job that is no longer suspended, it is not visible why a Pod was deleted.
    causes = {SUSPEND: "E23"}
    ways = [way for done in evictions.done.values() for way in done]
    expected = Counter(causes.get(way, way.causes[0]) for way in ways)
    expected["E11"] = sum("refused" in way.name for way in ways)
    expected["E22"] = len(evictions.done)
    assert Counter(one["cause"] for one in found["attempts"]) == +expected


def _check_journal(url: Path, ways: list[Way]) -> None:
    """Every eviction is one attempt that did not finish, and the journal knows how it ended."""
    summary = summarize(read_journal(open_store(str(url))), is_live=False)
    killed = sum(way.name in KILLS for way in ways)
    assert summary.finished
    assert len(summary.attempts) == 1 + len(ways)
    assert summary.interruptions_unannounced == killed
    assert summary.interruptions_announced == len(ways) - killed
    assert summary.failures == summary.interruptions_missed == 0


KILLS = (
    "SIGKILL",
    "node gone, Node deleted",
    "node gone, Node stays",
    "node back under its name",
)

WORKLOAD = """
name: {name}
kind: {kind}
namespace: {namespace}
image: example.com/train:1
command: {command}
machine: e2-standard-8
tier: spot
"""


def test_training_jobs(
    control_plane: ControlPlane, admin: ClusterClient, run: LiveRun, tmp_path: Path
) -> None:
    program, finish = tmp_path / "train.py", tmp_path / "finish"
    program.write_text(TRAIN)
    targets = [Target(f"train-{number}") for number in range(RUNS)]
    with spot_pool(control_plane, admin, run, RUNS + 2, overrides=HERE) as pool:
        for target in targets:
            home = tmp_path / target.job
            (home / "runs").mkdir(parents=True)
            _make_volume(run, f"{target.job}-checkpoints", home / "runs")
            command = [sys.executable, str(program), str(finish), str(home)]
            workload = WORKLOAD.format(
                name=target.job, kind="training", namespace=run.namespace, command=command
            )
            rest = f"work: {{hours: 5}}\ncheckpoint: {{url: 'file://{home}/runs', size: 1GiB}}\n"
            _submit(run, tmp_path, workload + rest)
        evictions = Evictions(pool, "starting at step")
        _evict_all(evictions, _spread(targets, (*WAYS, SUSPEND), EVICTIONS))
        finish.touch()
        expected = _expected(tmp_path, program, "0")
        for target in targets:
            done = evictions.done[target]
            job = _finished(run, target.job)
            assert job["status"].get("failed", 0) == _counted(done), target
            assert (tmp_path / target.job / "0").read_text() == expected, target
            journal = tmp_path / target.job / "runs" / "0"
            _check_journal(journal, done)
            _check_count(_watched(run, tmp_path, target.job, "--journal", str(journal)), len(done))
    _report(evictions)


def test_a_sweep(
    control_plane: ControlPlane, admin: ClusterClient, run: LiveRun, tmp_path: Path
) -> None:
    program, finish, results = tmp_path / "train.py", tmp_path / "finish", tmp_path / "results"
    program.write_text(TRAIN)
    runs = tmp_path / "runs"
    runs.mkdir()
    results.mkdir()
    trials = 10
    targets = [Target("sweep", str(index)) for index in range(trials)]
    with spot_pool(control_plane, admin, run, trials + 2, overrides=HERE) as pool:
        _make_volume(run, "sweep-checkpoints", runs, "standard-rwx")
        command = [sys.executable, str(program), str(finish), str(results)]
        workload = WORKLOAD.format(
            name="sweep", kind="sweep", namespace=run.namespace, command=command
        )
        rest = f"""
parallelism: {trials}
work: {{items: {trials}, seconds_per_item: 10}}
checkpoint: {{url: 'file://{runs}', size: 1GiB}}
storage: {{access: ReadWriteMany}}
"""
        _submit(run, tmp_path, workload + rest)
        evictions = Evictions(pool, "starting at step")
        with _watching(run, tmp_path, "sweep", "--journal", str(runs)) as watch:
            _suspend_all(evictions, targets)
            _evict_all(evictions, _spread(targets, WAYS, EVICTIONS - evictions.total))
            finish.touch()
            _check_indexes(run, _finished(run, "sweep"), evictions)
            found = _last_view(watch)
        _check_count(found, evictions.total)
        _check_causes(found, evictions)
        for target in targets:
            result = (results / target.index).read_text()
            assert result == _expected(tmp_path, program, target.index), target
            # The rendered URL has the trial, and the program adds its index.
            _check_journal(runs / target.index / target.index, evictions.done[target])
    _report(evictions)


def _suspend_all(evictions: Evictions, targets: list[Target]) -> None:
    """Suspend and resume a Job with many Pods several times: all of them must end with it."""
    first = targets[0]
    for _ in range(SUSPENSIONS):
        pods = {target: evictions.running(target) for target in targets}
        SUSPEND.act(evictions.pool, first, *pods[first])
        for target, (_, pod) in pods.items():
            evictions.check(target, SUSPEND, pod)
        SUSPEND.tidy(evictions.pool, first, pods[first][0])


def test_a_batch_with_eight_workers(
    control_plane: ControlPlane, admin: ClusterClient, run: LiveRun, tmp_path: Path
) -> None:
    finish, workers = tmp_path / "finish", 8
    (tmp_path / "squares.py").write_text(COUNT)
    targets = [Target("batch", str(index)) for index in range(workers)]
    here = {**HERE, "PYTHONPATH": str(tmp_path), "FINISH": str(finish)}
    with (
        running_postgres() as server,
        spot_pool(control_plane, admin, run, workers + 2, overrides=here) as pool,
    ):
        url = server.new_database()
        outlast.publish(url, {f"item-{n}": {"number": n} for n in range(ITEMS)})
        _make_secret(run, url)
        command = [sys.executable, "-m", "outlast", "work", "squares:count", "--chunk", "4"]
        workload = WORKLOAD.format(
            name="batch", kind="batch-inference", namespace=run.namespace, command=command
        )
        rest = f"""
parallelism: {workers}
work: {{items: {ITEMS}, seconds_per_item: 2}}
queue: {{secret: queue/url}}
sink: {{secret: queue/url}}
"""
        _submit(run, tmp_path, workload + rest)
        evictions = Evictions(pool, "started")
        with _watching(run, tmp_path, "batch") as watch:
            _suspend_all(evictions, targets)
            _evict_all(evictions, _spread(targets, WAYS, EVICTIONS - evictions.total))
            finish.touch()
            _check_indexes(run, _finished(run, "batch"), evictions)
            # Workers have no journal, so it counts their Pods.
            _check_causes(_last_view(watch), evictions)
        with contextlib.closing(outlast.open_sink(url)) as sink:
            found = {one.key: one.payload for one in sink.results()}
    assert found == {f"item-{n}": f'{{"square":{n * n}}}' for n in range(ITEMS)}
    _report(evictions)


def _make_secret(run: LiveRun, url: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "queue", "namespace": run.namespace},
        "data": {"url": base64.b64encode(url.encode()).decode()},
    }
    run.admin.apply(SECRETS, secret)


HERE = {"OUTLAST_METRICS_PORT": "", "HOME": "/tmp"}
"""All Pods share one machine here, so none of them may have the metrics port."""
