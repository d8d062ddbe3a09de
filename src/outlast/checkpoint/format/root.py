"""The root manifest of a checkpoint that several ranks have saved together.

It names the part of each rank, with its length and hash, and is written last: the checkpoint exists
if its root does. A root has the format 2, and a manifest of one process the format 1.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError
from outlast.checkpoint.format.encoding import (
    FORMAT,
    checked_packs,
    checked_parent,
    decode_part,
    from_body,
)
from outlast.checkpoint.format.envelope import digest_of, fetch, invalid, seal, unseal
from outlast.checkpoint.format.keys import PLAIN, PLAIN_NAME, Hashing
from outlast.checkpoint.format.manifest import (
    MANIFESTS,
    CheckpointManifest,
    CheckpointOrder,
    order_of,
    part_name,
)
from outlast.checkpoint.format.validation import (
    ATTEMPT_MAX,
    BYTES_MAX,
    NUMBER_MAX,
    STEP_MAX,
    WORLD_SIZE_MAX,
    InvalidManifest,
    checked_date,
    checked_digest,
    checked_int,
    short,
)
from outlast.storage import ROUTINE, Limits, NotFound, Store

ROOT_FORMAT = 2

_KEYS = frozenset(
    "step attempt number save save_id parent created world_size new_bytes size_bytes packs "
    "parts hash".split()
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartEntry:
    """The part of one rank: its length in bytes, and the hash of these."""

    length: int
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RootManifest:
    """A checkpoint of several ranks. `parts[r]` is that of rank r; `save` numbers their folder.

    `data_packs` are the packs that the parts refer to. See `Manifest` for the rest.
    """

    step: int
    attempt: int
    number: int = 0
    save: int
    save_id: str
    parent: str | None
    created: datetime
    parts: tuple[PartEntry, ...]
    data_packs: tuple[str, ...]
    size_bytes: int
    new_bytes: int
    hashing: Hashing = PLAIN
    run_id: str | None = None

    @property
    def name(self) -> str:
        suffix = f"-{self.number:03d}" if self.number else ""
        return f"{MANIFESTS}{self.step:012d}-{self.attempt:06d}{suffix}.json"

    @property
    def order(self) -> CheckpointOrder:
        return (self.attempt, self.step, self.number)

    @property
    def world_size(self) -> int:
        return len(self.parts)

    @property
    def packs(self) -> set[str]:
        """Everything that the checkpoint needs besides its root: packs and parts."""
        return {*self.data_packs, *(self.part_name(rank) for rank in range(self.world_size))}

    def part_name(self, rank: int) -> str:
        return part_name(self.step, self.attempt, self.save, rank)


AnyManifest: TypeAlias = CheckpointManifest | RootManifest
"""What a checkpoint of one process or of several ranks has."""


def encode_root(root: RootManifest) -> bytes:
    """The bytes of a root. Raises `CheckpointError` if they could not be read back."""
    if order_of(root.name) != root.order:
        raise CheckpointError(
            f"Step {root.step} of attempt {root.attempt} is out of range for a checkpoint.",
            hint=f"Steps go up to {STEP_MAX:,} and attempts up to {ATTEMPT_MAX:,}.",
        )
    body = {
        "step": root.step,
        "attempt": root.attempt,
        "number": root.number,
        "save": root.save,
        "save_id": root.save_id,
        "parent": root.parent,
        "created": root.created.isoformat(),
        "world_size": root.world_size,
        "new_bytes": root.new_bytes,
        "size_bytes": root.size_bytes,
        "hash": root.hashing.name,
        **({} if root.run_id is None else {"run_id": root.run_id}),
        "packs": list(root.data_packs),
        "parts": [[part.length, part.digest] for part in root.parts],
    }
    return seal(root.name, body, root.hashing, version=ROOT_FORMAT)


def decode_any(name: str, data: bytes) -> AnyManifest:
    """Parse a manifest of one process or the root of several. Raises `CheckpointCorrupt`."""
    version, body, hashing = unseal(name, data, versions=(FORMAT, ROOT_FORMAT))
    if version == FORMAT:
        return from_body(name, body, hashing)
    try:
        root = _root(body, hashing)
    except InvalidManifest as error:
        raise invalid(name, error) from error
    if root.name != name:
        raise CheckpointCorrupt(f"{name!r} contains the manifest of {root.name!r}.")
    return root


def read_part(
    store: Store, root: RootManifest, rank: int, *, limits: Limits = ROUTINE
) -> CheckpointManifest:
    """The part of a rank. Raises `CheckpointCorrupt` if it is missing or not what was committed."""
    name = root.part_name(rank)
    try:
        data = fetch(store, name, limits=limits)
    except NotFound as error:
        raise CheckpointCorrupt(f"The part of rank {rank}, {name!r}, is missing.") from error
    entry = root.parts[rank]
    if (len(data), digest_of(data)) != (entry.length, entry.digest):
        raise CheckpointCorrupt(f"The part {name!r} is not the one that was committed.")
    part = decode_part(name, data, world_size=root.world_size)
    if (part.save_id, part.run_id) != (root.save_id, root.run_id):
        raise CheckpointCorrupt(f"The part {name!r} belongs to another save.")
    return part


def _root(body: Any, hashing: Hashing) -> RootManifest:
    if type(body) is not dict or not _KEYS <= body.keys():
        raise InvalidManifest("parts of it are missing")
    if body.get("hash", PLAIN_NAME) != hashing.name:
        raise InvalidManifest(f"its hash is {short(body['hash'])} instead of {hashing.name}")
    size_bytes = checked_int(body["size_bytes"], "the number of bytes", most=BYTES_MAX)
    return RootManifest(
        step=checked_int(body["step"], "the step", most=STEP_MAX),
        attempt=checked_int(body["attempt"], "the attempt", most=ATTEMPT_MAX),
        number=checked_int(body["number"], "the number", most=NUMBER_MAX),
        save=checked_int(body["save"], "the number of the save", most=NUMBER_MAX),
        save_id=checked_digest(body["save_id"], "the id of the save"),
        parent=checked_parent(body["parent"]),
        created=checked_date(body["created"]),
        parts=_parts(body["parts"], body["world_size"]),
        data_packs=tuple(checked_packs(body["packs"])),
        size_bytes=size_bytes,
        new_bytes=checked_int(body["new_bytes"], "the number of new bytes", most=size_bytes),
        hashing=hashing,
        run_id=checked_digest(body.get("run_id"), "the id of the run") if hashing.key else None,
    )


def _parts(rows: object, world_size: object) -> tuple[PartEntry, ...]:
    ranks = checked_int(world_size, "the number of ranks", most=WORLD_SIZE_MAX)
    if type(rows) is not list or len(rows) != ranks or not rows:
        raise InvalidManifest(f"it has parts of {short(rows)} for {ranks} ranks")
    for row in rows:
        if type(row) is not list or len(row) != 2:
            raise InvalidManifest(f"a part is {short(row)}")
    return tuple(
        PartEntry(
            length=checked_int(length, "the length of a part", most=BYTES_MAX),
            digest=checked_digest(digest, "the hash of a part"),
        )
        for length, digest in rows
    )
