"""Messages of Pub/Sub and the URLs of its queues, without Pub/Sub."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.queue import ItemRefused, QueueUrlError
from outlast.queue.pubsub_messages import MARK, Parcel, Place, decode, encode, parse_place

TEXT = st.text(st.characters(codec="utf-8"))
PARCELS = st.builds(
    Parcel,
    key=TEXT,
    payload=TEXT,
    failures=st.integers(0, 1000),
    errors=st.lists(TEXT, max_size=3).map(tuple),
    not_before=st.floats(0, 1e10),
)


@given(parcel=PARCELS)
def test_a_parcel_comes_out_as_it_went_in(parcel: Parcel) -> None:
    assert decode(encode(parcel), MARK, "7") == parcel


def test_a_fresh_item_is_a_short_message() -> None:
    assert encode(Parcel("a", "1")) == b'{"key":"a","payload":"1"}'


@given(data=st.binary(), marked=st.booleans(), key=st.text())
def test_nothing_that_others_publish_raises(data: bytes, marked: bool, key: str) -> None:
    attributes = {"key": key, **(MARK if marked else {})}

    parcel = decode(data, attributes, "7")

    assert 0 < len(parcel.key)
    assert isinstance(parcel.payload, str)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        {},
        {"key": 1, "payload": "1"},
        {"key": "a", "payload": 1},
        {"key": "a", "payload": "1", "errors": "x"},
        {"key": "a", "payload": "1", "failures": "x"},
        {"key": "a", "payload": "1", "not_before": "x"},
    ],
)
def test_a_message_marked_as_ours_but_made_otherwise_is_taken_as_it_is(fields: object) -> None:
    data = json.dumps(fields).encode()

    assert decode(data, MARK, "7") == Parcel("7", data.decode())


@pytest.mark.parametrize(
    ("key", "expected"), [("mine", "mine"), ("", "7"), ("x" * 513, "7"), ("a\0b", "7")]
)
def test_others_may_name_the_key(key: str, expected: str) -> None:
    assert decode(b"1", {"key": key}, "7") == Parcel(expected, "1")


def test_an_item_too_large_for_a_message_is_refused() -> None:
    with pytest.raises(ItemRefused, match=r"'a' has 10,000,0.. bytes; Pub/Sub takes 9,500,000"):
        encode(Parcel("a", "x" * 10_000_000))


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ItemRefused, match="cannot travel: surrogates not allowed"):
        encode(Parcel("a", "\ud800"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("pubsub://my-project/items", Place("my-project", "items", "items", None)),
        (
            "pubsub://my-project/items?subscription=workers",
            Place("my-project", "items", "workers", None),
        ),
        (
            "pubsub://my-project/items?ledger=gs%3A%2F%2Fbucket%2Ffolder",
            Place("my-project", "items", "items", "gs://bucket/folder"),
        ),
        (
            "pubsub://my-project/items?ledger=gs://bucket/folder&subscription=workers",
            Place("my-project", "items", "workers", "gs://bucket/folder"),
        ),
        ("pubsub://example.com:my-project/items", None),
    ],
)
def test_a_url_names_project_topic_subscription_and_ledger(
    url: str, expected: Place | None
) -> None:
    place = parse_place(url)

    assert place == (expected or Place("example.com:my-project", "items", "items", None))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("pubsub://my-project/items?subscripton=x", "no option 'subscripton'"),
        ("pubsub:///items", "'' is not a Google Cloud project"),
        ("pubsub://My_Project/items", "'My_Project' is not a Google Cloud project"),
        ("pubsub://my-project", "'' cannot name a topic"),
        ("pubsub://my-project/a/b", "'a/b' cannot name a topic"),
        ("pubsub://my-project/goog-items", "'goog-items' cannot name a topic"),
        ("pubsub://my-project/items?subscription=9", "'9' cannot name a topic or a subscription"),
        ("pubsub://[my-project/items", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_is_refused(url: str, words: str) -> None:
    with pytest.raises(QueueUrlError, match=words) as caught:
        parse_place(url)

    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Write pubsub://project/topic")
