"""What `outlast publish` reads, and how it tells of what it cannot."""

import bisect
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from outlast.publishing import sources
from outlast.publishing.sources import RejectedItem, SourcedItem, SourceWarning, read_file
from outlast.publishing.spool import ItemSpool
from outlast.queue.items import Item


def read(*files: Path | str, key: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """The values by key, and what was bad."""
    items, bad = {}, []
    for found in (one for file in files for one in read_file(str(file), key)):
        if isinstance(found, RejectedItem):
            bad.append(f"{found.where}: {found.reason}")
        elif isinstance(found, SourceWarning):
            bad.append(f"{found.where}: note: {found.reason}")
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

    found = [one.item.key for one in read_file(str(file), None) if isinstance(one, SourcedItem)]

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
        (b'{"id": 1]', "The line is not JSON: Expecting ',' delimiter at column 9."),
        (b"\x00\x01\x02", "The line is not JSON: Expecting value at column 1."),
        (b"\xff\xfe", "The line is not UTF-8 text at byte 1. Convert it to UTF-8."),
        (b'{"o": 1, "p": 2}', "No key field 'id'. The fields are: 'o', 'p'."),
        (b"{}", "No key field 'id'. The fields are: none."),
        (b"[1]", "The value is not an object, so it has no key field 'id'."),
        (b'{"id": 1.5}', "The key field 'id' is 1.5. Use a string or an integer."),
        (b'{"id": true}', "The key field 'id' is True. Use a string or an integer."),
        (b'{"id": null}', "The key field 'id' is None. Use a string or an integer."),
        (b'{"id": ""}', "Invalid key ''. Use a string of 1 to 512 characters"),
        (b'{"id": "a", "x": NaN}', "NaN is not valid JSON. Use null or a string instead."),
        (
            b'{"id": "a", "x": [-Infinity]}',
            "-Infinity is not valid JSON. Use null or a string instead.",
        ),
        (b'{"id": "a", "x": 1e999}', "The value of item 'a' is not valid JSON: Out of range float"),
        (
            b'{"id": "a", "x": "\\ud800"}',
            "The value of item 'a' is not valid JSON: it contains a lone",
        ),
        (b'{"id": "\\ud800"}', "The value of item '\\ud800' is not valid JSON: it contains a lone"),
        (b'{"id": "a", "x": 1, "x": 2}', "The field 'x' occurs twice in one object. Remove one"),
        (b'{"id": "a", "x": {"y": 1, "y": 1}}', "The field 'y' occurs twice in one object."),
        (b'{"id": "a", "x": ' + b"1" * 5000 + b"}", "The line is not JSON: Exceeds the limit"),
        (b"[" * 200_000, "The value is nested too deeply. Flatten it"),
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


@pytest.mark.parametrize("key", [None, "id"])
def test_no_depth_of_nesting_ends_in_a_traceback(tmp_path: Path, key: str | None) -> None:
    file = tmp_path / "texts.jsonl"

    def is_rejected(depth: int) -> bool:
        file.write_text('{"id": "a", "x": ' + "[" * depth + "]" * depth + "}\n")
        items, bad = read(file, key=key)
        assert len(items) + len(bad) == 1
        assert all("nested too deeply" in one for one in bad)
        return bool(bad)

    # Just below what can be decoded are depths that can be decoded but not encoded again.
    limit = bisect.bisect_left(range(100_000), True, key=is_rejected)
    near = [is_rejected(depth) for depth in range(limit - 50, limit + 50)]

    assert not is_rejected(300)
    assert near == sorted(near)
    assert {*near} == {False, True}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'[\n  {"id": 1},\n  {"id": 2}\n]\n', "spans several lines. Write one item per line"),
        (b'{\n  "id": 1\n}\n', "a JSON value spans several lines."),
        (b"id,text\n1,a\n2,b\n", "If the file is CSV, its name must end in .csv"),
        (b"id\ttext\n1\ta\n", "JSONL has one JSON value per line."),
        (b"\x1f\x8b\x08\n\xff\n\n\xfe", "The file is compressed. Use: zcat FILE"),
        (b"PAR1\n\xff\n", "The file is Parquet. Convert it to JSONL or CSV."),
        (b"PK\x03\x04\n\xff\n", "The file is a ZIP archive."),
        ('{"id": 1}\n{"id": 2}\n'.encode("utf-16"), "The file is UTF-16. Convert it: iconv"),
    ],
)
def test_a_file_of_another_kind_is_told_once(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_bytes(content)

    items, bad = read(file, key="id")

    assert items == {}
    [warnings] = bad
    assert warnings.startswith(f"{file}:1: ")
    assert words in warnings


@pytest.mark.parametrize(
    ("name", "content"),
    [("e.jsonl", b""), ("blank.jsonl", b"\n \n"), ("e.csv", b""), ("heading.csv", b"id,text\n")],
)
def test_a_file_without_items_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)

    assert read(tmp_path / name) == ({}, [f"{tmp_path / name}: note: It contains no items."])


def test_a_folder_without_files_is_told(tmp_path: Path) -> None:
    assert read(tmp_path) == ({}, [f"{tmp_path}: note: It contains no items."])


def test_what_may_not_be_meant_is_told(tmp_path: Path) -> None:
    array = tmp_path / "array.json"
    array.write_text('[{"id": 1}, {"id": 2}]')
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"id": 1}')

    _, warnings = read(array, folder)

    assert warnings == [
        f"{array}: note: The array is a single item. For one item per element, use jq -c '.[]' "
        "first.",
        f"{folder}: note: Each file in this folder is one item. To publish their lines, name the "
        "files.",
    ]


def test_a_line_that_is_too_long_is_told_without_holding_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LINE_BYTES_MAX", 1024**2)
    file = tmp_path / "texts.jsonl"
    file.write_text(json.dumps({"id": "a", "text": "x" * 3 * 1024**2}) + '\n{"id": "b"}\n')

    items, bad = read(file, key="id")

    assert list(items) == ["b"]
    assert bad == [
        f"{file}:1: The line is longer than 1 MiB. Store the data in a file or bucket, and "
        "publish its path or URL."
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"id,text\n1,a\n2\n3,c\n", ":3: The row has 1 fields, but the header has 2."),
        (b"id,id\n1,a\n", ":1: The header names the column 'id' twice. Rename one of them."),
        (b"id,\n1,a\n", ":1: Column 2 has no name in the header. Name every column."),
        (b"id;text\n1;a\n", ":1: The columns are separated by ';'. Use commas instead."),
        (b'{"id": 1, "text": "a"}\n', ":1: The header looks like JSON. If the file is JSONL, "),
        (b'id,text\n1,a\n2,"b"x\n', ":3: The row is not valid CSV"),
        (b'id,text\n1,a\n2,"never closed\n', ":3: The row is not valid CSV"),
        (b"id,text\n1,a\n2,\xff\n", ":3: The line is not UTF-8 text at byte 3."),
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

    assert bad == [
        f"{tmp_path / 'nosuch.jsonl'}: Could not read the file: No such file or directory."
    ]


def test_a_file_name_that_is_no_text_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / b"caf\xe9.png".decode(errors="surrogateescape")).touch()

    _, bad = read(folder)

    assert len(bad) == 1
    assert "is not valid JSON" in bad[0]


def test_a_key_that_comes_again_is_fine_unless_its_content_differs() -> None:
    spool = ItemSpool()

    assert spool.add(SourcedItem("a:1", Item("k", "1"))) is None
    assert spool.add(SourcedItem("a:2", Item("k", "1"))) is None
    assert spool.add(SourcedItem("b:3", Item("k", "2"))) == RejectedItem(
        "b:3",
        "The key 'k' is already used at a:1 for different content. Give each item a unique key.",
    )
    assert (len(spool), spool.repeated) == (1, 1)
    spool.close()


def test_items_leave_the_spool_in_the_order_they_came() -> None:
    spool = ItemSpool()
    keys = [f"{number * 7919 % 1000}" for number in range(1000)]
    for key in keys:
        spool.add(SourcedItem("", Item(key, "0")))

    assert [item.key for item in spool.items()] == keys
    spool.close()
