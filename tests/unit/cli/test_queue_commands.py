"""The commands around a queue: publish, work, queue, results."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from outlast.cli.app import run as run_command
from outlast.queue import open_queue
from outlast.queue.errors import QueueUnavailable
from outlast.queue.items import Failure, LeaseTerms, Publishable, Published, Settlement
from outlast.queue.sqlite.queue import SQLiteQueue
from outlast.results import Result, open_sink

URL = "sqlite:///jobs.db"

MODULE = """
class Doubler:
    def setup(self): self.factor = 2
    def __call__(self, row): return row["number"] * self.factor
def double_all(rows): return [row["number"] * 2 for row in rows]
def fussy(row):
    if row["number"] == 1: raise ValueError("one is not liked")
    return row["number"]
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


Outlast = Callable[..., Done]


@pytest.fixture
def outlast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Outlast:
    """The command, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "doubling", raising=False)
    (tmp_path / "doubling.py").write_text(MODULE)
    with closing(sqlite3.connect("other.db")) as other:
        other.execute("CREATE TABLE others (name)")

    def run(*arguments: str) -> Done:
        code = run_command(arguments)
        return Done(code, *capsys.readouterr())

    return run


def write_rows(name: str, count: int, first: int = 0) -> None:
    rows = (json.dumps({"id": f"row-{n}", "number": n}) for n in range(first, first + count))
    Path(name).write_text("\n".join(rows))


def test_publish_adds_what_is_new_and_says_how_much(outlast: Outlast) -> None:
    write_rows("rows.jsonl", 3)

    first = outlast("publish", URL, "rows.jsonl", "--key", "id")
    write_rows("more.jsonl", 3, first=2)
    second = outlast("publish", URL, "rows.jsonl", "more.jsonl", "--key", "id", "--format", "json")

    assert first == (0, "Published 3 items; 0 were already known.\n", "")
    assert json.loads(second.out) == {"url": URL, "added": 2, "known": 3, "repeated": 1}
    assert open_queue(URL).stats().ready == 5


def test_a_bad_line_is_told_and_nothing_is_published(outlast: Outlast) -> None:
    write_rows("rows.jsonl", 30_000)
    with Path("rows.jsonl").open("a") as file:
        file.write('\n{"number": 1}\n{"id": "row-7", "number": 8}\n' + "{torn\n" * 20)

    done = outlast("publish", URL, "rows.jsonl", "--key", "id")

    assert done.code == 2
    lines = done.err.splitlines()
    assert lines[0] == "rows.jsonl:30001: No key field 'id'. The fields are: 'number'."
    assert lines[1] == (
        "rows.jsonl:30002: The key 'row-7' is already used at rows.jsonl:8 for different content. "
        "Give each item a unique key."
    )
    assert lines[10] == "... and 12 more"
    assert lines[11] == "error: 22 of 30,022 items cannot be published, so nothing was published."
    assert lines[12].startswith("hint:  Fix the listed items and publish again.")
    assert open_queue(URL).stats().ready == 0


def test_a_folder_and_standard_input_are_published(
    outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("images").mkdir()
    Path("images/a.png").touch()
    with Path("input").open("w+") as file:
        file.write('{"id": "b"}\n')
        file.seek(0)
        monkeypatch.setattr(sys, "stdin", file)

        done = outlast("publish", URL, "images", "-", "--format", "text")

    assert done.out == "Published 2 items; 0 were already known.\n"
    lease = open_queue(URL).claim(10, LeaseTerms(worker="me"))
    assert lease is not None
    assert lease.items[0].key == "a.png"
    assert lease.items[0].value == {"path": "images/a.png"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["publish", URL], 2, "Nothing to publish."),
        (["publish", URL, "doubling.py", "--kye", "id"], 2, "Unknown option: --kye."),
        (["publish", "nosuch:///jobs.db", "x"], 2, "Unsupported queue URL: 'nosuch'."),
        (
            ["publish", URL, "nosuch.jsonl"],
            2,
            "nosuch.jsonl: Could not read the file: No such file",
        ),
        (["publish", "sqlite:///nosuch/jobs.db", "doubling.py"], 3, "nosuch/jobs.db"),
        (["work", "doubling:Doubler"], 2, "No queue was given for the worker."),
        (["work", "doubling:Doubler", "--queue", URL], 2, "No sink was given for the worker."),
        (["work", "nosuch:f", "--queue", URL, "--sink", URL], 2, "No module named 'nosuch'."),
        (
            ["work", "doubling:f", "--queue", URL, "--sink", URL],
            2,
            "Module 'doubling' has no attribute 'f'.",
        ),
        (
            ["work", "doubling:Doubler", "--queue", URL, "--sink", URL, "--lease", "60"],
            2,
            "--lease: '60' is not a duration.",
        ),
        (
            ["work", "doubling:Doubler", "--queue", URL, "--sink", URL, "--chunk", "0"],
            2,
            "Expected --chunk to be at least 1, got 0.",
        ),
        (["work", "doubling:Doubler", "--until", "soon"], 2, "soon"),
        (["queue", "sqlite:///nosuch.db"], 2, "The file 'nosuch.db' does not exist."),
        (["queue", URL, "--dead", "--watch"], 2, "cannot be combined"),
        (
            ["queue", URL, "--limit", "5"],
            2,
            "Expected --limit to be at least 1 and used with --dead, got 5",
        ),
        (
            ["queue", URL, "--dead", "--limit", "0"],
            2,
            "Expected --limit to be at least 1 and used with --dead, got 0",
        ),
        (["queue", "sqlite:///other.db"], 2, "No queue in 'other.db'."),
        (["queue", "sqlite:///doubling.py"], 2, "'doubling.py' is not a SQLite database."),
        (["queue", "sqlite:///."], 2, "'.' is a folder."),
        (["results", "sqlite:///nosuch.db"], 2, "The file 'nosuch.db' does not exist."),
        (["results", "sqlite:///other.db"], 2, "No table 'results' in 'other.db'."),
        (["results", "sqlite:///other.db#x"], 2, "No table 'x' in 'other.db'."),
        (["results", "nosuch"], 2, "'nosuch' does not exist."),
        (["results", "doubling.py"], 2, "'doubling.py' is a file, not a folder."),
        (["results", "pubsub://a/b"], 2, "Pub/Sub cannot be used as a sink"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_told_with_its_code(
    outlast: Outlast, arguments: list[str], code: int, words: str
) -> None:
    done = outlast(*arguments)

    assert words in done.err
    assert "hint:  " in done.err
    assert "Traceback" not in done.err
    assert done.code == code


def test_looking_makes_no_file(outlast: Outlast) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir()}

    for name in ("typo.db", "other.db", "doubling.py", "."):
        outlast("queue", f"sqlite:///{name}")
        outlast("results", f"sqlite:///{name}")
    outlast("results", "typo")

    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["doubling:Doubler"],
        ["doubling:double_all", "--batch", "--chunk", "4", "--result-version", "two"],
    ],
    ids=["class", "batch"],
)
def test_work_stores_a_result_for_every_item(outlast: Outlast, arguments: list[str]) -> None:
    write_rows("rows.jsonl", 10)
    outlast("publish", URL, "rows.jsonl", "--key", "id")

    done = outlast("work", *arguments, "--queue", URL, "--sink", URL)

    assert done.code == 0, done.err
    assert done.out.startswith("10 done, 0 skipped, 0 failed, 0 dead, 0 lost in ")
    results = {result.key: json.loads(result.payload) for result in open_sink(URL).results()}
    assert results == {f"row-{number}": number * 2 for number in range(10)}


def test_results_may_go_into_a_folder(outlast: Outlast) -> None:
    write_rows("rows.jsonl", 10)
    outlast("publish", URL, "rows.jsonl", "--key", "id")

    done = outlast(
        "work", "doubling:Doubler", "--queue", URL, "--sink", "./results", "--chunk", "4"
    )
    again = outlast("publish", "sqlite:///again.db", "rows.jsonl", "--key", "id")
    skipped = outlast(
        "work", "doubling:Doubler", "--queue", "sqlite:///again.db", "--sink", "results"
    )

    assert (done.code, again.code) == (0, 0), done.err
    assert outlast("results", "./results").out == "10\n"
    assert skipped.out.startswith("0 done, 10 skipped")


def test_work_takes_its_places_from_the_environment(
    outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_QUEUE_URL", URL)
    monkeypatch.setenv("OUTLAST_SINK_URL", URL)
    write_rows("rows.jsonl", 2)
    outlast("publish", URL, "rows.jsonl")

    assert outlast("work", "doubling:Doubler").code == 0
    assert open_sink(URL).count() == 2


def test_what_was_given_up_is_listed_and_gets_another_chance(outlast: Outlast) -> None:
    write_rows("rows.jsonl", 3)
    outlast("publish", URL, "rows.jsonl", "--key", "id")
    outlast("work", "doubling:fussy", "--queue", URL, "--sink", URL, "--failures-max", "1")

    listed = outlast("queue", URL, "--dead")
    full = json.loads(outlast("queue", URL, "--dead", "--format", "json").out)
    retried = outlast("queue", URL, "--retry-dead")

    assert "row-1" in listed.out and "ValueError: one is not liked" in listed.out
    [row] = full["dead"]
    assert row["key"] == "row-1"
    assert json.loads(row["payload"]) == {"id": "row-1", "number": 1}
    assert "in fussy" in row["errors"][0]
    assert retried.out == "1 dead item is ready again.\n"
    assert outlast("queue", URL, "--dead").out == "No dead items.\n"
    assert open_queue(URL).stats().ready == 1


def kill_items(count: int) -> None:
    queue = open_queue(URL)
    queue.publish({f"row-{n:05}": n for n in range(count)})
    terms = LeaseTerms(worker="me")
    lease = queue.claim(count, terms)
    assert lease is not None
    failed = tuple(Failure(item.key, "no", is_final=True) for item in lease.items)
    queue.settle(lease, Settlement(failed=failed), terms)
    queue.close()


def test_a_listing_of_dead_items_is_complete_or_says_that_it_is_not(outlast: Outlast) -> None:
    kill_items(1500)

    first = outlast("queue", URL, "--dead")
    more = outlast("queue", URL, "--dead", "--limit", "2000")
    every = json.loads(outlast("queue", URL, "--dead", "--format", "json").out)
    some = json.loads(outlast("queue", URL, "--dead", "--format", "json", "--limit", "2").out)

    assert first.out.count("row-") == 1000
    assert first.err == "Showing 1,000 of 1,500 dead items; --limit N shows more.\n"
    assert (more.out.count("row-"), more.err) == (1500, "")
    assert [row["key"] for row in every["dead"]] == [f"row-{n:05}" for n in range(1500)]
    assert (every["total"], every["truncated"]) == (1500, False)
    assert [row["key"] for row in some["dead"]] == ["row-00000", "row-00001"]
    assert (some["total"], some["truncated"]) == (1500, True)


def test_no_dead_items_as_json_are_an_empty_list(outlast: Outlast) -> None:
    open_queue(URL).close()

    told = json.loads(outlast("queue", URL, "--dead", "--format", "json").out)

    assert told == {"dead": [], "total": 0, "truncated": False}


def test_publishing_nothing_is_told(outlast: Outlast) -> None:
    Path("empty.jsonl").touch()
    write_rows("rows.jsonl", 1)

    done = outlast("publish", URL, "empty.jsonl", "rows.jsonl")

    assert done == (
        0,
        "Published 1 item; 0 were already known.\n",
        "warning: empty.jsonl: It contains no items.\n",
    )


def test_an_item_that_the_queue_cannot_take_keeps_the_others_out(
    outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.queue.sqlite.queue._ITEM_BYTES_MAX", 10_000)
    write_rows("rows.jsonl", 30_000)
    with Path("rows.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"id": "large", "text": "x" * 10_000}))

    done = outlast("publish", URL, "rows.jsonl", "--key", "id")

    assert done.code == 2
    assert "rows.jsonl:30001: Item 'large' has 10,029 bytes; SQLite allows at most 10,000." in (
        done.err
    )
    assert open_queue(URL).stats().ready == 0


def test_a_publish_that_fails_halfway_says_how_far_it_came(
    outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows("rows.jsonl", 25_000)
    publish = SQLiteQueue.publish
    calls = []

    def failing(queue: SQLiteQueue, items: Publishable) -> Published:
        calls.append(1)
        if len(calls) == 3:
            raise QueueUnavailable("The disk is full.", hint="Free some space.")
        return publish(queue, items)

    with monkeypatch.context() as patched:
        patched.setattr(SQLiteQueue, "publish", failing)
        failed = outlast("publish", URL, "rows.jsonl", "--key", "id")
    again = outlast("publish", URL, "rows.jsonl", "--key", "id")

    assert failed.code == 3
    assert failed.err.startswith("20,000 of 25,000 items were published before an error. Run the ")
    assert again.out == "Published 5,000 items; 20,000 were already known.\n"


@pytest.mark.needs("mount-namespace")
def test_a_full_temporary_folder_publishes_nothing(outlast: Outlast, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(full)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        with Path("rows.jsonl").open("w") as file:
            for number in range(10_000):
                file.write(json.dumps({"id": number, "text": "x" * 4000}) + "\n")
        # In a process of its own: SQLite reads the variable once.
        done = subprocess.run(
            [sys.executable, "-m", "outlast", "publish", URL, "rows.jsonl", "--key", "id"],
            capture_output=True,
            text=True,
            env={**os.environ, "SQLITE_TMPDIR": str(full)},
        )
    finally:
        subprocess.run(["umount", "-l", full], check=True)

    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert f"Could not write items to a temporary file in '{full}'" in done.stderr
    assert "set SQLITE_TMPDIR to a folder with more space" in done.stderr
    assert open_queue(URL).stats().ready == 0


def test_queue_shows_what_is_left_and_how_fast_it_goes(outlast: Outlast) -> None:
    queue = open_queue(URL)
    queue.publish({f"row-{n}": n for n in range(1200)})
    terms = LeaseTerms(worker="me")
    lease = queue.claim(10, terms)
    assert lease is not None
    keys = [item.key for item in lease.items]
    queue.settle(lease, Settlement(tuple(keys[:7]), (Failure(keys[7], "x", 60.0),)), terms)

    text = outlast("queue", URL).out
    told = json.loads(outlast("queue", URL, "--format", "json").out)

    rows = {line.split()[0]: line.split()[1] for line in text.splitlines()}
    assert (rows["ready"], rows["delayed"], rows["leased"]) == ("1,190", "1", "2")
    assert (rows["done"], rows["dead"]) == ("7", "0")
    assert told["url"] == URL
    assert (told["ready"], told["leased"], told["done"]) == (1190, 2, 7)
    assert told["eta_seconds"] is None or told["eta_seconds"] > 0


def test_results_are_counted_and_exported(outlast: Outlast) -> None:
    sink = open_sink(URL)
    sink.store([Result("b", '{"x": 1}'), Result("a", "[1]")], token=1, version="")

    counted = outlast("results", URL)
    exported = outlast("results", URL, "--export", "out.jsonl")

    assert counted.out == "2\n"
    assert exported.out == "Wrote 2 results to out.jsonl.\n"
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert rows == [{"key": "a", "result": [1]}, {"key": "b", "result": {"x": 1}}]
