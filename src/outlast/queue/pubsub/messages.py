"""The message format of a Pub/Sub queue, and the URL of its topic. Pure.

A message contains an item, its failure count and its errors, because Pub/Sub stores nothing else
and cannot change a message: an item that failed is published as a new message. Messages of other
programs are accepted as they are: the text is the payload, and the attribute `key`, or else the
message ID, is the key. A message that is marked as ours but malformed has a flaw, and becomes a
dead letter with that reason.
"""

import contextlib
import json
import math
from typing import NamedTuple, TypeGuard
from urllib.parse import parse_qsl, urlsplit

from outlast._base.google_cloud import is_project, is_topic_or_subscription
from outlast.queue.errors import ItemRefused, QueueUrlError
from outlast.queue.items import ERROR_CHARACTERS_MAX, ERRORS_KEPT, KEY_CHARACTERS_MAX, Item

MARK = {"outlast": "1"}
MESSAGE_BYTES_MAX = 9_500_000
"""Below the 10 MB limit of Pub/Sub, with room for attributes and future errors."""

# Leaves room for the suffixes of a queue's other topics, such as "-alone".
_NAME_CHARACTERS_MAX = 241
_OPTIONS = frozenset({"subscription", "ledger"})
_FAILURES_MAX = 1_000_000
_ERRORS_MAX = 1000
_KEPT_CHARACTERS_MAX = 100_000


class QueuedItem(NamedTuple):
    """The content of a message. `not_before` is wall time, in seconds since 1970.

    `flaw` is the reason why it cannot be processed, if any.
    """

    key: str
    payload: str
    failures: int = 0
    errors: tuple[str, ...] = ()
    not_before: float = 0.0
    flaw: str = ""

    def with_flaw(self, flaw: str) -> "QueuedItem":
        """A copy with this flaw, truncated so that it can be stored for inspection."""
        known = [error[-ERROR_CHARACTERS_MAX:] for error in self.errors[-ERRORS_KEPT:]]
        errors = (*known, f"The message cannot be processed: {flaw}.")
        return QueuedItem(self.key, self.payload[:_KEPT_CHARACTERS_MAX], errors=errors, flaw=flaw)

    def fitting(self) -> "QueuedItem":
        """The same, or a copy with a flaw if it is too large to be published again."""
        try:
            encode(self)
        except ItemRefused as error:
            return self.with_flaw(str(error).rstrip("."))
        return self

    @property
    def item(self) -> Item:
        return Item(self.key, self.payload, self.failures)


class PubSubAddress(NamedTuple):
    """The topic and subscription, and the URL of the ledger, if there is one."""

    project: str
    topic: str
    subscription: str
    ledger: str | None


def encode(queued: QueuedItem) -> bytes:
    """The message data."""
    fields: dict[str, object] = {"key": queued.key, "payload": queued.payload}
    if queued.failures or queued.errors:
        fields |= {"failures": queued.failures, "errors": queued.errors}
    if queued.not_before:
        fields["not_before"] = queued.not_before
    try:
        data = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise ItemRefused(
            f"Item {queued.key!r:.200} cannot be encoded: {error.reason}.",
            hint="Remove lone surrogates from the key and payload.",
        ) from None
    if len(data) > MESSAGE_BYTES_MAX:
        raise ItemRefused(
            f"Item {queued.key!r:.200} has {len(data):,} bytes; Pub/Sub allows at most "
            f"{MESSAGE_BYTES_MAX:,}.",
            hint="Store large payloads in a bucket, and publish their names.",
        )
    return data


def decode(data: bytes, attributes: dict[str, str], message_id: str) -> QueuedItem:
    """The content of a message from any publisher. Never raises."""
    text = data.decode(errors="replace")
    if attributes.get("outlast") == MARK["outlast"]:
        try:
            return _ours(data)
        except (ValueError, RecursionError) as error:
            return QueuedItem(message_id, text).with_flaw(str(error))
    key = attributes.get("key", "")
    return QueuedItem(key if _is_key(key) else message_id, text)


def _ours(data: bytes) -> QueuedItem:
    """A message that we published. Raises `ValueError` with the flaw."""
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object")
    key, payload, errors = fields.get("key"), fields.get("payload"), fields.get("errors", [])
    if not _is_key(key):
        raise ValueError(f"its key is {key!r:.100}")
    if not _is_text(payload):
        raise ValueError("its payload is not text")
    if not isinstance(errors, list) or len(errors) > _ERRORS_MAX or not all(map(_is_text, errors)):
        raise ValueError("its errors are not a list of strings")
    failures, not_before = fields.get("failures", 0), fields.get("not_before", 0.0)
    if type(failures) is not int or not 0 <= failures <= _FAILURES_MAX:
        raise ValueError(f"its number of failures is {_shown(failures)}")
    return QueuedItem(key, payload, failures, tuple(errors), _seconds(not_before))


def _seconds(value: object) -> float:
    """A time as a finite number. JSON also allows numbers with a thousand digits."""
    seconds = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"its not_before is {_shown(value)}")
    return seconds


def _is_key(key: object) -> TypeGuard[str]:
    return _is_text(key) and 0 < len(key) <= KEY_CHARACTERS_MAX and "\0" not in key


def _is_text(value: object) -> TypeGuard[str]:
    """Whether it is text that can be encoded as UTF-8: JSON may contain lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    # Python refuses to format an integer with thousands of digits.
    is_huge = isinstance(value, int) and value.bit_length() > 1000
    return "a number with too many digits" if is_huge else f"{value!r:.100}"


def parse_address(url: str) -> PubSubAddress:
    try:
        split = urlsplit(url)
    except ValueError:
        raise _bad_url(f"Could not parse the URL {url!r}.") from None
    topic = split.path.removeprefix("/")
    options = dict(parse_qsl(split.query, keep_blank_values=True))
    subscription = options.get("subscription", topic)
    if unknown := sorted(options.keys() - _OPTIONS):
        raise _bad_url(f"Unknown option {unknown[0]!r} in the queue URL.")
    if not is_project(split.netloc):
        raise _bad_url(f"{split.netloc!r} is not a valid Google Cloud project ID.")
    for name in (topic, subscription):
        if not is_topic_or_subscription(name) or len(name) > _NAME_CHARACTERS_MAX:
            raise _bad_url(f"{name!r} is not a valid name for a Pub/Sub topic or subscription.")
    return PubSubAddress(split.netloc, topic, subscription, options.get("ledger") or None)


def _bad_url(message: str) -> QueueUrlError:
    return QueueUrlError(
        message, hint="Use pubsub://project/topic?subscription=name&ledger=gs://bucket/folder."
    )
