"""A SQLite file that somebody else wrote gives an error that names it, and no worker runs on."""

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.cli.app import run
from outlast.queue import LeaseTerms, QueueUnavailable, open_queue
from outlast.results import SinkUnavailable, open_sink
from tests.faults.hostile_sqlite import VALUES, change, columns_of, make_file, use_everything


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("intact") / "jobs.db"
    make_file(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    return path


@pytest.fixture
def path(intact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield Path(shutil.copy(intact, tmp_path / "jobs.db"))


def test_the_file_is_fine_before_it_is_changed(path: Path) -> None:
    assert use_everything(path) == []


@pytest.mark.parametrize("value", VALUES)
def test_no_value_in_any_column_gives_another_error_than_ours(value: str, intact: Path) -> None:
    for table, column in columns_of(intact):
        path = intact.with_name("changed.db")
        for left in intact.parent.glob("changed.db*"):
            left.unlink()
        shutil.copy(intact, path)
        if change(path, table, column, value):
            refusals = use_everything(path)

            assert all("changed.db" in str(error) for error in refusals), (table, column)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("outlast_queue", "format", "'abc'"),
        ("outlast_queue", "format", "x'ff00'"),
        ("outlast_runs", "last", "9223372036854775807"),
        ("outlast_runs", "last", "50000000"),
        ("outlast_runs", "last", "-5"),
        ("outlast_runs", "first", "-5"),
        ("outlast_runs", "first", "'abc'"),
        ("outlast_runs", "lease", "x'ff00'"),
        ("outlast_runs", "until", "'abc'"),
        ("outlast_delayed", "due", "'abc'"),
    ],
)
@pytest.mark.parametrize("command", ["queue", "work", "publish"])
def test_every_command_refuses_it_at_once(
    command: str,
    table: str,
    column: str,
    value: str,
    path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert change(path, table, column, value)
    Path("rows.jsonl").write_text('{"id": 1}\n')
    Path("hostile_job.py").write_text("def f(value): return value\n")
    arguments = {
        "queue": ["queue", "sqlite:///jobs.db"],
        "work": ["work", "hostile_job:f", "--queue", "sqlite:///jobs.db", "--sink", "out"],
        "publish": ["publish", "sqlite:///jobs.db", "rows.jsonl"],
    }
    # Nobody waits for it to get better: that would take longer than a test may.
    monkeypatch.setenv("OUTLAST_PATIENCE_SECONDS", "86400")

    assert run(arguments[command]) == 3

    shown = capsys.readouterr().err
    assert "error: Could not read 'jobs.db'" in shown
    assert "Restore the file from a backup" in shown


@pytest.mark.parametrize("state", ["token", "since", "wakes", "done"])
def test_a_counter_that_is_not_a_number_is_a_permanent_error(state: str, path: Path) -> None:
    assert change(path, "outlast_queue", state, "x'00'")

    with contextlib.closing(open_queue("sqlite:///jobs.db")) as queue:
        with pytest.raises(QueueUnavailable, match=f"'jobs.db': .*{state} is b") as caught:
            queue.publish({})
            queue.claim(1, LeaseTerms(worker="tester"))

    assert caught.value.permanent


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER UPDATE ON outlast_queue BEGIN SELECT 1; END",
        "CREATE VIEW outlast_epochs_2 AS SELECT 1",
    ],
)
def test_code_in_the_file_is_refused(statement: str, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)

    with pytest.raises(QueueUnavailable, match=r"it has a (trigger|view)"):
        open_queue("sqlite:///jobs.db")
    with pytest.raises(SinkUnavailable, match=r"it has a (trigger|view)"):
        open_sink("sqlite:///jobs.db")


def test_tables_of_another_program_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "others.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE outlast_queue (name)")

    with pytest.raises(QueueUnavailable, match="outlast_queue has 1 columns") as caught:
        open_queue(f"sqlite:///{path}")

    assert caught.value.permanent
