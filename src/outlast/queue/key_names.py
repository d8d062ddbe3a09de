"""Encode the key of an item for use in an object name. Pure.

Lowercase letters, digits and '-' stay as they are; every other byte becomes '_' and two hex digits.
So a key cannot escape its folder, and two keys never collide on file systems that ignore case. A
long key is replaced by its hash.
"""

import re
from hashlib import blake2b

_CHARACTERS_MAX = 120
_HASHED = "__"
_UNSAFE = re.compile(rb"[^a-z0-9-]")
_ESCAPED = re.compile(rb"_([0-9a-f]{2})")


def encode_key(key: str) -> str:
    encoded = _UNSAFE.sub(lambda match: b"_%02x" % ord(match[0]), key.encode()).decode()
    return encoded if len(encoded) <= _CHARACTERS_MAX else _HASHED + short_hash(key, 20)


def decode_key(encoded: str) -> str | None:
    """The key, or None if it was replaced by its hash."""
    if encoded.startswith(_HASHED):
        return None
    raw = _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), encoded.encode())
    return raw.decode()


def short_hash(text: str, size_bytes: int) -> str:
    return blake2b(text.encode(), digest_size=size_bytes).hexdigest()
