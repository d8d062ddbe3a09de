"""One file of all results, whole or not at all."""

import json
import os
import random
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]  # it has no types

from outlast.errors import MissingExtra
from outlast.results import Result
from outlast.results.export import ExportFailed, export
from outlast.testing import MemorySink
from tests.programs import python

RESULTS = [Result("a", "1"), Result('b"\n', '{"text": "日本"}'), Result("c", "[1.50, null]")]


@pytest.fixture
def sink() -> MemorySink:
    sink = MemorySink()
    sink.store(RESULTS, token=1, version="v1")
    return sink


class BrokenSink(MemorySink):
    def results(self) -> Iterator[Result]:
        yield Result("a", "1")
        raise RuntimeError("the server went away")


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_json_lines_hold_one_row_per_key_by_key(sink: MemorySink, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"

    count = export(sink, path)

    assert count == 3
    lines = path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"key": "a", "result": 1},
        {"key": 'b"\n', "result": {"text": "日本"}},
        {"key": "c", "result": [1.5, None]},
    ]
    assert "[1.50, null]" in lines[2]


def test_parquet_holds_keys_and_results_as_text(sink: MemorySink, tmp_path: Path) -> None:
    path = tmp_path / "results.PARQUET"

    count = export(sink, path)

    table = parquet.read_table(path)
    assert count == 3
    assert table.column_names == ["key", "result"]
    assert [Result(row["key"], row["result"]) for row in table.to_pylist()] == RESULTS


@pytest.mark.parametrize("name", ["results.jsonl", "results.parquet"])
def test_nothing_stored_is_a_file_without_rows(tmp_path: Path, name: str) -> None:
    assert export(MemorySink(), tmp_path / name) == 0
    assert files_in(tmp_path) == [name]


@pytest.mark.parametrize("name", ["results.jsonl", "results.parquet"])
def test_more_rows_than_are_written_at_once_are_all_there(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.results.export._ROWS_AT_ONCE", 100)
    sink = MemorySink()
    sink.store([Result(f"{number:05}", "1") for number in range(1050)], token=1, version="v1")
    path = tmp_path / name

    count = export(sink, path)

    is_parquet = name.endswith(".parquet")
    rows = parquet.read_table(path).num_rows if is_parquet else path.read_text().count("\n")
    assert count == rows == 1050


def test_a_result_with_line_breaks_is_one_line(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.store([Result("a", '{\r\n  "n": 1\n}')], token=1, version="v1")

    export(sink, tmp_path / "results.jsonl")

    assert (tmp_path / "results.jsonl").read_text() == '{"key": "a", "result": {"n": 1}}\n'


def test_a_result_that_is_not_json_and_would_break_a_line_is_refused(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.store([Result("a", "{\n")], token=1, version="v1")

    with pytest.raises(ExportFailed, match="The result of 'a' is not JSON"):
        export(sink, tmp_path / "results.jsonl")

    assert files_in(tmp_path) == []


@pytest.mark.parametrize("name", ["results.jsonl", "results.parquet"])
def test_a_sink_that_breaks_off_leaves_the_file_as_it_was(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("earlier")

    with pytest.raises(RuntimeError, match="went away"):
        export(BrokenSink(), tmp_path / name)

    assert (tmp_path / name).read_text() == "earlier"
    assert files_in(tmp_path) == [name]


def test_an_export_that_is_killed_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("earlier")
    source = """
        import sys, time
        from outlast.results import Result
        from outlast.results.export import export
        from outlast.testing import MemorySink

        class Slow(MemorySink):
            def results(self):
                for number in range(100_000):
                    yield Result(str(number), "1")
                print("halfway")
                time.sleep(60)

        export(Slow(), sys.argv[1])
    """

    with python(source, str(path)) as program:
        program.wait_for("halfway")
        program.signal(9)
        program.wait()

    assert path.read_text() == "earlier"
    assert all(name.endswith(".new") for name in files_in(tmp_path) if name != path.name)


@pytest.mark.parametrize("name", ["results.csv", "results", "jsonl"])
def test_another_kind_of_file_is_refused(sink: MemorySink, tmp_path: Path, name: str) -> None:
    with pytest.raises(ExportFailed, match=f"Unsupported export format: '{name}'") as caught:
        export(sink, tmp_path / name)

    assert caught.value.hint == "Use a file name ending in .jsonl or .parquet."


def test_a_folder_that_is_not_there_is_named(sink: MemorySink, tmp_path: Path) -> None:
    with pytest.raises(ExportFailed, match="No such file or directory"):
        export(sink, tmp_path / "nowhere" / "results.jsonl")


@pytest.fixture
def tiny_volume(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "tiny"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(mount)]
    subprocess.run(command, check=True, capture_output=True)
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


@pytest.mark.needs("mount-namespace")
@pytest.mark.parametrize("name", ["results.jsonl", "results.parquet"])
def test_a_full_disk_leaves_the_file_as_it_was(tiny_volume: Path, name: str) -> None:
    (tiny_volume / name).write_text("earlier")
    chance = random.Random(1)
    sink = MemorySink()
    results = [Result(str(number), f'"{chance.randbytes(500).hex()}"') for number in range(5000)]
    sink.store(results, token=1, version="v1")

    with pytest.raises(ExportFailed, match="No space left on device"):
        export(sink, tiny_volume / name)

    assert (tiny_volume / name).read_text() == "earlier"
    assert files_in(tiny_volume) == [name]


@pytest.mark.parametrize(("share", "mode"), [("none", 0o600), ("group", 0o660)])
def test_a_new_file_is_private_unless_files_are_shared(
    share: str, mode: int, sink: MemorySink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_SHARE", share)
    before = os.umask(0)
    try:
        export(sink, tmp_path / "results.jsonl")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "results.jsonl").stat().st_mode) == mode


def test_a_missing_package_is_named_with_its_extra(
    sink: MemorySink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(MissingExtra) as caught:
        export(sink, tmp_path / "results.parquet")

    assert caught.value.hint == "Run: pip install 'outlast[parquet]'"
    assert files_in(tmp_path) == []
