"""Several simulated nodes as real processes: what ends them when one is evicted or fails."""

import contextlib
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from outlast.drills.run import outputs
from outlast.drills.run.node import NodeEnd, await_ends, best_isolation
from outlast.drills.run.world import SimulatedWorld, SurvivorLimits
from tests.patience import PATIENCE_SECONDS, eventually

PATIENT = SurvivorLimits(after_notice_seconds=600, after_death_seconds=600, grace_seconds=600)
AT_ONCE = SurvivorLimits(after_notice_seconds=0, after_death_seconds=0, grace_seconds=600)


@contextlib.contextmanager
def world(folder: Path, *scripts: str, limits: SurvivorLimits) -> Iterator[SimulatedWorld]:
    """Each node runs its own script, and is up once it has printed a line."""
    logs = [folder / f"log-{node}" for node in range(len(scripts))]
    one = SimulatedWorld(
        ["sh", "-c", 'eval "$SCRIPT"'],
        isolation=best_isolation(),
        folder=folder,
        environs=[{**os.environ, "SCRIPT": f"{script}"} for script in scripts],
        logs=logs,
        limits=limits,
    )
    try:
        for log in logs:
            eventually(partial(outputs.has_output, log), "the node is up")
        yield one
    finally:
        one.kill()
        await_ends([one], PATIENCE_SECONDS)


def end_of(one: SimulatedWorld) -> NodeEnd:
    await_ends([one], PATIENCE_SECONDS)
    end = one.ended()
    assert end is not None
    return end


WAITS = "echo up; while :; do sleep 0.05; done"
LEAVES = f"trap 'exit 75' TERM; {WAITS}"
DEAF = f"trap '' TERM; {WAITS}"


def test_only_the_chosen_node_is_evicted_and_the_others_have_time(tmp_path: Path) -> None:
    follows = "echo up; until [ -e gone ]; do sleep 0.05; done; exit 75"
    leaves = f"trap 'touch gone; exit 75' TERM; {WAITS}"
    with world(tmp_path, follows, leaves, limits=PATIENT) as one:
        one.choose(1).terminate()
        one.expect_end(notice=True, now=time.monotonic())

        assert end_of(one).exit_code == 75
        exits = one.exits(began=0.0)
        assert [(exit.exit_code, exit.was_terminated) for exit in exits] == [(75, False)] * 2


def test_a_node_that_stays_is_terminated(tmp_path: Path) -> None:
    with world(tmp_path, LEAVES, WAITS, limits=AT_ONCE) as one:
        one.choose(1).kill()
        one.expect_end(notice=False, now=time.monotonic())

        # The exit code is that of the node that was evicted.
        assert end_of(one).exit_code == 137
        exits = one.exits(began=0.0)
        assert [(exit.exit_code, exit.was_terminated) for exit in exits] == [
            (75, True),
            (137, False),
        ]


def test_a_node_that_ignores_even_that_is_killed(tmp_path: Path) -> None:
    limits = SurvivorLimits(after_notice_seconds=0, after_death_seconds=0, grace_seconds=0.1)
    with world(tmp_path, WAITS, DEAF, limits=limits) as one:
        one.choose(0).kill()
        one.expect_end(notice=False, now=time.monotonic())

        assert end_of(one).exit_code == 137
        assert [exit.exit_code for exit in one.exits(began=0.0)] == [137, 137]


def test_a_node_that_fails_on_its_own_ends_all(tmp_path: Path) -> None:
    fails = "echo up; until [ -e go ]; do sleep 0.05; done; echo no such data set; exit 3"
    with world(tmp_path, LEAVES, fails, limits=PATIENT) as one:
        (tmp_path / "go").touch()

        assert end_of(one).exit_code == 3
        exits = one.exits(began=0.0)
        assert [exit.exit_code for exit in exits] == [75, 3]
        assert "no such data set" in exits[1].output_tail
        assert one.telling_log == tmp_path / "log-1"


def test_all_nodes_have_to_finish(tmp_path: Path) -> None:
    done = "echo up; until [ -e go ]; do sleep 0.05; done"
    with world(tmp_path, "echo up", done, limits=AT_ONCE) as one:
        # The first one has finished, and the second may take its time.
        eventually(lambda: one.ended() is None, "the second is running")
        (tmp_path / "go").touch()

        assert end_of(one).exit_code == 0
