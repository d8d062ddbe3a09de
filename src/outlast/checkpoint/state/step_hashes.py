"""Write a hash of every part of the state after each step, to compare two runs.

Only if `OUTLAST_DRILL_HASHES` names a file, as in a drill: it shows where an interrupted run first
differs from an uninterrupted one. Each line is written at once; a kill may truncate the last. If
hashing takes a large part of a step's time, only every second, fourth, ... step is hashed, and the
other lines have only the number.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import xxhash

from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.state.tree import Leaf, capture

VARIABLE = "OUTLAST_DRILL_HASHES"
_COST_SHARE_MAX = 0.1
_STRIDE_MAX = 1024


class StepHashes:
    """Appends the hashes of each step to a file. `parts` returns the parts of the state by name.

    `may_pickle` names the parts that are pickled. Two processes may pickle equal content
    differently, so their bytes are not part of a hash.
    """

    def __init__(
        self,
        path: str,
        parts: Callable[[], Mapping[str, object]],
        *,
        may_pickle: Collection[str] = (),
    ) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._parts = parts
        self._may_pickle = frozenset(may_pickle)
        self._names: list[str] = []
        self._stride = 1
        self._noted_at = time.monotonic()

    def note(self, step: int, *, batch: object = None, always: bool = False) -> None:
        """Record that this many steps are done, with the hashes of the state if they are due."""
        if step % self._stride and not always:
            self._write({"step": step})
            return
        started = time.monotonic()
        hashes = dict(_hashes(self._parts(), self._may_pickle))
        if list(hashes) != self._names:
            self._names = list(hashes)
            self._write({"leaves": self._names})
        line: dict[str, object] = {"step": step, "hashes": list(hashes.values())}
        if batch is not None:
            # A batch may be anything, so it is hashed only if that is possible.
            with contextlib.suppress(UnsupportedState):
                line["batch"] = hash_of_all({"batch": batch})
        self._write(line)
        now = time.monotonic()
        if now - started > _COST_SHARE_MAX * (now - self._noted_at):
            self._stride = min(2 * self._stride, _STRIDE_MAX)
        self._noted_at = now

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, line: Mapping[str, object]) -> None:
        os.write(self._fd, json.dumps(line).encode() + b"\n")


def _hashes(
    parts: Mapping[str, object], may_pickle: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """A hash for each array by its path, and one for all the rest of each part by its name."""
    tree = capture(dict(parts), may_pickle=may_pickle)
    for key, node in tree.root["d"]:
        yield str(key), xxhash.xxh3_64_hexdigest(json.dumps(_without_pickles(node)).encode())
    for leaf in tree.leaves:
        yield leaf.path, _hash_of(leaf)


def _without_pickles(node: Any) -> Any:
    """The same node without the bytes of its pickles."""
    if isinstance(node, list):
        return [_without_pickles(one) for one in node]
    if isinstance(node, dict):
        return {tag: None if tag == "p" else _without_pickles(one) for tag, one in node.items()}
    return node


def hash_of_all(parts: Mapping[str, object], may_pickle: Collection[str] = ()) -> str:
    """One hash of all parts, without the bytes of pickles."""
    found = "".join(one for _, one in _hashes(parts, may_pickle))
    return xxhash.xxh3_64_hexdigest(found.encode())


def _hash_of(leaf: Leaf) -> str:
    copy = np.empty(leaf.nbytes, np.uint8)
    if leaf.nbytes:
        leaf.library.copy_out(leaf.array, copy)
    return xxhash.xxh3_64_hexdigest(copy.data)
