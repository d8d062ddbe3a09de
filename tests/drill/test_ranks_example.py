"""The example of a training on several ranks: evicted, resumed, and the same bits."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import open_store
from tests.programs import Program

EXAMPLE = Path(__file__).parent.parent.parent / "examples/ranks/train.py"
STEPS = 41


@contextlib.contextmanager
def torchrun(folder: Path) -> Iterator[Program]:
    """The example on two ranks. torchrun starts each in a session of its own."""
    folder.mkdir(exist_ok=True)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    # Long enough for any stall of a busy machine.
    patience = {"OUTLAST_GRACE_SECONDS": "600", "OUTLAST_LOST_SECONDS": "300"}
    program = Program(
        [*launcher, str(EXAMPLE), str(folder), f"--steps={STEPS}", "--sharded"],
        env={"OMP_NUM_THREADS": "1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "600", **patience},
    )
    with program:
        try:
            yield program
        finally:
            for pid in _children_of(program.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _children_of(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def weights(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "model.npz") as found:
        return {name: found[name].tobytes() for name in found.files}


def first_steps(program: Program) -> set[int]:
    return {int(line.split()[-1]) for line in program.lines if "starts at step" in line}


@pytest.mark.needs("torch")
def test_the_example_is_evicted_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    calm, evicted = tmp_path / "calm", tmp_path / "evicted"
    with torchrun(calm) as program:
        assert program.wait() == 0, program.output

    with torchrun(evicted) as program:
        program.wait_for("step 0 loss")
        program.signal(signal.SIGTERM)
        # torchrun's own code; `outlast exec` looks past it.
        assert program.wait() == 1, program.output
        assert not (evicted / "model.npz").exists()
    store = open_store(evicted / "run")
    saved = read_manifest(store, manifest_names(store)[0])
    assert 0 < saved.step < STEPS
    assert saved.world_size == 2
    assert verify_checkpoint(store, saved) == []

    with torchrun(evicted) as program:
        assert program.wait() == 0, program.output
        assert first_steps(program) == {saved.step}
    assert weights(evicted) == weights(calm)
