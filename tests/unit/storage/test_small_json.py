"""A small JSON object is read from a store without trusting its size or content."""

import os
from pathlib import Path

import pytest

from outlast._base.strict_json import InvalidJson
from outlast.storage import NotFound, open_store, read_json_object
from outlast.storage.memory import MemoryStore


def test_an_object_is_read() -> None:
    store = MemoryStore()
    store.create("a.json", [b'{"key": [1, null]}'])

    assert read_json_object(store, "a.json") == {"key": [1, None]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"[" * 50_000, "RecursionError"),
        (b'{"a":' * 10_000, "RecursionError"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"a": 1, "a": 2}', "same key twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": "' + b"x" * 70_000 + b'"}', "larger than 65,536 bytes"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_everything_else_is_refused(data: bytes, reason: str) -> None:
    store = MemoryStore()
    store.create("a.json", [data])

    with pytest.raises(InvalidJson, match=reason):
        read_json_object(store, "a.json")


def test_a_huge_sparse_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    os.truncate(tmp_path / "a.json", 2**43)

    with pytest.raises(InvalidJson, match="larger than"):
        read_json_object(open_store(tmp_path), "a.json")


def test_a_missing_object_is_not_found() -> None:
    with pytest.raises(NotFound):
        read_json_object(MemoryStore(), "a.json")
