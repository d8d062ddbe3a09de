"""How results are named in a folder or an object store. Pure.

`a/3f/KEY.TOKEN.VERSION.jsonl`: the name says all that has to be known to tell which results are
done and which one of a key counts, so that a listing answers it. The first two parts spread the
keys evenly over 4096 folders.
"""

import re
from typing import NamedTuple

from outlast.queue.key_names import decode_key, encode_key, short_hash

TOP_FOLDERS = tuple(f"{digit:x}/" for digit in range(16))

_NAME = re.compile(
    r"[0-9a-f]/[0-9a-f]{2}/"
    r"(?P<encoded>[a-z0-9_-]+)\.(?P<token>[0-9]{19})\.(?P<version>[0-9a-f]{16})\.jsonl"
)


class ResultName(NamedTuple):
    """The name of one result, taken apart. Of one key, the largest token counts."""

    encoded: str
    token: int
    version: str
    text: str

    @property
    def key(self) -> str | None:
        """The key, unless it is too long to stand in a name."""
        return decode_key(self.encoded)


def name_of(key: str, *, token: int, version: str) -> ResultName:
    encoded, version_hash = encode_key(key), fingerprint(version)
    text = f"{folder_of_key(key)}{encoded}.{token:019}.{version_hash}.jsonl"
    return ResultName(encoded, token, version_hash, text)


def parse_name(text: str) -> ResultName | None:
    """The parts of a name; None if it is not one of ours."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    return ResultName(match["encoded"], int(match["token"]), match["version"], text)


def folder_of_key(key: str) -> str:
    digits = short_hash(key, 2)
    return f"{digits[0]}/{digits[1:3]}/"


def fingerprint(version: str) -> str:
    return short_hash(version, 8)
