"""Trainings of several ranks, killed again and again until they finish, from one fork server.

Every life is a world of real processes. It must end: whoever is not killed exits with 75, or with
0 if the training is finished. Afterwards every checkpoint reads back, and the training that was
killed many times ends with the same bits as the one that never was.
"""

import contextlib
import json
import random
import select
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from outlast.checkpoint.format.root import RootManifest, read_part
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import open_store
from tests.faults.kill_points import ANY_RANK, JOIN, RANK_0, Kill
from tests.frameworks.forking import ForkedProgram, ForkServer, fork_server

PROGRAM = Path(__file__).parent / "faults" / "rank_training.py"
STEPS = 8
KINDS = ("ddp", "fsdp")
STORE = -1
"""The rank of a process that only holds the store, as the agent of torchrun does."""
# Detects hangs: no machine that works comes near it.
_LIFE_SECONDS_MAX = 240.0
_ENVIRONMENT = {
    "IS_FORKED": "1",
    "OUTLAST_GRACE_SECONDS": "600",
    # As short as a busy machine allows: until then, nobody misses a rank that dies while it starts.
    "OUTLAST_LOST_SECONDS": "10",
    "OUTLAST_JOIN_SECONDS": "15",
    # torch looks up the name of each connection, which takes 5 s where no name service answers.
    "RES_OPTIONS": "timeout:1 attempts:1",
}
# Points that a life passes once.
_ONCE = {JOIN, "start", "attempt", "resume"}
_NUMBER_MAX = 4


@contextlib.contextmanager
def killing_ground() -> Iterator["KillingGround"]:
    """Where lives are started."""
    # Everything that a rank would import itself: the first is what torch imports when it trains.
    with fork_server("torch._dynamo", "outlast.run.run", "tests.faults.rank_training") as server:
        yield KillingGround(server)


class KillingGround:
    """Starts lives, from any thread, and counts how they ended."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._calm: dict[tuple[str, int], list[str]] = {}
        self.kills: Counter[str] = Counter()
        """How many ranks were killed, by kind of training and number of ranks."""
        self.points: Counter[str] = Counter()
        """How many ranks were killed at which point."""
        self.lives = 0
        self.finished = 0

    @property
    def total(self) -> int:
        return sum(self.kills.values())

    def passed(self, point: str) -> int:
        """How many ranks were killed right before, right after or within a point."""
        return sum(count for where, count in self.points.items() if where.endswith(f" {point}"))

    def expected(self, kind: str, size: int, folder: Path) -> list[str]:
        """What each rank computes if none is ever killed."""
        key = kind, size
        if key not in self._calm:
            life = self.live(kind, size, folder / f"calm-{kind}-{size}", {})
            assert life.codes == [0] * size, life.text()
            self._calm[key] = life.results()
        return self._calm[key]

    def live(
        self,
        kind: str,
        size: int,
        folder: Path,
        options: dict[str, Any],
        environ: Mapping[str, str] | None = None,
    ) -> "Life":
        """One world, from its start until every process has ended."""
        folder.mkdir(exist_ok=True, parents=True)
        number = str(len(list(folder.glob("port-*"))))
        options = {"life": number, "steps": STEPS, "every_steps": 1, **options}
        ranks = [STORE] * (options.get("store_rank") == STORE) + list(range(size))
        life = Life(
            kind=kind,
            size=size,
            folder=folder,
            options=options,
            environ=_ENVIRONMENT | dict(environ or {}),
        )
        try:
            for rank in ranks:
                life.programs[rank] = self._start(life, rank)
            life.wait()
        finally:
            for program in life.programs.values():
                program.kill_session()
                program.wait()
        self._count(life)
        return life

    def _start(self, life: "Life", rank: int) -> ForkedProgram:
        arguments = [life.kind, str(life.folder), str(rank), str(life.size)]
        with self._lock:
            return self._server.start(
                PROGRAM,
                [*arguments, json.dumps(life.options)],
                folder=life.folder,
                output=life.folder / f"output-{life.options['life']}-{rank}",
                environ=life.environ,
            )

    def _count(self, life: "Life") -> None:
        where = life.killed()
        with self._lock:
            self.lives += 1
            self.finished += life.codes == [0] * life.size
            self.kills[f"{life.kind}, {life.size} ranks"] += len(where)
            self.points.update(where.values())


@dataclass(kw_only=True)
class Life:
    """One world of ranks, and how it ended."""

    kind: str
    size: int
    folder: Path
    options: dict[str, Any]
    environ: dict[str, str]
    programs: dict[int, ForkedProgram] = field(default_factory=dict)

    @property
    def codes(self) -> list[int]:
        return [self.programs[rank].wait() for rank in range(self.size)]

    def wait(self) -> None:
        """Until all ranks have ended."""
        give_up_at = time.monotonic() + _LIFE_SECONDS_MAX
        waiting = {self.programs[rank].answers for rank in range(self.size)}
        while waiting:
            ended, _, _ = select.select(list(waiting), [], [], give_up_at - time.monotonic())
            if not ended:
                for program in self.programs.values():
                    program.signal(signal.SIGUSR1)
                time.sleep(2)
                raise AssertionError(f"A life does not end:\n{self.text()}")
            waiting -= set(ended)
        assert self.codes

    def killed(self) -> dict[int, str]:
        """Where each rank was killed that was."""
        return {
            rank: (self.folder / f"kill-{self.options['life']}-{rank}").read_text()
            for rank, code in enumerate(self.codes)
            if code == -signal.SIGKILL
        }

    def results(self) -> list[str]:
        return [self.said(rank, "done") for rank in range(self.size)]

    def said(self, rank: int, word: str) -> str:
        lines = self.programs[rank].text().splitlines()
        return next((line for line in reversed(lines) if line.startswith(word)), "")

    def check(self, expected: list[str]) -> None:
        """Every rank that was not killed ended as it should, and left nothing torn."""
        for rank, code in enumerate(self.codes):
            if code == 0:
                is_right = self.said(rank, "done") == expected[rank]
            elif code == 75:
                is_right = bool(self.killed()) or "signal_at" in self.options
            else:
                is_right = code == -signal.SIGKILL
            assert is_right, f"rank {rank} ended with {code}:\n{self.text()}"
        check_checkpoints(self.folder / "run")

    def text(self) -> str:
        """Everything that the ranks have printed."""
        printed = [f"--- rank {rank}\n{p.text()}" for rank, p in self.programs.items()]
        return "\n".join([self.kind, str(self.size), str(self.options), *printed])


def check_checkpoints(folder: Path) -> None:
    """Every checkpoint reads back, and is of one step."""
    store = open_store(folder)
    for name in manifest_names(store):
        root = read_manifest(store, name)
        assert isinstance(root, RootManifest), name
        assert verify_checkpoint(store, root) == [], name
        steps = {read_part(store, root, rank).step for rank in range(root.world_size)}
        assert steps == {root.step}, name


def kill_until_finished(
    ground: KillingGround, kind: str, size: int, folder: Path, seed: int, *, lives_max: int = 30
) -> None:
    """One training: killed in each life until it finishes, or else left alone at last."""
    chance = random.Random(seed)
    expected = ground.expected(kind, size, folder)
    for number in range(lives_max + 1):
        options = drawn_options(chance, size) if number < lives_max else {}
        life = ground.live(kind, size, folder / f"killed-{seed}", options)
        life.check(expected)
        if life.codes == [0] * size:
            assert life.results() == expected, life.text()
            return
    raise AssertionError(f"The training did not finish, seed {seed}:\n{life.text()}")


def drawn_options(chance: random.Random, size: int) -> dict[str, Any]:
    """What happens in one life. The same chance draws the same."""
    # In half of the lives, the store outlives rank 0, as it does with torchrun.
    options: dict[str, Any] = {"store_rank": chance.choice([0, STORE])}
    options["asks_for_saves"] = chance.random() < 0.3
    if options["asks_for_saves"]:
        options["every_steps"] = 1000
    if chance.random() < 0.2:
        options |= {"signal_at": [chance.randrange(size), chance.randrange(STEPS)]}
        options["signal"] = "SIGTERM"
    has_calls = options["asks_for_saves"] or "signal_at" in options
    options["kill"] = asdict(drawn_kill(chance, size, has_calls=has_calls))
    return options


def drawn_kill(chance: random.Random, size: int, *, has_calls: bool) -> Kill:
    rank = 0 if chance.random() < 0.4 else chance.randrange(size)
    others = [other for other in range(size) if other != rank]
    together = chance.choice([0, 0, 0, 1, len(others)])
    chosen = tuple(sorted(chance.sample(others, together)))
    if chance.random() < 0.25:
        return Kill(rank=rank, seconds=chance.random() * 1.5, others=chosen)
    points = [point for point in ANY_RANK if has_calls or point != "agreement"]
    point = chance.choice([*points, *RANK_0] if rank == 0 else points)
    return Kill(
        rank=rank,
        point=point,
        is_before=point == JOIN or chance.random() < 0.5,
        number=1 if point in _ONCE else chance.randint(1, _NUMBER_MAX),
        others=chosen,
    )
