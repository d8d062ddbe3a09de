"""The manifest: what a checkpoint consists of, and the names under which everything is kept.

A checkpoint exists when its manifest does. The manifest vouches for its own bytes by a first line
with their length and hash, so that a garbled one is never believed.

    attempts/000007.json                      attempt 7 exists
    manifests/000000012500-000007.json        the state after 12,500 steps, saved by attempt 7
    manifests/000000012500-000007-001.json    the same step, saved once more
    packs/000007-<uuid>.pack                  bytes that were new in a save of attempt 7
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import xxhash

from outlast.checkpoint.binding import SavedLeaf
from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.layout import Span
from outlast.checkpoint.tree import Node

FORMAT = 1
MANIFESTS = "manifests/"
PACKS = "packs/"

_MANIFEST_NAME = re.compile(r"manifests/(\d{12})-(\d{6})(?:-(\d{3,}))?\.json")
_PACK_NAME = re.compile(r"packs/(\d{6})-[0-9a-f]{32}\.pack")


Order: TypeAlias = tuple[int, int, int]
"""Attempt, step and number of a checkpoint: they sort from old to new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """Where a chunk's bytes are kept."""

    pack: str
    offset: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A run of bytes of the staged image, its hash, and its copies, the first one preferred."""

    span: Span
    digest: str
    copies: tuple[Copy, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A checkpoint. `step` counts the steps that were done when it was saved.

    `number` is how many saves of the same step and attempt came before.
    """

    step: int
    attempt: int
    number: int = 0
    save_id: str
    parent: str | None
    created: datetime
    root: Node
    leaves: tuple[SavedLeaf, ...]
    places: tuple[Span, ...]
    chunks: tuple[Chunk, ...]
    new_bytes: int

    @property
    def name(self) -> str:
        suffix = f"-{self.number:03d}" if self.number else ""
        return f"{MANIFESTS}{self.step:012d}-{self.attempt:06d}{suffix}.json"

    @property
    def order(self) -> Order:
        return (self.attempt, self.step, self.number)

    @property
    def size_bytes(self) -> int:
        return sum(chunk.span.length for chunk in self.chunks)

    @property
    def packs(self) -> set[str]:
        return {copy.pack for chunk in self.chunks for copy in chunk.copies}


def digest_of(data: Any) -> str:
    """The 128-bit hash of a buffer. Releases the interpreter lock."""
    return xxhash.xxh3_128_hexdigest(data)


def order_of(name: str) -> Order | None:
    """The place of a manifest among all, by its name; None for other names.

    The attempt comes first: what a stale attempt saved late must not outrank a newer attempt.
    """
    match = _MANIFEST_NAME.fullmatch(name)
    return (int(match[2]), int(match[1]), int(match[3] or 0)) if match else None


def attempt_of_pack(name: str) -> int | None:
    match = _PACK_NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode(manifest: Manifest) -> bytes:
    packs = sorted(manifest.packs)
    numbers = {pack: number for number, pack in enumerate(packs)}
    body = {
        "step": manifest.step,
        "attempt": manifest.attempt,
        "number": manifest.number,
        "save_id": manifest.save_id,
        "parent": manifest.parent,
        "created": manifest.created.isoformat(),
        "world_size": 1,
        "new_bytes": manifest.new_bytes,
        "root": manifest.root,
        "packs": packs,
        "leaves": [
            [leaf.path, leaf.library, leaf.dtype, list(leaf.shape), place.start, place.length]
            for leaf, place in zip(manifest.leaves, manifest.places, strict=True)
        ],
        "chunks": [
            [
                chunk.span.start,
                chunk.span.length,
                chunk.digest,
                [[numbers[copy.pack], copy.offset] for copy in chunk.copies],
            ]
            for chunk in manifest.chunks
        ],
    }
    data = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    head = {"outlast": FORMAT, "length": len(data), "xxh3_128": digest_of(data)}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + data


def decode(name: str, data: bytes) -> Manifest:
    """Read a manifest back. Raises `CheckpointCorrupt` if it is not what was written."""
    first, _, body = data.partition(b"\n")
    try:
        head = json.loads(first)
        version, length, digest = head["outlast"], head["length"], head["xxh3_128"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointCorrupt(f"The manifest {name!r} is not readable.") from error
    if version != FORMAT:
        raise CheckpointCorrupt(
            f"The manifest {name!r} has format {version!r}, and this version reads {FORMAT}.",
            hint="Install the version of outlast that wrote it.",
        )
    if len(body) != length or digest_of(body) != digest:
        raise CheckpointCorrupt(f"The manifest {name!r} was cut or changed.")
    try:
        return _manifest(json.loads(body))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise CheckpointCorrupt(f"The manifest {name!r} lacks something.") from error


def _manifest(body: dict[str, Any]) -> Manifest:
    packs = body["packs"]
    for pack in packs:
        if attempt_of_pack(pack) is None:
            raise ValueError(f"{pack!r} is not the name of a pack")
    return Manifest(
        step=body["step"],
        attempt=body["attempt"],
        number=body["number"],
        save_id=body["save_id"],
        parent=body["parent"],
        created=datetime.fromisoformat(body["created"]).astimezone(UTC),
        root=body["root"],
        new_bytes=body["new_bytes"],
        leaves=tuple(
            SavedLeaf(path=path, library=library, dtype=dtype, shape=tuple(shape), nbytes=nbytes)
            for path, library, dtype, shape, _, nbytes in body["leaves"]
        ),
        places=tuple(Span(start=start, length=length) for *_, start, length in body["leaves"]),
        chunks=tuple(
            Chunk(
                span=Span(start=start, length=length),
                digest=digest,
                copies=tuple(Copy(pack=packs[number], offset=at) for number, at in copies),
            )
            for start, length, digest, copies in body["chunks"]
        ),
    )
