"""Where a rank can be killed: at every call by which it changes something that others can see.

`arm` replaces these calls in this process. The process ends by a real SIGKILL right before or right
after the chosen one, or at any instant, and may take other ranks with it. A line in a file says
where it was.
"""

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from outlast.checkpoint.ranks import RankGroup
from outlast.checkpoint.saving.staging import StagingArea
from outlast.ranks.torch_channel import TorchChannel
from outlast.storage.local.store import LocalStore

JOIN = "join"
ANY_RANK = (JOIN, "start", "resume", "staging", "packs", "part", "done", "commit key", "agreement")
"""The points that every rank passes."""
RANK_0 = ("attempt", "gather", "fence", "root", "garbage", "journal")
"""The points of rank 0 alone."""

_CREATED = {
    "attempts/": "attempt",
    "packs/": "packs",
    "parts/": "part",
    "manifests/": "root",
    "journal/": "journal",
}
_KEYS = {
    "start": "start",
    "resume": "resume",
    "loaded": "resume",
    "done": "done",
    "commit": "commit key",
}


@dataclass(frozen=True, kw_only=True)
class Kill:
    """When to kill a rank, and which others with it.

    At the n-th passing of a point, before or after it; without a point, after some seconds.
    """

    rank: int
    point: str | None = None
    is_before: bool = True
    number: int = 1
    seconds: float = 0.0
    others: tuple[int, ...] = ()


class Killer:
    """Kills this process as planned, and those of the other ranks. `note` is told where."""

    def __init__(self, kill: Kill, pids: Sequence[int], note: Callable[[int, str], object]) -> None:
        self._kill = kill
        self._others = {rank: os.pidfd_open(pids[rank]) for rank in kill.others}
        self._note = note
        self._passed: Counter[tuple[str, bool]] = Counter()
        self._within: list[str] = []
        self._lock = threading.Lock()

    def arm(self) -> None:
        """From now on, the process may end at any call."""
        self._around(StagingArea, "obtain", lambda *_: "staging")
        self._around(LocalStore, "create", lambda name, *_: _created(name))
        self._around(LocalStore, "delete", lambda *_: "garbage")
        self._around(LocalStore, "list", lambda name="", *_: name == "attempts/" and "fence")
        for method in ("publish", "read"):
            self._around(RankGroup, method, _keyed)
        self._around(RankGroup, "gather", _gathered)
        self._around(TorchChannel, "claim", lambda *_: "agreement")
        if self._kill.point is None:
            timer = threading.Timer(self._kill.seconds, self._die_anywhere)
            timer.daemon = True
            timer.start()

    def pass_by(self, point: str) -> None:
        """The program itself is at a point."""
        self._at(point, is_before=True)

    def _around(self, kind: type, method: str, name: Callable[..., Any]) -> None:
        function: Any = getattr(kind, method)

        def around(thing: Any, *arguments: Any, **named: Any) -> Any:
            point = name(*arguments)
            if not point:
                return function(thing, *arguments, **named)
            self._at(point, is_before=True)
            self._within.append(point)
            try:
                return function(thing, *arguments, **named)
            finally:
                self._within.remove(point)
                self._at(point, is_before=False)

        setattr(kind, method, around)

    def _at(self, point: str, *, is_before: bool) -> None:
        with self._lock:
            self._passed[point, is_before] += 1
            count = self._passed[point, is_before]
        if (point, is_before, count) == (self._kill.point, self._kill.is_before, self._kill.number):
            self._die(f"{'before' if is_before else 'after'} {point}")

    def _die_anywhere(self) -> NoReturn:
        within = list(self._within)
        self._die(f"any instant, {'within ' + within[-1] if within else 'between points'}")

    def _die(self, where: str) -> NoReturn:
        self._note(self._kill.rank, where)
        for rank, handle in self._others.items():
            self._note(rank, f"together with rank {self._kill.rank}")
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


def note_in(folder: Path, life: str) -> Callable[[int, str], None]:
    """Write where a rank was killed to a file of the folder."""

    def note(rank: int, where: str) -> None:
        (folder / f"kill-{life}-{rank}").write_text(where)

    return note


def _created(name: str) -> str | None:
    return next((point for start, point in _CREATED.items() if name.startswith(start)), None)


def _keyed(key: str, *_: object) -> str | None:
    return _KEYS.get(key.split("/")[0])


def _gathered(key: str, *_: object) -> str | None:
    return "gather" if key.startswith("done/") else _keyed(key)
