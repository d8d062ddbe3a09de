"""The first line of a manifest: the format, and the length and hash of the rest.

A damaged or truncated manifest is never used. With a key (see `keys.py`) the line also holds a MAC,
and nothing in the manifest is parsed before the MAC is verified.
"""

import hmac
import json
from collections.abc import Collection, Mapping
from typing import Any

from outlast._base.strict_json import InvalidJson, strict_json
from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError
from outlast.checkpoint.format.keys import KEY_FILE, PLAIN, Hashing, load_hashings
from outlast.checkpoint.format.validation import (
    BYTES_MAX,
    InvalidManifest,
    checked_digest,
    checked_int,
)
from outlast.storage import ROUTINE, Limits, Store

MANIFEST_BYTES_MAX = 256 * 1024**2

_FIRST_BYTES = 1024**2
_HEAD_BYTES_MAX = 4096


def digest_of(data: Any) -> str:
    """A 128-bit hash that detects damage. For chunks, use the `hashing` of their manifest."""
    return PLAIN.digest(data)


def seal(name: str, body: Mapping[str, object], hashing: Hashing, *, version: int) -> bytes:
    """The bytes of a manifest. Raises `CheckpointError` if they could not be read back."""
    data = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    if len(data) > MANIFEST_BYTES_MAX - _HEAD_BYTES_MAX:
        raise CheckpointError(
            _too_large(name, len(data)),
            hint="Store large values of the state in arrays, not in bytes, strings or lists.",
        )
    head: dict[str, object] = {"outlast": version, "length": len(data), "xxh3_128": digest_of(data)}
    if (mac := hashing.mac(name, data)) is not None:
        head["mac"] = mac
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + data


def unseal(name: str, data: bytes, *, versions: Collection[int]) -> tuple[int, Any, Hashing]:
    """The format, the parsed body and the hashing of a manifest.

    Raises `CheckpointCorrupt` if it was changed, was not signed by a known key, has another format,
    or is not JSON.
    """
    first, _, body = data.partition(b"\n")
    version, length, digest, mac = _head(name, first, versions)
    if len(body) != length or digest_of(body) != digest:
        raise CheckpointCorrupt(f"The manifest {name!r} was truncated or changed.")
    hashing = _authenticated(name, body, mac)
    try:
        return version, strict_json(body), hashing
    except InvalidJson as error:
        raise invalid(name, error) from error


def invalid(name: str, reason: Exception) -> CheckpointCorrupt:
    """The error for a manifest that no save can have written."""
    return CheckpointCorrupt(
        f"The manifest {name!r} is invalid: {reason}.",
        hint="If another version of outlast wrote it, use that version.",
    )


def fetch(store: Store, name: str, *, limits: Limits = ROUTINE) -> bytes:
    """The bytes of a manifest. Raises `CheckpointCorrupt` instead of reading too many of them.

    One request suffices for most manifests. Of a longer one, as much is read as its first line
    announces.
    """
    data = store.read(name, length=_FIRST_BYTES, limits=limits)
    if len(data) < _FIRST_BYTES:
        return data
    first, newline, _ = data.partition(b"\n")
    _, length, _, _ = _head(name, first, None)
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


def _head(
    name: str, first: bytes, versions: Collection[int] | None
) -> tuple[int, int, str, object]:
    """The format, and the length, the hash and the optional MAC of the rest."""
    try:
        head = strict_json(first[:_HEAD_BYTES_MAX])
        version, length, digest = head["outlast"], head["length"], head["xxh3_128"]
        if versions is not None and type(version) is int and version not in versions:
            raise CheckpointCorrupt(
                f"The manifest {name!r} has format {version!r}, but this version reads "
                f"{' and '.join(map(str, sorted(versions)))}.",
                hint="Install the version of outlast that wrote it.",
            )
        checked_int(version, "the format", most=BYTES_MAX)
        checked_int(length, "the length", most=BYTES_MAX)
        return version, length, checked_digest(digest, "the hash"), head.get("mac")
    except (InvalidManifest, InvalidJson, KeyError, TypeError) as error:
        raise CheckpointCorrupt(f"The first line of the manifest {name!r} is damaged.") from error


def _too_large(name: str, size_bytes: int) -> str:
    return (
        f"The manifest {name!r} has {size_bytes:,} bytes, more than the {MANIFEST_BYTES_MAX:,} "
        "that can be read back."
    )
