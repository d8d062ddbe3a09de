"""What `outlast publish` reads, and how it tells of what it cannot."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from outlast.cli import sources
from outlast.cli.sources import Bad, Sourced, read_items
from outlast.cli.spool import Spool
from outlast.queue.items import Item


def read(*files: Path | str, key: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """The values by key, and what was bad."""
    items, bad = {}, []
    for found in read_items([str(file) for file in files], key):
        if isinstance(found, Bad):
            bad.append(f"{found.where}: {found.what}")
        else:
            items[found.item.key] = found.item.value
    return items, bad


def test_jsonl_gives_an_item_per_line_with_its_key_from_a_field(tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text('{"id": "a", "text": "one"}\n\n{"id": 7, "text": "zwei ü"}')

    items, bad = read(file, key="id")

    assert items == {"a": {"id": "a", "text": "one"}, "7": {"id": 7, "text": "zwei ü"}}
    assert bad == []


def test_without_a_field_the_key_is_a_hash_of_the_content(tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text('{"a": 1, "b": 2}\n{"b": 2, "a": 1}\n"text"\n[1, 2]\n')

    found = [one.item.key for one in read_items([str(file)], None) if isinstance(one, Sourced)]

    assert found[0] == found[1], "The order of fields means nothing."
    assert len(set(found)) == 3
    assert all(len(key) == 32 for key in found)


def test_csv_gives_an_item_per_row_with_the_heading_as_names(tmp_path: Path) -> None:
    file = tmp_path / "texts.CSV"
    file.write_bytes(
        b'\xef\xbb\xbfid,text\r\n1,"with, comma"\r\n2,"over\ntwo lines"\r\n\r\n3,x\r\n'
    )

    items, bad = read(file, key="id")

    assert items == {
        "1": {"id": "1", "text": "with, comma"},
        "2": {"id": "2", "text": "over\ntwo lines"},
        "3": {"id": "3", "text": "x"},
    }
    assert bad == []


def test_a_folder_gives_an_item_per_file_with_its_path_as_key(tmp_path: Path) -> None:
    for name in ("b.png", "a/c.png", ".hidden", ".git/config"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "images" / "dangling").symlink_to("nowhere")

    items, bad = read(tmp_path / "images")

    folder = tmp_path / "images"
    assert items == {
        "b.png": {"path": str(folder / "b.png")},
        "a/c.png": {"path": str(folder / "a" / "c.png")},
    }
    assert bad == []


def test_standard_input_is_jsonl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": 1}\nnot json\n')))

    items, bad = read("-", key="id")

    assert items == {"1": {"id": 1}}
    assert bad[0].startswith("standard input:2: The line is not JSON")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"id": 1', "The line is not JSON"),
        (b"\xff\xfe", "It is not UTF-8 text at byte 1."),
        (b'{"other": 1}', "It has no field 'id' for its key."),
        (b"[1]", "It is no object, so it has no field 'id'."),
        (b'{"id": 1.5}', "Its field 'id' is 1.5; a key is text or a whole number."),
        (b'{"id": true}', "Its field 'id' is True; a key is text or a whole number."),
        (b'{"id": null}', "Its field 'id' is None; a key is text or a whole number."),
        (b'{"id": ""}', "The key '' cannot be used."),
        (b'{"id": "a", "x": NaN}', "The item 'a' is not a JSON value"),
        (b'{"id": "a", "x": "\\ud800"}', "The item 'a' is not a JSON value"),
        (b"[" * 200_000, "The line is not JSON"),
    ],
)
def test_a_bad_line_is_told_with_its_number_and_the_rest_is_read(
    tmp_path: Path, line: bytes, words: str
) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_bytes(b'{"id": "first"}\n' + line + b'\n{"id": "last"}\n')

    items, bad = read(file, key="id")

    assert list(items) == ["first", "last"]
    assert len(bad) == 1
    assert bad[0].startswith(f"{file}:2: {words}")


def test_a_line_that_is_too_long_is_told_without_holding_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LINE_BYTES_MAX", 1024**2)
    file = tmp_path / "texts.jsonl"
    file.write_text(json.dumps({"id": "a", "text": "x" * 3 * 1024**2}) + '\n{"id": "b"}\n')

    items, bad = read(file, key="id")

    assert list(items) == ["b"]
    assert bad == [f"{file}:1: It is longer than 1 MiB; publish where the data is."]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"id,text\n1,a\n2\n3,c\n", ":3: The row has 1 fields, the heading 2."),
        (b"id,id\n1,a\n", ":1: The heading names a column twice, or not at all."),
        (b"id,\n1,a\n", ":1: The heading names a column twice, or not at all."),
        (b'id,text\n1,a\n2,"b"x\n', ":3: The row is not CSV"),
        (b'id,text\n1,a\n2,"never closed\n', ":3: The row is not CSV"),
        (b"id,text\n1,a\n2,\xff\n", ":3: The row is not CSV: It is not UTF-8 text at byte 3."),
    ],
)
def test_a_bad_row_is_told_with_its_number(tmp_path: Path, text: bytes, words: str) -> None:
    file = tmp_path / "texts.csv"
    file.write_bytes(text)

    _, bad = read(file, key="id")

    assert len(bad) == 1
    assert bad[0].startswith(f"{file}{words}")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    _, bad = read(tmp_path / "nosuch.jsonl")

    assert bad == [f"{tmp_path / 'nosuch.jsonl'}: It cannot be read: No such file or directory."]


def test_a_file_name_that_is_no_text_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / b"caf\xe9.png".decode(errors="surrogateescape")).touch()

    _, bad = read(folder)

    assert len(bad) == 1
    assert "is not a JSON value" in bad[0]


def test_a_key_that_comes_again_is_fine_unless_its_content_differs() -> None:
    spool = Spool()

    assert spool.add(Sourced("a:1", Item("k", "1"))) is None
    assert spool.add(Sourced("a:2", Item("k", "1"))) is None
    assert spool.add(Sourced("b:3", Item("k", "2"))) == Bad(
        "b:3", "The key 'k' was at a:1 already, with other content."
    )
    assert (len(spool), spool.repeated) == (1, 1)
    spool.close()


def test_items_leave_the_spool_in_the_order_they_came() -> None:
    spool = Spool()
    keys = [f"{number * 7919 % 1000}" for number in range(1000)]
    for key in keys:
        spool.add(Sourced("", Item(key, "0")))

    batches = list(spool.batches(items_max=300, characters_max=1000))
    small = list(spool.batches(items_max=300, characters_max=250))

    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    assert [len(batch) for batch in small] == [250] * 4
    assert [item.key for batch in batches for item in batch] == keys
    spool.close()
