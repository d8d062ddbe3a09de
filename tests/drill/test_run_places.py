"""Runs are killed and resumed wherever they are kept, and whatever their store does."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.checkpoint.format.manifest import order_of
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import open_store
from tests.patience import PATIENCE_SECONDS
from tests.servers.faults import breaking, forgetting_each, in_turn, stumbling
from tests.servers.moto import BUCKET
from tests.servers.places import fuse_mount, object_store_environ

TRAINING = """
import os, sys, time, logging, hashlib
import numpy as np
import outlast

logging.basicConfig()
url, result, pause, gate = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
np.random.seed(1)
state = {"weights": np.zeros(60_000), "frozen": np.arange(30_000.0), "step": 0}
with outlast.Run(url, state, every_steps=3, keep_last=2, grace_seconds=600) as run:
    print("entered at", run.step, flush=True)
    for step in run.steps(30):
        while not os.path.exists(gate):
            time.sleep(0.01)
        state["weights"] += np.random.rand(60_000)
        state["step"] = step
        time.sleep(pause)
with open(result, "w") as file:
    file.write(hashlib.sha256(state["weights"].tobytes()).hexdigest())
"""


def train(
    url: str, result: Path, *, pause: float = 0.02, gate: Path = Path("/")
) -> subprocess.Popen[str]:
    """A run that makes its steps once `gate` exists."""
    return subprocess.Popen(
        [sys.executable, "-c", TRAINING, url, str(result), str(pause), str(gate)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OUTLAST_EXIT_CODE": "75"},
    )


def finish(url: str, result: Path) -> str:
    """Let a run come to its end, and say what it ended with."""
    finished(url, result)
    return result.read_text()


def finished(url: str, result: Path) -> str:
    """Let a run come to its end, and return what it printed."""
    process = train(url, result, pause=0)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("undisturbed")
    return finish(str(folder / "run"), folder / "result")


@pytest.fixture(params=["s3", "gs", pytest.param("fuse", marks=pytest.mark.needs("fuse"))])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of a run that is there for this test only."""
    if request.param == "fuse":
        with fuse_mount(tmp_path) as mount:
            yield str(mount / "run")
        return
    server = request.getfixturevalue("s3_server" if request.param == "s3" else "gcs_server")
    for name, value in object_store_environ(request.param, server).items():
        monkeypatch.setenv(name, value)
    yield f"{request.param}://{BUCKET}/{uuid.uuid4().hex}/run"


def test_a_run_is_killed_anywhere_and_ends_bit_identical(
    place: str, tmp_path: Path, undisturbed: str
) -> None:
    chance = random.Random(11)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        process = train(place, tmp_path / "result")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.7, 1.4))
        process.send_signal(number)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode in (-number, 75, 0), output
        store = open_store(place)
        for name in manifest_names(store):
            assert verify_checkpoint(store, read_manifest(store, name), lambda _: None) == []

    assert finish(place, tmp_path / "result") == undisturbed


def test_a_storm_of_503_is_sat_out(
    s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: str
) -> None:
    with stumbling(s3_server, every=3) as server:
        for name, value in object_store_environ("s3", server).items():
            monkeypatch.setenv(name, value)
        url = f"s3://{BUCKET}/{uuid.uuid4().hex}/run"

        output = finished(url, tmp_path / "result")

        assert (tmp_path / "result").read_text() == undisturbed
        steps = [order[1] for name in manifest_names(open_store(url)) if (order := order_of(name))]
        assert steps[:2] == [30, 30]
        # More stay only if deleting them failed as often as it may be tried, which is reported.
        assert len(steps) == 2 or "Old checkpoints could not be deleted" in output


def test_503_after_a_write_that_was_kept_is_no_failure(
    s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: str
) -> None:
    with forgetting_each(s3_server) as server:
        for name, value in object_store_environ("s3", server).items():
            monkeypatch.setenv(name, value)
        url = f"s3://{BUCKET}/{uuid.uuid4().hex}/run"

        assert finish(url, tmp_path / "result") == undisturbed


def test_broken_connections_are_sat_out_with_default_settings(
    s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: str
) -> None:
    with breaking(s3_server, in_turn(9)) as (server, breaker):
        for name, value in object_store_environ("s3", server).items():
            monkeypatch.setenv(name, value)
        url = f"s3://{BUCKET}/{uuid.uuid4().hex}/run"

        # The second time it only reads what the first has saved.
        for _ in range(2):
            assert finish(url, tmp_path / "result") == undisturbed

    assert breaker.broken.keys() >= {"write", "read", "list", "delete"}


def test_a_second_process_fences_the_first_and_nothing_is_mixed(
    tmp_path: Path, undisturbed: str
) -> None:
    url = str(tmp_path / "run")
    stale = train(url, tmp_path / "stale", pause=0, gate=tmp_path / "gate")
    assert stale.stdout is not None
    assert stale.stdout.readline().startswith("entered at 0")

    fresh = train(url, tmp_path / "fresh", pause=0)
    assert fresh.stdout is not None
    assert fresh.stdout.readline().startswith("entered at 0")
    (tmp_path / "gate").touch()
    stale_output, _ = stale.communicate(timeout=PATIENCE_SECONDS)
    fresh_output, _ = fresh.communicate(timeout=PATIENCE_SECONDS)

    assert stale.returncode == 1, stale_output
    assert "Fenced" in stale_output
    assert not (tmp_path / "stale").exists()
    assert fresh.returncode == 0, fresh_output
    assert (tmp_path / "fresh").read_text() == undisturbed


@pytest.mark.needs("mount-namespace")
def test_a_small_shared_memory_is_no_obstacle(tmp_path: Path) -> None:
    program = (
        "import numpy as np, outlast, sys\n"
        "state = {'x': np.ones(16_000_000)}\n"
        "with outlast.Run(sys.argv[1], state, every_steps=1) as run:\n"
        "    for step in run.steps(2): state['x'] += 1\n"
        "print('finished', state['x'][0])\n"
    )
    url = str(tmp_path / "run")
    script = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"'

    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", program, url],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert done.stdout == "finished 3.0\n", done.stderr
