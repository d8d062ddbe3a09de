"""The manifest: what a checkpoint consists of, and the names of all its objects.

A checkpoint exists if its manifest does. `encoding.py` has its bytes.

    attempts/000007.json                      attempt 7 exists
    manifests/000000012500-000007.json        the state after 12,500 steps, saved by attempt 7
    manifests/000000012500-000007-001.json    the same step, saved again
    packs/000007-<uuid>.pack                  bytes that were new in a save of attempt 7
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from outlast.checkpoint.format.keys import PLAIN, Hashing
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.state.nodes import TREE_VERSION, TreeNode

MANIFESTS = "manifests/"
PACKS = "packs/"

_MANIFEST_NAME = re.compile(r"manifests/(\d{12})-(\d{6,9})(?:-(\d{3,}))?\.json")
_PACK_NAME = re.compile(r"packs/(\d{6,9})-[0-9a-f]{32}\.pack")

CheckpointOrder: TypeAlias = tuple[int, int, int]
"""Attempt, step and number of a checkpoint. They sort from old to new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """Which part of a larger array a leaf is: the shape of the array, and where the part begins."""

    global_shape: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedLeaf:
    """An array as the manifest describes it. `shard` is None for a complete array."""

    path: str
    library: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    shard: Shard | None = None

    @property
    def kind(self) -> tuple[str, str, tuple[int, ...]]:
        return self.library, self.dtype, self.shape


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """Where the bytes of a chunk are stored."""

    pack: str
    offset: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A range of bytes of the staged state, its hash, and its copies, the preferred one first."""

    span: Span
    digest: str
    copies: tuple[Copy, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointManifest:
    """A checkpoint. `step` is the number of completed steps.

    `number` counts earlier saves of the same step and attempt. `hashing` hashes the chunks and
    signs the manifest. `run_id` identifies the run if it is signed: the signature shows who saved a
    checkpoint, and the id shows where it belongs. `world_size` ranks have saved it.
    """

    step: int
    attempt: int
    number: int = 0
    save_id: str
    parent: str | None
    created: datetime
    root: TreeNode
    leaves: tuple[SavedLeaf, ...]
    places: tuple[Span, ...]
    chunks: tuple[Chunk, ...]
    new_bytes: int
    tree_version: int = TREE_VERSION
    hashing: Hashing = PLAIN
    run_id: str | None = None
    world_size: int = 1

    @property
    def name(self) -> str:
        suffix = f"-{self.number:03d}" if self.number else ""
        return f"{MANIFESTS}{self.step:012d}-{self.attempt:06d}{suffix}.json"

    @property
    def order(self) -> CheckpointOrder:
        return (self.attempt, self.step, self.number)

    @property
    def size_bytes(self) -> int:
        return sum(chunk.span.length for chunk in self.chunks)

    @property
    def packs(self) -> set[str]:
        return {copy.pack for chunk in self.chunks for copy in chunk.copies}


def digest_of(data: Any) -> str:
    """A 128-bit hash that detects damage. For chunks, use the `hashing` of their manifest."""
    return PLAIN.digest(data)


def order_of(name: str) -> CheckpointOrder | None:
    """The position of a manifest among all, from its name; None for other names.

    The attempt comes first: a late save of a stale attempt must not outrank a newer attempt.
    """
    match = _MANIFEST_NAME.fullmatch(name)
    return (int(match[2]), int(match[1]), int(match[3] or 0)) if match else None


def attempt_of_pack(name: str) -> int | None:
    """The attempt that wrote a pack, from its name; None for other names."""
    match = _PACK_NAME.fullmatch(name)
    return int(match[1]) if match else None
