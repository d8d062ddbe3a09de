"""Write manifests as JSON, and read them back only if a save can have written them.

A correct hash is not enough: see `validation.py` for what else is checked.
"""

from typing import Any

from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError
from outlast.checkpoint.format.envelope import invalid, seal, unseal
from outlast.checkpoint.format.keys import PLAIN_NAME, Hashing
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.format.manifest import (
    CheckpointManifest,
    Chunk,
    Copy,
    SavedLeaf,
    is_pack,
    order_of,
)
from outlast.checkpoint.format.table_validation import (
    check_chunks,
    check_cover,
    check_leaves,
    check_shards,
)
from outlast.checkpoint.format.tree_validation import check_root
from outlast.checkpoint.format.validation import (
    ATTEMPT_MAX,
    NUMBER_MAX,
    STEP_MAX,
    WORLD_SIZE_MAX,
    InvalidManifest,
    checked_date,
    checked_digest,
    checked_int,
    short,
)
from outlast.checkpoint.state.nodes import TREE_VERSION
from outlast.checkpoint.state.shards import Shard

FORMAT = 1

_KEYS = frozenset(
    "step attempt number save_id parent created world_size "
    "new_bytes root packs leaves chunks".split()
)


def encode(manifest: CheckpointManifest) -> bytes:
    """The bytes of a manifest. Raises `CheckpointError` if they could not be read back."""
    if manifest.rank is None and order_of(manifest.name) != manifest.order:
        raise CheckpointError(
            f"Step {manifest.step} of attempt {manifest.attempt} is out of range for a checkpoint.",
            hint=f"Steps go up to {STEP_MAX:,} and attempts up to {ATTEMPT_MAX:,}.",
        )
    packs = sorted(manifest.packs)
    numbers = {pack: number for number, pack in enumerate(packs)}
    body = {
        "step": manifest.step,
        "attempt": manifest.attempt,
        "number": manifest.number,
        "save_id": manifest.save_id,
        "parent": manifest.parent,
        "created": manifest.created.isoformat(),
        "world_size": manifest.world_size,
        **({} if manifest.rank is None else {"rank": manifest.rank}),
        "new_bytes": manifest.new_bytes,
        "tree": manifest.tree_version,
        "hash": manifest.hashing.name,
        **({} if manifest.run_id is None else {"run_id": manifest.run_id}),
        "root": manifest.root,
        "packs": packs,
        "leaves": [
            [leaf.path, leaf.library, leaf.dtype, list(leaf.shape), place.start, place.length]
            for leaf, place in zip(manifest.leaves, manifest.places, strict=True)
        ],
        **_shards_body(manifest.leaves),
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
    return seal(manifest.name, body, manifest.hashing, version=FORMAT)


def decode(name: str, data: bytes) -> CheckpointManifest:
    """Parse the manifest of a checkpoint that one process saved.

    Raises `CheckpointCorrupt` if no such save can have written it. A correct hash is not enough:
    see `validation.py` for what else is checked.
    """
    _, body, hashing = unseal(name, data, versions=(FORMAT,))
    return from_body(name, body, hashing)


def decode_part(name: str, data: bytes, *, world_size: int) -> CheckpointManifest:
    """Parse the part that one of `world_size` ranks has saved. Raises like `decode`."""
    _, body, hashing = unseal(name, data, versions=(FORMAT,))
    return from_body(name, body, hashing, world_size=world_size)


def from_body(name: str, body: Any, hashing: Hashing, *, world_size: int = 1) -> CheckpointManifest:
    """The manifest of this name, from its parsed body. Raises `CheckpointCorrupt`."""
    try:
        manifest = _manifest(body, hashing, world_size)
    except InvalidManifest as error:
        raise invalid(name, error) from error
    if manifest.name != name:
        raise CheckpointCorrupt(f"{name!r} contains the manifest of {manifest.name!r}.")
    return manifest


def _manifest(body: Any, hashing: Hashing, world_size: int) -> CheckpointManifest:
    if type(body) is not dict or not _KEYS <= body.keys():
        raise InvalidManifest("parts of it are missing")
    ranks = checked_int(body["world_size"], "the number of ranks", most=WORLD_SIZE_MAX)
    if ranks != world_size:
        raise InvalidManifest(f"it was saved by {ranks} ranks instead of {world_size}")
    if body.get("hash", PLAIN_NAME) != hashing.name:
        raise InvalidManifest(f"its hash is {short(body['hash'])} instead of {hashing.name}")
    packs = checked_packs(body["packs"])
    places = check_leaves(body["leaves"])
    shards = _shards(body, world_size)
    spans = check_chunks(body["chunks"], len(packs))
    check_cover(places, spans)
    check_root(body["root"], len(places))
    return CheckpointManifest(
        step=checked_int(body["step"], "the step", most=STEP_MAX),
        attempt=checked_int(body["attempt"], "the attempt", most=ATTEMPT_MAX),
        number=checked_int(body["number"], "the number", most=NUMBER_MAX),
        save_id=checked_digest(body["save_id"], "the id of the save"),
        parent=checked_parent(body["parent"]),
        created=checked_date(body["created"]),
        root=body["root"],
        new_bytes=checked_int(
            body["new_bytes"],
            "the number of new bytes",
            most=sum(length for _, length, _, _ in body["chunks"]),
        ),
        hashing=hashing,
        world_size=ranks,
        rank=_rank(body, ranks),
        # Required if the manifest is signed; unsigned manifests have none.
        run_id=checked_digest(body.get("run_id"), "the id of the run") if hashing.key else None,
        tree_version=checked_int(body.get("tree", 1), "the version of the tree", most=TREE_VERSION),
        leaves=tuple(
            SavedLeaf(
                path=path,
                library=library,
                dtype=dtype,
                shape=tuple(shape),
                nbytes=nbytes,
                shard=shards.get(index),
            )
            for index, (path, library, dtype, shape, _, nbytes) in enumerate(body["leaves"])
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


def _shards_body(leaves: tuple[SavedLeaf, ...]) -> dict[str, object]:
    """The shards among the leaves. Left out without any, as in every checkpoint of one rank."""
    rows = [
        [
            index,
            "flat" if leaf.shard.is_flat else "box",
            list(leaf.shard.global_shape),
            list(leaf.shard.offsets),
        ]
        for index, leaf in enumerate(leaves)
        if leaf.shard is not None
    ]
    return {"shards": rows} if rows else {}


def _rank(body: dict[str, Any], world_size: int) -> int | None:
    if world_size == 1 and "rank" not in body:
        return None
    return checked_int(body.get("rank"), "the rank", most=world_size - 1)


def _shards(body: dict[str, Any], world_size: int) -> dict[int, Shard]:
    """The shards by the index of their leaf."""
    if "shards" not in body:
        return {}
    if world_size == 1:
        raise InvalidManifest("it has shards of arrays, but was saved by one rank")
    check_shards(body["shards"], body["leaves"])
    return {
        index: Shard(global_shape=tuple(shape), offsets=tuple(offsets), is_flat=kind == "flat")
        for index, kind, shape, offsets in body["shards"]
    }


def checked_parent(parent: object) -> str | None:
    """The name of the checkpoint before this one, or None."""
    if parent is not None and (type(parent) is not str or order_of(parent) is None):
        raise InvalidManifest(f"its parent is {short(parent)}")
    return parent


def checked_packs(names: object) -> list[str]:
    """The names of packs, each listed once."""
    if type(names) is not list:
        raise InvalidManifest(f"its packs are {short(names)}")
    for name in names:
        if type(name) is not str or not is_pack(name):
            raise InvalidManifest(f"{short(name)} is not a pack name")
    if len(set(names)) != len(names):
        raise InvalidManifest("a pack is listed twice")
    return names
