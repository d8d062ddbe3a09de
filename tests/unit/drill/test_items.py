import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from outlast.drills.compare.items import check_key, compare_items
from outlast.drills.compare.rows import Cell, Table, TornFile, parse_address, read_tables
from outlast.drills.errors import DrillError
from outlast.drills.rehearsal import drill


def table(
    columns: str, *rows: tuple[Cell, ...], own_numbers: frozenset[str] = frozenset()
) -> Table:
    return Table(name="t", columns=tuple(columns.split()), rows=rows, own_numbers=own_numbers)


BASELINE = table("item score", ("a", 1), ("b", 2), ("c", 3), ("d", 4))


def test_the_same_rows_in_another_order_are_the_same() -> None:
    found = compare_items(BASELINE, table("item score", ("d", 4), ("b", 2), ("a", 1), ("c", 3)))

    assert (found.lost, found.doubled, found.changed) == (0, 0, None)
    assert found.items == 4


def test_a_missing_row_is_a_lost_item() -> None:
    found = compare_items(BASELINE, table("item score", ("a", 1), ("c", 3), ("d", 4)))

    assert (found.lost, found.doubled) == (1, 0)
    assert found.lost_examples == ("b",)


def test_a_repeated_row_is_a_doubled_item_whatever_else_is_in_it() -> None:
    found = compare_items(
        BASELINE, table("item score", ("a", 1), ("b", 2), ("b", 9), ("b", 2), ("c", 3), ("d", 4))
    )

    assert (found.lost, found.doubled) == (0, 2)
    assert found.doubled_examples == ("b",)


def test_numbers_that_the_storage_gives_do_not_hide_what_was_lost_and_doubled() -> None:
    """One lost and one doubled: by the storage's own numbers, nothing would be amiss."""
    numbers = frozenset({"id"})
    baseline = table("id item", (1, "a"), (2, "b"), (3, "c"), own_numbers=numbers)
    after = table("id item", (1, "a"), (2, "a"), (3, "c"), own_numbers=numbers)

    found = compare_items(baseline, after)

    assert found.key == ("item",)
    assert (found.lost, found.doubled) == (1, 1)


def test_a_number_of_the_storage_is_the_key_if_nothing_else_is() -> None:
    numbers = frozenset({"id"})
    baseline = table("id score", (1, 0.5), (2, 0.5), own_numbers=numbers)

    found = compare_items(baseline, table("id score", (1, 0.5), own_numbers=numbers))

    assert found.key == ("id",)
    assert found.lost == 1


def test_a_key_may_need_two_columns() -> None:
    baseline = table("doc part text", ("x", 1, "same"), ("x", 2, "same"), ("y", 1, "same"))

    found = compare_items(baseline, table("doc part text", ("x", 1, "same"), ("y", 1, "same")))

    assert found.key == ("doc", "part")
    assert found.lost_examples == ("x 2",)


def test_fractions_and_times_are_no_keys() -> None:
    baseline = table("at score item", (17.5, "0.25", "a"), (18.5, "0.75", "b"))

    found = compare_items(
        baseline, table("at score item", (99.5, "0.25", "a"), (98.5, "0.75", "b"))
    )

    assert found.key == ("item",)
    assert found.changed == "'at' of 'a' is 99.5, not 17.5"


def test_a_key_can_be_named() -> None:
    baseline = table("item batch", ("a", 1), ("b", 2))

    assert compare_items(baseline, baseline, key="batch").key == ("batch",)


def test_rows_without_any_key_are_compared_whole() -> None:
    baseline = table("score", (1,), (1,), (2,))

    found = compare_items(baseline, table("score", (1,), (2,), (2,)))

    assert (found.lost, found.doubled) == (1, 1)


def test_a_row_of_nobody_is_told() -> None:
    found = compare_items(BASELINE, table("item score", *BASELINE.rows, ("z", 9)))

    assert found.changed == "'z' is not in the baseline"


def test_an_empty_result_has_lost_everything() -> None:
    assert compare_items(BASELINE, table("")).lost == 4


def test_json_lines_csv_and_sqlite_are_read_alike(tmp_path: Path) -> None:
    lines = tmp_path / "r.jsonl"
    lines.write_text("".join(json.dumps({"item": n, "tags": [n]}) + "\n" for n in "ab"))
    cells = tmp_path / "r.csv"
    cells.write_text("item,score\na,1\nb,2\n")
    database = tmp_path / "r.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE result (id INTEGER PRIMARY KEY, item TEXT)")
        connection.execute("INSERT INTO result (item) VALUES ('a'), ('b')")
        connection.commit()

    [from_lines] = read_tables(lines, "")
    [from_cells] = read_tables(cells, "item")
    [from_database] = read_tables(database, "")
    [selected] = read_tables(database, "select item from result where item = 'b'")

    assert from_lines.rows == (("a", '["a"]'), ("b", '["b"]'))
    assert from_cells.rows == (("a",), ("b",))
    assert from_database.rows == ((1, "a"), (2, "b"))
    assert from_database.own_numbers == {"id"}
    assert selected.rows == (("b",),)


@pytest.mark.parametrize("fenced", [False, True], ids=["earlier versions", "this version"])
def test_of_this_librarys_own_files_only_the_results_count(tmp_path: Path, fenced: bool) -> None:
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE outlast_runs (lease INTEGER, worker TEXT)")
        connection.execute("INSERT INTO outlast_runs VALUES (1, 'me')")
        connection.execute(
            "CREATE TABLE results (key TEXT PRIMARY KEY, result TEXT, version TEXT, token INTEGER,"
            " stored_at TEXT" + (", queue TEXT, epoch INTEGER" if fenced else "") + ")"
        )
        more = ", 'random', 3" if fenced else ""
        connection.execute(f"INSERT INTO results VALUES ('a', '1', '', 7, 'now'{more})")
        connection.commit()

    for selection in ("", "results"):
        [found] = read_tables(path, selection)
        assert found.columns == ("key", "result", "version")
        assert found.rows == (("a", "1", ""),)


def test_csv_without_a_header_has_numbered_columns(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("1,0.5\n2,0.25\n")

    [found] = read_tables(path, "")

    assert found.columns == ("column 1", "column 2")
    assert len(found.rows) == 2


def test_reading_a_database_changes_nothing_in_it(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE result (item TEXT)")
        connection.commit()
    before = path.read_bytes()

    with pytest.raises(DrillError, match="no such table: drop table result"):
        read_tables(path, "drop table result")
    [found] = read_tables(path, "")

    assert found.columns == ("item",)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("r.jsonl", b'{"item": 1}\n{"it', "line 2 is not valid JSON"),
        ("r.csv", b"item,score\na,1\nb", "row 3 has 1 cells, not 2"),
        ("r.csv", b"item\n\xff", "not text"),
        ("r.db", b"", "not a SQLite database"),
        ("r.db", b"SQLite format 3\0" + b"\0" * 200, "not a database|malformed"),
    ],
)
def test_a_file_that_was_cut_off_is_torn(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(TornFile, match=words):
        read_tables(path, "")


def test_a_selection_that_is_not_there_is_refused(tmp_path: Path) -> None:
    cells = tmp_path / "r.csv"
    cells.write_text("item,score\na,1\n")
    database = tmp_path / "r.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE result (item TEXT)")

    with pytest.raises(DrillError, match="no column 'key'"):
        read_tables(cells, "key")
    with pytest.raises(DrillError, match="no such table: results"):
        read_tables(database, "results")


def test_an_address_has_a_selection_only_behind_a_file_of_rows() -> None:
    assert parse_address("out/r.jsonl#id, score") == ("out/r.jsonl", "id, score")
    assert parse_address("jobs.db") == ("jobs.db", "")
    assert parse_address("notes#1.txt") == ("notes#1.txt", "")


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_a_line_of_json_ends_only_at_a_newline(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f'{{"text": "a{mark}b"}}\n{{"text": "c"}}\n', encoding="utf-8")

    [found] = read_tables(path, "")

    assert found.rows == ((f"a{mark}b",), ("c",))


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (",score", ("", "score")),
        ("e,-", ("e", "-")),
        ("id,E.d", ("id", "E.d")),
        ("a,", ("column 1", "column 2")),
        ("nan,a", ("column 1", "column 2")),
        ("a,a", ("column 1", "column 2")),
        ("-1e5,a", ("column 1", "column 2")),
    ],
)
def test_a_header_is_names_of_which_pandas_leaves_out_the_first(
    header: str, columns: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "r.csv"
    path.write_text(f"{header}\n0,1.5\n1,2.5\n")

    [found] = read_tables(path, "")

    assert found.columns == columns


def test_the_index_that_pandas_writes_is_a_key(tmp_path: Path) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    paths[0].write_text(",score\n0,1.5\n1,2.5\n")
    paths[1].write_text(",score\n0,1.5\n0,1.5\n")

    [[baseline], [evicted]] = (read_tables(path, "") for path in paths)

    found = compare_items(baseline, evicted)
    assert (found.items, found.lost, found.doubled) == (2, 1, 1)


def test_a_long_cell_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text(f"item,text\n1,{'x' * 200_000}\n")

    [table] = read_tables(path, "")

    assert table.rows == (("1", "x" * 200_000),)


def test_a_key_that_no_file_has_is_refused_with_the_columns_there_are() -> None:
    with pytest.raises(DrillError, match="No expected file has the column 'nope'") as caught:
        check_key("nope", [BASELINE, table("id b")])

    assert caught.value.hint == "Their columns: item, score, id, b."
    check_key("b", [BASELINE, table("id b")])
    check_key("nope", [table("")])


def test_a_key_that_no_file_has_is_refused_before_the_run_with_evictions(tmp_path: Path) -> None:
    command = ["sh", "-c", "printf 'id,b\\n1,2\\n' > r.csv"]
    seen: list[str] = []

    # The second drill has the baseline of the first.
    for legs in ({"baseline"}, set[str]()):
        seen.clear()
        with pytest.raises(DrillError, match="No expected file has the column 'nope'"):
            drill(
                command,
                expect=["r.csv"],
                key="nope",
                recording=tmp_path / "kept",
                listener=lambda event: seen.append(event.job_run),
            )
        assert set(seen) == legs


def test_many_rows_of_one_key_are_compared_at_one_look_each() -> None:
    rows = [("one key", number) for number in range(4000)]
    compared = 0

    def same(one: Cell, other: Cell) -> bool:
        nonlocal compared
        compared += 1
        return one == other

    baseline, evicted = table("item score", *rows), table("item score", *reversed(rows))
    found = compare_items(baseline, evicted, key="item", same=same)

    assert (found.lost, found.doubled, found.changed) == (0, 0, None)
    assert compared == 0


def test_a_row_that_none_of_its_key_equals_is_still_told() -> None:
    baseline = table("item score", ("a", 1), ("a", 2))

    found = compare_items(baseline, table("item score", ("a", 2), ("a", 3)), key="item")

    assert found.changed == "'score' of 'a' is 3, not 1"
