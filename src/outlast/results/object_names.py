"""The names of results in a folder or an object store. Pure.

`a/3f/KEY.EPOCH-TOKEN-QUEUE.VERSION.jsonl`: from the name alone, a listing shows which items are
done and which result of a key is the current one. The first two parts distribute the keys evenly
over 4096 folders. Earlier versions wrote `KEY.TOKEN.VERSION.jsonl`, with a token from a clock; such
a result is older than any other.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from outlast.queue.key_names import decode_key, encode_key, short_hash

TOP_FOLDERS = tuple(f"{digit:x}/" for digit in range(16))

_NAME = re.compile(
    r"[0-9a-f]/[0-9a-f]{2}/(?P<encoded>[a-z0-9_-]+)\."
    r"((?P<epoch>[0-9]{10})-)?(?P<token>[0-9]{19})(-(?P<queue>[0-9a-f]{12}))?\."
    r"(?P<version>[0-9a-f]{16})\.jsonl"
)


@dataclass(frozen=True, order=True, slots=True)
class ResultName:
    """The parsed name of a result. `queue` and `version` are hashes.

    `size_bytes` is the object's size in a listing; 0 if the name does not come from one.
    """

    encoded: str
    epoch: int
    token: int
    queue: str
    version: str
    text: str
    size_bytes: int = field(default=0, compare=False)

    @property
    def key(self) -> str | None:
        """The key, or None if it is too long for a name."""
        return decode_key(self.encoded)


def name_of(key: str, *, epoch: int, token: int, queue: str, version: str) -> ResultName:
    encoded, version_hash, queue_hash = encode_key(key), fingerprint(version), short_hash(queue, 6)
    fence = f"{epoch:010}-{token:019}-{queue_hash}"
    text = f"{folder_of_key(key)}{encoded}.{fence}.{version_hash}.jsonl"
    return ResultName(encoded, epoch, token, queue_hash, version_hash, text)


def parse_name(text: str, size_bytes: int = 0) -> ResultName | None:
    """Parse a name; None if it is not the name of a result."""
    match = _NAME.fullmatch(text)
    if match is None or (match["epoch"] is None) != (match["queue"] is None):
        return None
    return ResultName(
        match["encoded"],
        int(match["epoch"] or 0),
        int(match["token"]),
        match["queue"] or "",
        match["version"],
        text,
        size_bytes,
    )


def newest(names: Iterable[ResultName]) -> ResultName:
    """The current one of a key's results.

    Within a queue it is the one with the largest token; between queues, the one of the latest run.
    """
    of_queue: dict[str, ResultName] = {}
    for name in names:
        known = of_queue.setdefault(name.queue, name)
        if (name.token, name.epoch, name.version) > (known.token, known.epoch, known.version):
            of_queue[name.queue] = name
    return max(of_queue.values(), key=lambda name: (name.epoch, name.token, name.version))


def folder_of_key(key: str) -> str:
    digits = short_hash(key, 2)
    return f"{digits[0]}/{digits[1:3]}/"


def fingerprint(version: str) -> str:
    return short_hash(version, 8)
