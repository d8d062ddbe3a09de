"""Messages of Pub/Sub and the URLs of its queues, without Pub/Sub."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.queue import ItemRefused, QueueUrlError
from outlast.queue.pubsub.messages import (
    MARK,
    PubSubAddress,
    QueuedItem,
    decode,
    encode,
    parse_address,
)

TEXT = st.text(st.characters(codec="utf-8"))
PARCELS = st.builds(
    QueuedItem,
    key=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=512),
    payload=TEXT,
    failures=st.integers(0, 1000),
    errors=st.lists(TEXT, max_size=3).map(tuple),
    not_before=st.floats(0, 1e10),
    flaw=st.just(""),
)


@given(queued=PARCELS)
def test_a_parcel_comes_out_as_it_went_in(queued: QueuedItem) -> None:
    assert decode(encode(queued), MARK, "7") == queued


def test_a_fresh_item_is_a_short_message() -> None:
    assert encode(QueuedItem("a", "1")) == b'{"key":"a","payload":"1"}'


@given(data=st.binary(), marked=st.booleans(), key=st.text())
def test_nothing_that_others_publish_raises(data: bytes, marked: bool, key: str) -> None:
    attributes = {"key": key, **(MARK if marked else {})}

    queued = decode(data, attributes, "7")

    assert 0 < len(queued.key)
    assert isinstance(queued.payload, str)


OURS = {"key": "a", "payload": "1"}


@pytest.mark.parametrize(
    ("fields", "flaw"),
    [
        ([], "it is not a JSON object"),
        ({}, "its key is None"),
        (OURS | {"key": 1}, "its key is 1"),
        (OURS | {"key": ""}, "its key is ''"),
        (OURS | {"key": "a\0"}, "its key is 'a\\x00'"),
        (OURS | {"key": "x" * 513}, "its key is 'xxx"),
        (OURS | {"key": "\ud800"}, "its key is '\\ud800'"),
        (OURS | {"payload": 1}, "its payload is not text"),
        (OURS | {"payload": "\ud800"}, "its payload is not text"),
        (OURS | {"errors": "x"}, "its errors are not a list of strings"),
        (OURS | {"errors": [1]}, "its errors are not a list of strings"),
        (OURS | {"errors": ["x"] * 1001}, "its errors are not a list of strings"),
        (OURS | {"failures": "x"}, "its number of failures is 'x'"),
        (OURS | {"failures": -1}, "its number of failures is -1"),
        (OURS | {"failures": True}, "its number of failures is True"),
        (OURS | {"failures": 10**400}, "its number of failures is a number with too many digits"),
        (OURS | {"not_before": "x"}, "its not_before is 'x'"),
        (OURS | {"not_before": 10**400}, "its not_before is a number with too many digits"),
        (OURS | {"not_before": float("nan")}, "its not_before is nan"),
        (OURS | {"not_before": float("inf")}, "its not_before is inf"),
        (OURS | {"not_before": -1}, "its not_before is -1"),
        (OURS | {"not_before": True}, "its not_before is True"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_message_marked_as_ours_but_made_otherwise_has_a_flaw(fields: object, flaw: str) -> None:
    data = json.dumps(fields).encode()

    queued = decode(data, MARK, "7")

    assert (queued.key, queued.payload) == ("7", data.decode())
    assert queued.flaw.startswith(flaw)
    assert queued.errors == (f"The message cannot be processed: {queued.flaw}.",)
    encode(queued)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 5000], ids=lambda data: repr(data)[:12]
)
def test_a_message_marked_as_ours_that_is_no_json_has_a_flaw(data: bytes) -> None:
    queued = decode(data, MARK, "7")

    assert queued.key == "7"
    assert queued.flaw
    encode(queued)


def test_what_is_too_large_to_be_published_again_has_a_flaw() -> None:
    large = QueuedItem("a", "\n" * 9_000_000, failures=1, errors=("x" * 5_000_000,) * 3)

    kept = large.fitting()

    assert "bytes; Pub/Sub allows at most" in kept.flaw
    assert kept.key == "a"
    assert encode(kept)
    assert QueuedItem("a", "1").fitting() == QueuedItem("a", "1")


@pytest.mark.parametrize(
    ("key", "expected"), [("mine", "mine"), ("", "7"), ("x" * 513, "7"), ("a\0b", "7")]
)
def test_others_may_name_the_key(key: str, expected: str) -> None:
    assert decode(b"1", {"key": key}, "7") == QueuedItem(expected, "1")


def test_an_item_too_large_for_a_message_is_refused() -> None:
    with pytest.raises(
        ItemRefused, match=r"'a' has 10,000,0.. bytes; Pub/Sub allows at most 9,500,000"
    ):
        encode(QueuedItem("a", "x" * 10_000_000))


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ItemRefused, match="cannot be encoded: surrogates not allowed"):
        encode(QueuedItem("a", "\ud800"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("pubsub://my-project/items", PubSubAddress("my-project", "items", "items", None)),
        (
            "pubsub://my-project/items?subscription=workers",
            PubSubAddress("my-project", "items", "workers", None),
        ),
        (
            "pubsub://my-project/items?ledger=gs%3A%2F%2Fbucket%2Ffolder",
            PubSubAddress("my-project", "items", "items", "gs://bucket/folder"),
        ),
        (
            "pubsub://my-project/items?ledger=gs://bucket/folder&subscription=workers",
            PubSubAddress("my-project", "items", "workers", "gs://bucket/folder"),
        ),
        ("pubsub://example.com:my-project/items", None),
    ],
)
def test_a_url_names_project_topic_subscription_and_ledger(
    url: str, expected: PubSubAddress | None
) -> None:
    place = parse_address(url)

    assert place == (expected or PubSubAddress("example.com:my-project", "items", "items", None))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("pubsub://my-project/items?subscripton=x", "Unknown option 'subscripton'"),
        ("pubsub:///items", "'' is not a valid Google Cloud project ID"),
        ("pubsub://My_Project/items", "'My_Project' is not a valid Google Cloud project ID"),
        ("pubsub://my-project", "'' is not a valid name for a Pub/Sub topic"),
        ("pubsub://my-project/a/b", "'a/b' is not a valid name for a Pub/Sub topic"),
        ("pubsub://my-project/goog-items", "'goog-items' is not a valid name for a Pub/Sub topic"),
        (
            "pubsub://my-project/items?subscription=9",
            "'9' is not a valid name for a Pub/Sub topic or subscription",
        ),
        ("pubsub://[my-project/items", "Could not parse the URL"),
    ],
)
def test_a_url_that_cannot_be_is_refused(url: str, words: str) -> None:
    with pytest.raises(QueueUrlError, match=words) as caught:
        parse_address(url)

    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Use pubsub://project/topic")
