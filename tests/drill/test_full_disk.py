"""A disk with room for exactly the checkpoints that are kept: later saves replace the oldest."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.journal import CheckpointGivenUp, read_journal
from outlast.storage import open_store
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.needs("mount-namespace")

TRAINING = """
import logging, os, signal, sys
import numpy as np
import outlast
from outlast.checkpoint.saving.garbage import GarbageCollector

logging.basicConfig(format="%(message)s")
url, on_error, keep_last, kill, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
if kill:
    delete_oldest = GarbageCollector.delete_oldest

    def and_die(*arguments):
        name = delete_oldest(*arguments)
        print("gave up", name, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    GarbageCollector.delete_oldest = and_die
state = {"x": np.zeros(1_000_000), "step": 0}
chance = np.random.default_rng(0)
with outlast.Run(url, state, every_steps=1, keep_last=keep_last, on_error=on_error) as run:
    print("entered at", run.step, flush=True)
    for step in run.steps(steps):
        state["x"] += chance.random(1_000_000)
        state["step"] = step
"""
MB_PER_CHECKPOINT = 8


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """Room for two checkpoints and a bit, but not for three."""
    mount = tmp_path / "volume"
    mount.mkdir()
    size = f"size={2 * MB_PER_CHECKPOINT + 5}m"
    command = ["mount", "-t", "tmpfs", "-o", size, "none", str(mount)]
    subprocess.run(command, check=True, capture_output=True)
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


def train(
    run: Path, on_error: str, *, keep_last: int = 2, kill: bool = False, steps: int = 8
) -> subprocess.CompletedProcess[str]:
    arguments = [str(run), on_error, str(keep_last), str(int(kill)), str(steps)]
    return subprocess.run(
        [sys.executable, "-c", TRAINING, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def steps_that_verify(run: Path) -> list[int]:
    store = open_store(run)
    manifests = [read_manifest(store, name) for name in manifest_names(store)]
    assert all(verify_checkpoint(store, manifest, lambda _: None) == [] for manifest in manifests)
    return [manifest.step for manifest in manifests]


@pytest.mark.parametrize("on_error", ["raise", "warn"])
def test_a_disk_that_fits_what_is_kept_takes_every_later_save(volume: Path, on_error: str) -> None:
    done = train(volume / "run", on_error)

    assert done.returncode == 0, done.stdout
    assert steps_that_verify(volume / "run")[0] == 8
    assert "failed" not in done.stdout
    assert "the oldest checkpoint was deleted" in done.stdout
    [record] = read_journal(open_store(volume / "run"))
    given_up = [event for event in record.events if isinstance(event, CheckpointGivenUp)]
    assert len(given_up) >= 6
    assert given_up[0].checkpoint == "manifests/000000000001-000001.json"
    assert "No space left on device" in given_up[0].reason


def test_killed_after_giving_one_up_the_newest_is_still_there(volume: Path) -> None:
    run = volume / "run"
    killed = train(run, "raise", kill=True)

    assert killed.returncode == -9, killed.stdout
    assert "gave up manifests/000000000001" in killed.stdout
    assert steps_that_verify(run) == [2]
    again = train(run, "raise")
    assert "entered at 2" in again.stdout
    assert again.returncode == 0, again.stdout
    assert steps_that_verify(run)[0] == 8


def test_the_only_checkpoint_is_never_given_up(volume: Path) -> None:
    ballast = volume / "ballast"
    run = volume / "run"
    assert train(run, "raise", keep_last=1, steps=1).returncode == 0
    ballast.write_bytes(bytes(1_000_000))

    full = train(run, "raise", keep_last=1, steps=3)

    assert full.returncode == 1
    assert "entered at 1" in full.stdout
    assert "StoreFull" in full.stdout
    assert steps_that_verify(run) == [1]
