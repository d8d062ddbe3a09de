"""The bytes of a manifest: writing, reading and verifying them.

The first line holds the length and the hash of the rest, so that a damaged manifest is never used.
With a key (see `keys.py`) the line also holds a MAC, and nothing in the manifest is parsed before
the MAC is verified.
"""

import hmac
import json
from typing import Any

from outlast._base.strict_json import InvalidJson, strict_json
from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError
from outlast.checkpoint.format.keys import KEY_FILE, PLAIN, PLAIN_NAME, Hashing, load_hashings
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.format.manifest import (
    CheckpointManifest,
    Chunk,
    Copy,
    SavedLeaf,
    Shard,
    attempt_of_pack,
    digest_of,
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
from outlast.checkpoint.state.nodes import TREE_VERSION
from outlast.storage import ROUTINE, Limits, Store

FORMAT = 1
MANIFEST_BYTES_MAX = 256 * 1024**2
_FIRST_BYTES = 1024**2
_HEAD_BYTES_MAX = 4096
_KEYS = frozenset(
    "step attempt number save_id parent created world_size "
    "new_bytes root packs leaves chunks".split()
)


def encode(manifest: CheckpointManifest) -> bytes:
    """The bytes of a manifest. Raises `CheckpointError` if they could not be read back."""
    if order_of(manifest.name) != manifest.order:
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
    data = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    if len(data) > MANIFEST_BYTES_MAX - _HEAD_BYTES_MAX:
        raise CheckpointError(
            _too_large(manifest.name, len(data)),
            hint="Store large values of the state in arrays, not in bytes, strings or lists.",
        )
    head: dict[str, object] = {
        "outlast": FORMAT,
        "length": len(data),
        "xxh3_128": digest_of(data),
    }
    if (mac := manifest.hashing.mac(manifest.name, data)) is not None:
        head["mac"] = mac
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + data


def decode(name: str, data: bytes, *, world_size: int = 1) -> CheckpointManifest:
    """Parse a manifest that `world_size` ranks have saved.

    Raises `CheckpointCorrupt` if no such save can have written it. A correct hash is not enough:
    see `validation.py` for what else is checked.
    """
    first, _, body = data.partition(b"\n")
    length, digest, mac = _head(name, first)
    if len(body) != length or digest_of(body) != digest:
        raise CheckpointCorrupt(f"The manifest {name!r} was truncated or changed.")
    hashing = _authenticated(name, body, mac)
    try:
        manifest = _manifest(strict_json(body), hashing, world_size)
    except (InvalidManifest, InvalidJson) as error:
        raise CheckpointCorrupt(
            f"The manifest {name!r} is invalid: {error}.",
            hint="If another version of outlast wrote it, use that version.",
        ) from error
    if manifest.name != name:
        raise CheckpointCorrupt(f"{name!r} contains the manifest of {manifest.name!r}.")
    return manifest


def fetch(store: Store, name: str, *, limits: Limits = ROUTINE) -> bytes:
    """The bytes of a manifest. Raises `CheckpointCorrupt` instead of reading too many of them.

    One request suffices for most manifests. Of a longer one, as much is read as its first line
    announces.
    """
    data = store.read(name, length=_FIRST_BYTES, limits=limits)
    if len(data) < _FIRST_BYTES:
        return data
    first, newline, _ = data.partition(b"\n")
    length, _, _ = _head(name, first)
    total = len(first) + len(newline) + length
    if total > MANIFEST_BYTES_MAX:
        raise CheckpointCorrupt(_too_large(name, total))
    # One more byte than announced, to notice a manifest that is longer.
    return data + store.read(
        name, start=len(data), length=max(0, total - len(data)) + 1, limits=limits
    )


def _authenticated(name: str, body: bytes, mac: object) -> Hashing:
    """The hashing that signed this. With keys, raises for a manifest that none of them signed."""
    known = load_hashings()
    if not known and mac is None:
        return PLAIN
    if not known:
        raise CheckpointCorrupt(
            f"The manifest {name!r} is signed, but no key is set to verify it.",
            hint=f"Set {KEY_FILE.variable} to the key file of this run.",
        )
    if mac is None:
        raise CheckpointCorrupt(
            f"The manifest {name!r} is not signed, but {KEY_FILE.variable} requires a signature.",
            hint=f"If this run was saved without a key, unset {KEY_FILE.variable} to continue it, "
            "or start a new run under another URL. Otherwise someone else created this manifest.",
        )
    for hashing in known:
        expected = hashing.mac(name, body)
        if expected is not None and hmac.compare_digest(
            expected.encode(), str(mac).encode(errors="replace")
        ):
            return hashing
    raise CheckpointCorrupt(
        f"The manifest {name!r} was not signed with any of the keys in {KEY_FILE.variable}.",
        hint="If the key was replaced, add the old one to the key file, on a line below the new "
        "one. Otherwise someone else created this manifest.",
    )


def _head(name: str, first: bytes) -> tuple[int, str, object]:
    """The length, the hash and the optional MAC of the rest, from the first line."""
    try:
        head = strict_json(first[:_HEAD_BYTES_MAX])
        version, length, digest = head["outlast"], head["length"], head["xxh3_128"]
        if type(version) is int and version != FORMAT:
            raise CheckpointCorrupt(
                f"The manifest {name!r} has format {version!r}, but this version reads {FORMAT}.",
                hint="Install the version of outlast that wrote it.",
            )
        checked_int(version, "the format", most=FORMAT)
        checked_int(length, "the length", most=BYTES_MAX)
        return length, checked_digest(digest, "the hash"), head.get("mac")
    except (InvalidManifest, InvalidJson, KeyError, TypeError) as error:
        raise CheckpointCorrupt(f"The first line of the manifest {name!r} is damaged.") from error


def _manifest(body: Any, hashing: Hashing, world_size: int) -> CheckpointManifest:
    if type(body) is not dict or not _KEYS <= body.keys():
        raise InvalidManifest("parts of it are missing")
    ranks = checked_int(body["world_size"], "the number of ranks", most=WORLD_SIZE_MAX)
    if ranks != world_size:
        raise InvalidManifest(f"it was saved by {ranks} ranks instead of {world_size}")
    if body.get("hash", PLAIN_NAME) != hashing.name:
        raise InvalidManifest(f"its hash is {short(body['hash'])} instead of {hashing.name}")
    packs = _packs(body["packs"])
    places = check_leaves(body["leaves"])
    shards = _shards(body, world_size)
    spans = check_chunks(body["chunks"], len(packs))
    check_cover(places, spans)
    check_root(body["root"], len(places))
    parent = body["parent"]
    if parent is not None and (type(parent) is not str or order_of(parent) is None):
        raise InvalidManifest(f"its parent is {short(parent)}")
    return CheckpointManifest(
        step=checked_int(body["step"], "the step", most=STEP_MAX),
        attempt=checked_int(body["attempt"], "the attempt", most=ATTEMPT_MAX),
        number=checked_int(body["number"], "the number", most=NUMBER_MAX),
        save_id=checked_digest(body["save_id"], "the id of the save"),
        parent=parent,
        created=checked_date(body["created"]),
        root=body["root"],
        new_bytes=checked_int(
            body["new_bytes"],
            "the number of new bytes",
            most=sum(length for _, length, _, _ in body["chunks"]),
        ),
        hashing=hashing,
        world_size=ranks,
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
        [index, list(leaf.shard.global_shape), list(leaf.shard.offsets)]
        for index, leaf in enumerate(leaves)
        if leaf.shard is not None
    ]
    return {"shards": rows} if rows else {}


def _shards(body: dict[str, Any], world_size: int) -> dict[int, Shard]:
    """The shards by the index of their leaf."""
    if "shards" not in body:
        return {}
    if world_size == 1:
        raise InvalidManifest("it has shards of arrays, but was saved by one rank")
    check_shards(body["shards"], body["leaves"])
    return {
        index: Shard(global_shape=tuple(shape), offsets=tuple(offsets))
        for index, shape, offsets in body["shards"]
    }


def _packs(names: object) -> list[str]:
    if type(names) is not list:
        raise InvalidManifest(f"its packs are {short(names)}")
    for name in names:
        if type(name) is not str or attempt_of_pack(name) is None:
            raise InvalidManifest(f"{short(name)} is not a pack name")
    if len(set(names)) != len(names):
        raise InvalidManifest("a pack is listed twice")
    return names


def _too_large(name: str, size_bytes: int) -> str:
    return (
        f"The manifest {name!r} has {size_bytes:,} bytes, more than the {MANIFEST_BYTES_MAX:,} "
        "that can be read back."
    )
