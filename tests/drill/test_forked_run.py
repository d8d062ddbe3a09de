"""A process forked inside a run neither saves nor finishes it: only the one that entered it may."""

import json
import sys
from pathlib import Path

import pytest

from outlast.checkpoint.runs.catalog import manifest_names
from outlast.journal import AttemptExited, RunFinished, read_journal
from outlast.storage import open_store
from tests.programs import Program
from tests.servers.ports import free_port

RUN = """
import os, sys
import numpy as np
import outlast
from outlast.checkpoint.runs.catalog import manifest_names
from outlast.storage import open_store

url, act, on_error = sys.argv[1:]
child = 1
state = {"x": np.zeros(3), "n": 0}
try:
    with outlast.Run(url, state, every_steps=100, on_error=on_error) as run:
        for step in run.steps(6):
            state["n"] = step + 1
            if step == 2:
                child = os.fork()
                if child == 0 and act == "break":
                    break
                if child == 0 and act == "exit":
                    sys.exit(3)
                if child == 0 and act == "save":
                    run.save()
                if child == 0 and act == "loop again":
                    run._loops._looping = False
                    for step in run.batches([1, 2, 3]):
                        print("child went on", flush=True)
                if child:
                    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                    print("child exited", code, flush=True)
                    print("manifests", manifest_names(open_store(url)), flush=True)
            elif child == 0:
                print("child went on", flush=True)
except outlast.OutlastError as error:
    print("child raised", type(error).__name__, error, error.hint, flush=True)
    os._exit(5)
if child == 0:
    print("child is out", flush=True)
    os._exit(7)
print("parent finished", flush=True)
"""


@pytest.mark.parametrize("on_error", ["raise", "warn"])
@pytest.mark.parametrize(
    ("act", "code"), [("break", 7), ("exit", 3), ("go on", 5), ("save", 5), ("loop again", 5)]
)
def test_a_forked_child_leaves_the_run_to_its_parent(
    tmp_path: Path, act: str, code: int, on_error: str
) -> None:
    url = str(tmp_path / "run")
    env = {
        "OUTLAST_METRICS_PORT": str(free_port()),
        "OUTLAST_DRILL_HASHES": str(tmp_path / "prints"),
    }
    with Program([sys.executable, "-c", RUN, url, act, on_error], env=env) as program:
        program.wait_for(f"child exited {code}")
        program.wait_for("manifests []")
        program.wait_for("parent finished")
        assert program.wait() == 0

    if code == 5:
        assert "child raised CheckpointError This process was forked" in program.output
    assert "child went on" not in program.output
    [record] = read_journal(open_store(url))
    assert [event.step for event in record.events if isinstance(event, RunFinished)] == [6]
    assert len([event for event in record.events if isinstance(event, AttemptExited)]) == 1
    assert len(manifest_names(open_store(url))) == 1
    prints = (tmp_path / "prints").read_text().splitlines()
    steps = [json.loads(line).get("step") for line in prints]
    assert [step for step in steps if step is not None] == list(range(7))


def test_a_forked_child_can_run_what_its_parent_only_built(tmp_path: Path) -> None:
    source = """
import multiprocessing, sys
import numpy as np
import outlast

def train():
    with run:
        for step in run.steps(3):
            state["x"] += 1

state = {"x": np.zeros(3)}
run = outlast.Run(sys.argv[1], state, every_steps=1)
child = multiprocessing.get_context("fork").Process(target=train)
child.start()
child.join()
print("child exited", child.exitcode, flush=True)
"""
    url = str(tmp_path / "run")
    with Program([sys.executable, "-c", source, url]) as program:
        program.wait_for("child exited 0")

    [record] = read_journal(open_store(url))
    assert [event.step for event in record.events if isinstance(event, RunFinished)] == [3]


def test_waiting_for_a_notice_in_a_forked_child_is_refused() -> None:
    source = """
import os, outlast
with outlast.Guard() as guard:
    child = os.fork()
    if child == 0:
        try:
            guard.wait()
        except RuntimeError as error:
            print("refused:", error, flush=True)
            os._exit(5)
    print("child exited", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    with Program([sys.executable, "-c", source]) as program:
        program.wait_for("refused: This guard was opened by process")
        program.wait_for("child exited 5")
