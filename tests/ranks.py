"""Worlds of real processes that talk through a real store of torch."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.programs import Program

ROOT = Path(__file__).parent.parent

_ENVIRONMENT = {
    # More than any stalled machine takes.
    "OUTLAST_GRACE_SECONDS": "600",
    "OMP_NUM_THREADS": "1",
    # torch looks up the name of each connection, which takes 5 s where no name service answers.
    "RES_OPTIONS": "timeout:1 attempts:1",
}


class RankWorld:
    """The ranks that a program has forked, each a process. They print facts as lines of JSON."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._pids: list[int] = self._until(lambda: self._facts("pids"))[0]["pids"]

    @property
    def output(self) -> str:
        return self._program.output

    def facts(self, rank: int, key: str) -> list[dict[str, Any]]:
        """What a rank has printed about something so far."""
        return [fact for fact in self._facts(key) if fact.get("rank") == rank]

    def wait_for(self, rank: int, key: str) -> dict[str, Any]:
        """The first fact of a rank about something, once there is one."""
        return self._until(lambda: self.facts(rank, key))[0]

    def wait_until_running(self) -> None:
        for rank in range(len(self._pids)):
            self.wait_for(rank, "running")

    def code(self, rank: int) -> int:
        """The exit code of a rank, once it has ended."""
        code: int = self.wait_for(rank, "code")["code"]
        return code

    def codes(self) -> list[int]:
        return [self.code(rank) for rank in range(len(self._pids))]

    def signal(self, rank: int, number: int) -> None:
        os.kill(self._pids[rank], number)

    def _facts(self, key: str) -> list[dict[str, Any]]:
        lines = [line for line in self._program.lines if line.startswith("{")]
        return [fact for fact in map(json.loads, lines) if key in fact]

    def _until(self, find: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        while not (found := find()):
            self._program.wait_for("{")
        return found


@contextlib.contextmanager
def world_of(size: int, folder: Path, mode: str, *arguments: str) -> Iterator[RankWorld]:
    """The ranks of one world, which run `tests/faults/rank.py`."""
    command = [sys.executable, "-m", "tests.faults.rank", mode]
    options = ["--folder", str(folder), "--size", str(size), *arguments]
    with Program([*command, *options], env=_ENVIRONMENT, folder=ROOT) as program:
        yield RankWorld(program)
