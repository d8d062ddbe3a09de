"""What a message of the queue holds, and the URL that names its topic. Pure.

A message carries an item, how often it failed and the errors, because Pub/Sub keeps nothing beside
a message and cannot change one: an item that failed travels on as a new message. Messages that
other programs published are taken as they are: the text is the payload, and the attribute `key`,
or else the id of the message, is the key.
"""

import json
import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from outlast.queue.errors import ItemRefused, QueueUrlError
from outlast.queue.items import KEY_CHARACTERS_MAX, Item

MARK = {"outlast": "1"}
MESSAGE_BYTES_MAX = 9_500_000
"""Below the 10 MB of Pub/Sub, with room for attributes and for errors to come."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._~+%-]{2,240}")
_PROJECT = re.compile(r"[a-z][a-z0-9.:-]{4,61}[a-z0-9]")
_OPTIONS = frozenset({"subscription", "ledger"})


class Parcel(NamedTuple):
    """An item on its way. `not_before` is wall time, in seconds since 1970."""

    key: str
    payload: str
    failures: int = 0
    errors: tuple[str, ...] = ()
    not_before: float = 0.0

    @property
    def item(self) -> Item:
        return Item(self.key, self.payload, self.failures)


class Place(NamedTuple):
    """Where the messages are, and where the published keys are written down, if anywhere."""

    project: str
    topic: str
    subscription: str
    ledger: str | None


def encode(parcel: Parcel) -> bytes:
    """The data of a message."""
    fields: dict[str, object] = {"key": parcel.key, "payload": parcel.payload}
    if parcel.failures or parcel.errors:
        fields |= {"failures": parcel.failures, "errors": parcel.errors}
    if parcel.not_before:
        fields["not_before"] = parcel.not_before
    try:
        data = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise ItemRefused(
            f"The item {parcel.key!r:.200} cannot travel: {error.reason}.",
            hint="Neither key nor payload may hold half a surrogate pair.",
        ) from None
    if len(data) > MESSAGE_BYTES_MAX:
        raise ItemRefused(
            f"The item {parcel.key!r:.200} has {len(data):,} bytes; Pub/Sub takes "
            f"{MESSAGE_BYTES_MAX:,}.",
            hint="Keep large payloads in a store, and publish their names.",
        )
    return data


def decode(data: bytes, attributes: dict[str, str], message_id: str) -> Parcel:
    """What a message holds, whoever published it. Nothing in it can raise an error."""
    if attributes.get("outlast") == MARK["outlast"]:
        try:
            return _ours(json.loads(data))
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
    key = attributes.get("key", "")
    if not 0 < len(key) <= KEY_CHARACTERS_MAX or "\0" in key:
        key = message_id
    return Parcel(key, data.decode(errors="replace"))


def _ours(fields: dict[str, object]) -> Parcel:
    key, payload = fields["key"], fields["payload"]
    errors = fields.get("errors", [])
    if not isinstance(key, str) or not isinstance(payload, str) or not isinstance(errors, list):
        raise TypeError
    failures, not_before = fields.get("failures", 0), fields.get("not_before", 0.0)
    if not isinstance(failures, int) or not isinstance(not_before, int | float):
        raise TypeError
    return Parcel(key, payload, failures, tuple(map(str, errors)), float(not_before))


def parse_place(url: str) -> Place:
    try:
        split = urlsplit(url)
    except ValueError:
        raise _bad_url(f"The URL {url!r} cannot be read.") from None
    topic = split.path.removeprefix("/")
    options = dict(parse_qsl(split.query, keep_blank_values=True))
    subscription = options.get("subscription", topic)
    if unknown := sorted(options.keys() - _OPTIONS):
        raise _bad_url(f"The URL of a queue has no option {unknown[0]!r}.")
    if not _PROJECT.fullmatch(split.netloc):
        raise _bad_url(f"{split.netloc!r} is not a Google Cloud project.")
    for name in (topic, subscription):
        if not _NAME.fullmatch(name) or name.startswith("goog"):
            raise _bad_url(f"{name!r} cannot name a topic or a subscription of Pub/Sub.")
    return Place(split.netloc, topic, subscription, options.get("ledger") or None)


def _bad_url(message: str) -> QueueUrlError:
    return QueueUrlError(
        message, hint="Write pubsub://project/topic?subscription=name&ledger=gs://bucket/folder."
    )
