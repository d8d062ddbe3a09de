"""Write down a hash of every part of the state after each step, for whoever compares two runs.

Only where `OUTLAST_DRILL_HASHES` names a file, as a drill does: it shows where an interrupted run
first went apart from an undisturbed one. Each line is written at once; a kill may tear the last.
Where hashing takes a good part of a step's time, only every second, fourth, ... step is hashed,
and of the others there is only the number.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import xxhash

from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.tree import Leaf, capture

VARIABLE = "OUTLAST_DRILL_HASHES"
_COST_SHARE_MAX = 0.1
_STRIDE_MAX = 1024


class Prints:
    """`parts` gives the parts of the state by name, and is asked afresh for each step."""

    def __init__(self, path: str, parts: Callable[[], Mapping[str, object]]) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._parts = parts
        self._names: list[str] = []
        self._stride = 1
        self._noted_at = time.monotonic()

    def note(self, step: int, *, batch: object = None, always: bool = False) -> None:
        """Write down that so many steps are done, with the state if it is one to be hashed."""
        if step % self._stride and not always:
            self._write({"step": step})
            return
        started = time.monotonic()
        hashes = dict(_hashes(self._parts()))
        if list(hashes) != self._names:
            self._names = list(hashes)
            self._write({"leaves": self._names})
        line: dict[str, object] = {"step": step, "hashes": list(hashes.values())}
        if batch is not None:
            # A batch may be anything; only what can be hashed is.
            with contextlib.suppress(UnsupportedState):
                line["batch"] = _hash_of_all({"batch": batch})
        self._write(line)
        now = time.monotonic()
        if now - started > _COST_SHARE_MAX * (now - self._noted_at):
            self._stride = min(2 * self._stride, _STRIDE_MAX)
        self._noted_at = now

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, line: Mapping[str, object]) -> None:
        os.write(self._fd, json.dumps(line).encode() + b"\n")


def _hashes(parts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """A hash for each array by its path, and one for all the rest of each part by its name."""
    tree = capture(dict(parts))
    for key, node in tree.root["d"]:
        yield str(key), xxhash.xxh3_64_hexdigest(json.dumps(node).encode())
    for leaf in tree.leaves:
        yield leaf.path, _hash_of(leaf)


def _hash_of_all(parts: Mapping[str, object]) -> str:
    return xxhash.xxh3_64_hexdigest("".join(found for _, found in _hashes(parts)).encode())


def _hash_of(leaf: Leaf) -> str:
    copy = np.empty(leaf.nbytes, np.uint8)
    if leaf.nbytes:
        leaf.library.copy_out(leaf.array, copy)
    return xxhash.xxh3_64_hexdigest(copy.data)
