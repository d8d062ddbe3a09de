"""The commands around a queue: publish, work, queue, results."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from outlast.cli.app import run as run_command
from outlast.queue import open_queue
from outlast.queue.items import Failure, Outcome, Terms
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

    assert first == (0, "Published 3 items, 0 were known.\n", "")
    assert json.loads(second.out) == {"url": URL, "added": 2, "known": 3, "repeated": 1}
    assert open_queue(URL).stats().ready == 5


def test_a_bad_line_is_told_and_nothing_is_published(outlast: Outlast) -> None:
    write_rows("rows.jsonl", 30_000)
    with Path("rows.jsonl").open("a") as file:
        file.write('\n{"number": 1}\n{"id": "row-7", "number": 8}\n' + "{torn\n" * 20)

    done = outlast("publish", URL, "rows.jsonl", "--key", "id")

    assert done.code == 2
    lines = done.err.splitlines()
    assert lines[0] == "rows.jsonl:30001: It has no field 'id' for its key."
    assert lines[1] == (
        "rows.jsonl:30002: The key 'row-7' was at rows.jsonl:8 already, with other content."
    )
    assert lines[10] == "... and 12 more"
    assert lines[11] == "error: 22 of 30,022 items cannot be published, so none was."
    assert lines[12].startswith("hint:  Mend the places named above")
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

    assert done.out == "Published 2 items, 0 were known.\n"
    lease = open_queue(URL).claim(10, Terms(worker="me"))
    assert lease is not None
    assert lease.items[0].key == "a.png"
    assert lease.items[0].value == {"path": "images/a.png"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["publish", URL], 2, "There is nothing to publish."),
        (["publish", URL, "doubling.py", "--kye", "id"], 2, "Unknown option: --kye."),
        (["publish", "nosuch:///jobs.db", "x"], 2, "No queue can be opened at 'nosuch'."),
        (["publish", URL, "nosuch.jsonl"], 2, "nosuch.jsonl: It cannot be read: No such file"),
        (["publish", "sqlite:///nosuch/jobs.db", "doubling.py"], 3, "nosuch/jobs.db"),
        (["work", "doubling:Doubler"], 2, "The worker has no queue."),
        (["work", "doubling:Doubler", "--queue", URL], 2, "The worker has no sink."),
        (["work", "nosuch:f", "--queue", URL, "--sink", URL], 2, "There is no module 'nosuch'."),
        (["work", "doubling:f", "--queue", URL, "--sink", URL], 2, "'doubling' has no 'f'."),
        (
            ["work", "doubling:Doubler", "--queue", URL, "--sink", URL, "--lease", "60"],
            2,
            "--lease: '60' is not a duration.",
        ),
        (
            ["work", "doubling:Doubler", "--queue", URL, "--sink", URL, "--chunk", "0"],
            2,
            "--chunk is 0, but it counts items from 1.",
        ),
        (["work", "doubling:Doubler", "--until", "soon"], 2, "soon"),
        (["queue", "sqlite:///nosuch.db"], 2, "There is no file 'nosuch.db'."),
        (["queue", URL, "--dead", "--watch"], 2, "do not go together"),
        (["results", "sqlite:///nosuch.db"], 2, "There is no file 'nosuch.db'."),
        (["results", "pubsub://a/b"], 2, "A Pub/Sub topic cannot be a sink"),
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
    before = set(Path().iterdir())

    outlast("queue", "sqlite:///typo.db")
    outlast("results", "sqlite:///typo.db")

    assert set(Path().iterdir()) == before


@pytest.mark.parametrize(
    "arguments",
    [["doubling:Doubler"], ["doubling:double_all", "--batch", "--chunk", "4", "--version", "two"]],
    ids=["class", "batch"],
)
def test_work_stores_a_result_for_every_item(outlast: Outlast, arguments: list[str]) -> None:
    write_rows("rows.jsonl", 10)
    outlast("publish", URL, "rows.jsonl", "--key", "id")

    done = outlast("work", *arguments, "--queue", URL, "--sink", URL)

    assert done.code == 0, done.err
    assert done.out.startswith("10 done, 0 skipped, 0 failed, 0 given up, 0 lost in ")
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
    assert retried.out == "1 items get another chance.\n"
    assert outlast("queue", URL, "--dead").out == "No item was given up.\n"
    assert open_queue(URL).stats().ready == 1


def test_queue_shows_what_is_left_and_how_fast_it_goes(outlast: Outlast) -> None:
    queue = open_queue(URL)
    queue.publish({f"row-{n}": n for n in range(1200)})
    terms = Terms(worker="me")
    lease = queue.claim(10, terms)
    assert lease is not None
    keys = [item.key for item in lease.items]
    queue.settle(lease, Outcome(tuple(keys[:7]), (Failure(keys[7], "x", 60.0),)), terms)

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
