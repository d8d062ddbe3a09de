"""The manifest: what a checkpoint consists of, and the names of all its objects.

A checkpoint exists if its manifest does. What several ranks save has a part for each rank, which is
a manifest of the same form, and one root manifest (see `root.py`).

    attempts/000007.json                      attempt 7 exists
    manifests/000000012500-000007.json        the state after 12,500 steps, saved by attempt 7
    manifests/000000012500-000007-001.json    the same step, saved again
    packs/000007-<uuid>.pack                  bytes that were new in a save of attempt 7
    parts/000000012500-000007-003/00001.json  what rank 1 saved of step 12,500, in save 3
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from outlast.checkpoint.format.keys import PLAIN, Hashing
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.state.nodes import TREE_VERSION, TreeNode
from outlast.checkpoint.state.shards import Shard

MANIFESTS = "manifests/"
PACKS = "packs/"
PARTS = "parts/"

_MANIFEST_NAME = re.compile(r"manifests/(\d{12})-(\d{6,9})(?:-(\d{3,}))?\.json")
_PACK_NAME = re.compile(r"packs/(\d{6,9})-[0-9a-f]{32}\.pack")
_PART_NAME = re.compile(r"parts/\d{12}-(\d{6,9})-\d{3,}/\d{5,}\.json")


CheckpointOrder: TypeAlias = tuple[int, int, int]
"""Attempt, step and number of a checkpoint. They sort from old to new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedLeaf:
    """An array as the manifest describes it. `shard` is None for a complete array.

    The shape and the size are those of the part that was saved.
    """

    path: str
    library: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    shard: Shard | None = None

    @property
    def kind(self) -> tuple[str, str, tuple[int, ...]]:
        """What the entire array is."""
        shape = self.shape if self.shard is None else self.shard.global_shape
        return self.library, self.dtype, shape


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
    checkpoint, and the id shows where it belongs. If several ranks have saved it, `rank` says whose
    part this is, and `number` counts the saves of the attempt.
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
    rank: int | None = None

    @property
    def name(self) -> str:
        if self.rank is not None:
            return part_name(self.step, self.attempt, self.number, self.rank)
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


def order_of(name: str) -> CheckpointOrder | None:
    """The position of a manifest among all, from its name; None for other names.

    The attempt comes first: a late save of a stale attempt must not outrank a newer attempt.
    """
    match = _MANIFEST_NAME.fullmatch(name)
    return (int(match[2]), int(match[1]), int(match[3] or 0)) if match else None


def part_name(step: int, attempt: int, number: int, rank: int) -> str:
    """The name of a rank's part of a save."""
    return f"{PARTS}{step:012d}-{attempt:06d}-{number:03d}/{rank:05d}.json"


def attempt_of_pack(name: str) -> int | None:
    """The attempt that wrote a pack or a part, from its name; None for other names."""
    match = _PACK_NAME.fullmatch(name) or _PART_NAME.fullmatch(name)
    return int(match[1]) if match else None


def is_pack(name: str) -> bool:
    return _PACK_NAME.fullmatch(name) is not None
