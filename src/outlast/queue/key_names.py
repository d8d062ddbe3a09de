"""How the key of an item is written in the name of an object. Pure.

In lower case letters, digits and '-', everything else as '_' and two hex digits a byte: so a key
neither leads out of its folder nor meets another one where upper and lower case are the same. A
long key is written as its hash.
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
    """The key, unless it was too long to be written."""
    if encoded.startswith(_HASHED):
        return None
    raw = _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), encoded.encode())
    return raw.decode()


def short_hash(text: str, size_bytes: int) -> str:
    return blake2b(text.encode(), digest_size=size_bytes).hexdigest()
