"""How a file proves that it is whole, where neither rename nor exclusive create can be trusted.

On FUSE and network mounts an object lies at once under its final name, with `~sealed` added,
which no name of an object can hold. The file is the bytes of the object and then a seal of 64
bytes, written last:

    8  magic         b"outlast1"
    8  length        of the bytes before the seal, little endian
    16 writer        random; tells whose file this is
    16 hash          BLAKE2b of the bytes, if there are at most `HASHED_BYTES_MAX`; else zeros
    16 seal hash     BLAKE2b of the 48 bytes before

A file without a seal that fits is torn: it is never listed and never read. Small objects, such as
manifests, are proven by their hash at each look. Large ones are synced before their seal is
written, so that a seal means that the bytes lie before it; their content is what the hashes of a
checkpoint's chunks are for. Pure: takes and returns bytes.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

SUFFIX = "~sealed"
SEAL_BYTES = 64
HASHED_BYTES_MAX = 1024**2

_MAGIC = b"outlast1"
_HEAD = struct.Struct("<8sQ16s16s")
_HASH_BYTES = 16
_NO_HASH = bytes(_HASH_BYTES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """What a sealed file says about itself."""

    length_bytes: int
    writer: bytes
    hash: bytes

    def pack(self) -> bytes:
        head = _HEAD.pack(_MAGIC, self.length_bytes, self.writer, self.hash)
        return head + _hash(head)

    def vouches_for(self, payload: bytes | bytearray) -> bool:
        """Whether these are the bytes that were sealed, as far as the seal can tell."""
        return len(payload) == self.length_bytes and self.hash in (_NO_HASH, _hash(payload))


def seal(payload: Sequence[memoryview], length_bytes: int, *, writer: bytes) -> Seal:
    """The seal for the bytes of an object."""
    hashed = _hash(*payload) if length_bytes <= HASHED_BYTES_MAX else _NO_HASH
    return Seal(length_bytes=length_bytes, writer=writer, hash=hashed)


def unpack(tail: bytes, file_bytes: int) -> Seal | None:
    """The seal in the last bytes of a file of this size, or nothing if the file is torn."""
    if len(tail) != SEAL_BYTES or _hash(tail[: _HEAD.size]) != tail[_HEAD.size :]:
        return None
    magic, length_bytes, writer, hashed = _HEAD.unpack(tail[: _HEAD.size])
    if magic != _MAGIC or length_bytes + SEAL_BYTES != file_bytes:
        return None
    return Seal(length_bytes=length_bytes, writer=writer, hash=hashed)


def _hash(*parts: bytes | bytearray | memoryview) -> bytes:
    state = hashlib.blake2b(digest_size=_HASH_BYTES)
    for part in parts:
        state.update(part)
    return state.digest()
