"""Runs in real processes that may take only so much memory, as `ulimit -v` sets it."""

import sys
from pathlib import Path

import pytest

from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.journal import SaveFailed, read_journal
from outlast.storage import open_store
from tests.programs import Program

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps these limits"),
]

LIMITED = """
import resource, sys, threading
import numpy as np
import outlast

KINDS = {"AS": ("VmSize", resource.RLIMIT_AS), "DATA": ("VmData", resource.RLIMIT_DATA)}

def leave_only(size_bytes, kind="AS"):
    '''Let this process take only so much more memory.'''
    name, number = KINDS[kind]
    [line] = [line for line in open("/proc/self/status") if line.startswith(name)]
    limit = int(line.split()[1]) * 1024 + size_bytes
    resource.setrlimit(number, (limit, resource.RLIM_INFINITY))

def unlimited():
    for _, number in KINDS.values():
        resource.setrlimit(number, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

url, on_error, kind = sys.argv[1:4]
"""

IN_WAVES = """
state = {f"a{number}": np.full(2_000_000, float(number)) for number in range(12)}
leave_only(150_000_000, kind)
with outlast.Run(url, state, every_steps=1, on_error=on_error) as run:
    for step in run.steps(3):
        for array in state.values():
            array += 1
print("finished", flush=True)
"""

ONE_ARRAY = """
state = {"x": np.zeros(25_000_000), "n": 0}
with outlast.Run(url, state, every_steps=1, on_error=on_error) as run:
    for step in run.steps(4):
        state["n"] = step
        if step == 0:
            # What was taken ahead is given up, as if the limit had been there from the start.
            run._session.saver.wait()
            run._session.saver._staging.stop_warming()
            run._session.saver._staging.buffer.close()
            run._session.saver._staging.buffer.__init__()
            leave_only(100_000_000, kind)
        if step == 2:
            unlimited()
print("finished", flush=True)
"""

NO_THREAD = """
state = {"x": np.zeros(1000), "n": 0}
with outlast.Run(url, state, every_steps=1, on_error=on_error) as run:
    for step in run.steps(4):
        state["n"] = step
        if step == 0:
            run._session.saver.wait()
            run._session.saver._staging.stop_warming()
            # The next thread would need more than there is.
            threading.stack_size(512 * 1024**2)
            leave_only(64 * 1024**2, kind)
        if step == 2:
            unlimited()
print("finished", flush=True)
"""

NO_SLACK = """
state = {"x": np.zeros(7_500_000), "n": 0}
with outlast.Run(url, state, every_steps=2, on_error=on_error) as run:
    for step in run.steps(8):
        state["n"] = step
        if step == 0:
            leave_only(0, kind)
        if step == 4:
            unlimited()
print("finished", flush=True)
"""

without_memory = pytest.mark.parametrize(
    "source", [ONE_ARRAY, NO_THREAD, NO_SLACK], ids=["memory", "threads", "no-slack"]
)


def limited(source: str, tmp_path: Path, on_error: str, kind: str) -> Program:
    command = [sys.executable, "-c", LIMITED + source, str(tmp_path / "run"), on_error, kind]
    # Otherwise the C library takes address space for each thread, as long as there is any.
    return Program(command, env={"MALLOC_ARENA_MAX": "1"})


def steps_saved(tmp_path: Path) -> list[int]:
    store = open_store(str(tmp_path / "run"))
    manifests = [read_manifest(store, name) for name in manifest_names(store)]
    for manifest in manifests:
        assert verify_checkpoint(store, manifest, lambda _: None) == []
    return [manifest.step for manifest in manifests]


@pytest.mark.parametrize("kind", ["AS", "DATA"])
def test_a_copy_that_the_limit_does_not_allow_is_made_in_waves(tmp_path: Path, kind: str) -> None:
    with limited(IN_WAVES, tmp_path, "raise", kind) as program:
        assert program.wait() == 0, program.output
        assert "Saving in parts" in program.output

    assert steps_saved(tmp_path)[0] == 3


@without_memory
def test_a_save_for_which_there_is_no_memory_is_an_error_of_ours(
    tmp_path: Path, source: str
) -> None:
    with limited(source, tmp_path, "raise", "AS") as program:
        assert program.wait() == 1
        assert "CheckpointError: There is not enough memory to save" in program.output
        assert "hint: Raise the memory limit" in program.output
        assert "finished" not in program.output


@without_memory
def test_with_on_error_warn_the_loop_goes_on_and_later_saves_succeed(
    tmp_path: Path, source: str
) -> None:
    with limited(source, tmp_path, "warn", "AS") as program:
        assert program.wait() == 0, program.output
        assert (
            "earlier checkpoints are intact. There is not enough memory to save" in program.output
        )

    assert steps_saved(tmp_path)[0] == (8 if source is NO_SLACK else 4)
    [record] = read_journal(open_store(str(tmp_path / "run")))
    assert any(isinstance(event, SaveFailed) for event in record.events)
