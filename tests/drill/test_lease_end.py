"""At the end of its node's lease a process saves, and stays until the node goes."""

import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outlast.interruption.node import ANNOTATION, SERVICE_ACCOUNT
from outlast.journal import Ending, NoticeArrived, read_journal, summarize
from outlast.storage import open_store
from tests.programs import Program
from tests.stubs.kubernetes import ApiServer, node_with

TRAINING = """
import logging, sys, time
import numpy as np
import outlast

logging.basicConfig(level=logging.INFO, stream=sys.stdout)
state = {"x": np.zeros(3)}
with outlast.Run(sys.argv[1], state, grace_seconds=600) as run:
    print("at step", run.step, flush=True)
    for step in run.steps(int(sys.argv[2])):
        state["x"] += 1
        time.sleep(0.005)
print("finished", flush=True)
"""
FOREVER = "1000000"
# Longer than the grace period by a little, so that on most machines some steps come first.
LEASE_SECONDS = 603.0
WAITING = "waiting for the node to be shut down"


def train(
    folder: Path, steps: str = FOREVER, supervisor: Sequence[str] = (), **env: str
) -> Program:
    pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "OUTLAST_STAY_UNTIL_SHUTDOWN": "1"}
    command = [*supervisor, sys.executable, "-c", TRAINING, str(folder), steps]
    return Program(command, env={**pod, **env})


def expiring(*, seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize(
    "supervisor", [(), (sys.executable, "-m", "outlast", "exec", "--")], ids=["alone", "exec"]
)
def test_a_pod_that_has_saved_waits_for_the_shutdown_of_its_node(
    tmp_path: Path, supervisor: tuple[str, ...]
) -> None:
    with train(
        tmp_path, supervisor=supervisor, OUTLAST_EXPIRES_AT=expiring(seconds=LEASE_SECONDS)
    ) as program:
        program.wait_for(WAITING)

        # All of it is durable already, in case the node goes without a signal.
        [record] = read_journal(open_store(str(tmp_path)))
        [attempt] = summarize([record]).attempts
        assert attempt.ending is Ending.ANNOUNCED
        assert attempt.kept_all
        assert [e.source for e in record.events if isinstance(e, NoticeArrived)] == ["expiry"]
        os.kill(program.pid, signal.SIGTERM)

        assert program.wait() == 75


@pytest.mark.needs("openssl", "mount-namespace")
def test_the_clock_of_the_node_is_followed(tmp_path: Path) -> None:
    mounted = f"mount -t tmpfs none /run && mkdir -p {SERVICE_ACCOUNT} && cp $0/* {SERVICE_ACCOUNT}"
    in_a_pod = ["unshare", "--mount", "sh", "-c", f'{mounted} && exec "$@"', str(tmp_path)]
    with ApiServer(tmp_path) as api:
        api.answers = [(200, node_with({ANNOTATION: expiring(seconds=LEASE_SECONDS)}))]
        env = {
            "OUTLAST_NODE_NAME": "gke-flex-1",
            "OUTLAST_STAY_UNTIL_SHUTDOWN": "1",
            **api.environ,
        }
        command = [*in_a_pod, sys.executable, "-c", TRAINING, str(tmp_path / "run"), FOREVER]
        with Program(command, env=env) as program:
            program.wait_for(WAITING)
            os.kill(program.pid, signal.SIGTERM)

            assert program.wait() == 75


def test_finished_work_does_not_wait_for_anything(tmp_path: Path) -> None:
    with train(tmp_path, "3", OUTLAST_EXPIRES_AT=expiring(seconds=3000)) as program:
        program.wait_for("finished")

        assert program.wait() == 0
        assert WAITING not in program.output


@pytest.mark.parametrize(
    "env",
    [
        {"OUTLAST_STAY_UNTIL_SHUTDOWN": "0", "OUTLAST_EXPIRES_AT": "soon"},
        # A signal says that the node is going already.
        {"OUTLAST_EXPIRES_AT": "later"},
    ],
    ids=["not-asked-to", "after-a-signal"],
)
def test_otherwise_the_process_exits_at_once(tmp_path: Path, env: dict[str, str]) -> None:
    seconds = {"soon": LEASE_SECONDS, "later": 3000.0}[env["OUTLAST_EXPIRES_AT"]]
    with train(tmp_path, **{**env, "OUTLAST_EXPIRES_AT": expiring(seconds=seconds)}) as program:
        program.wait_for("at step")
        if seconds > LEASE_SECONDS:
            os.kill(program.pid, signal.SIGTERM)

        assert program.wait() == 75
        assert WAITING not in program.output


def test_a_process_that_is_killed_while_it_waits_has_lost_nothing(tmp_path: Path) -> None:
    with train(tmp_path, OUTLAST_EXPIRES_AT=expiring(seconds=LEASE_SECONDS)) as program:
        program.wait_for(WAITING)
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
    with train(tmp_path, FOREVER) as program:
        program.wait_for("at step")
        os.kill(program.pid, signal.SIGTERM)
        assert program.wait() == 75

    first, second = summarize(read_journal(open_store(str(tmp_path)))).attempts
    assert (first.ending, first.steps_lost) == (Ending.ANNOUNCED, 0)
    assert second.first_step == first.last_step
