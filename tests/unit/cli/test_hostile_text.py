"""What others wrote into queues, stores, files and variables cannot control the terminal."""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from outlast import Run
from outlast.queue import Failure, LeaseTerms, Settlement, open_queue
from outlast.results import Result, open_sink
from tests.unit.cli.journal_files import Simulated, write_journal

# A title, colors in C0 and C1, a carriage return, markup of rich, a bidi override and isolates, a
# zero-width space, and separators that some programs take for line breaks.
HOSTILE = (
    "x\x1b]0;title\x07\x1b[31m\x9b31m\r[/x][bold]:skull:\u202e\u2066\u2069\u200b\u2028\x7f\\end"
)
SAFE = ("x\\x1b]0;title\\x07\\x1b[31m\\x9b31m\\r[/x][bold]:skull:", "\\u202e\\u2066", "\\u200b")
UNSAFE_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")


def shown_by(*arguments: str, code: int = 0, traceback: bool = False, **variables: str) -> str:
    """What a command prints on both streams, which must be safe and hold no traceback of ours."""
    done = subprocess.run(
        [sys.executable, "-m", "outlast", *arguments],
        capture_output=True,
        env={**os.environ, "PYTHONUTF8": "1", **variables},
    )
    shown = (done.stdout + done.stderr).decode()
    raw = {sign for sign in shown if unicodedata.category(sign) in UNSAFE_CATEGORIES}
    assert raw <= {"\n"}, sorted(map(ascii, raw))
    assert ("Traceback" in shown) is traceback
    assert done.returncode == code, shown
    return shown


def shows_hostile_text(shown: str) -> bool:
    """Whether the text is there in full, with its markup taken literally."""
    return all(part in shown for part in SAFE)


@pytest.fixture
def url_with_dead_item() -> str:
    url = "sqlite:///jobs.db"
    queue = open_queue(url)
    queue.publish({HOSTILE: HOSTILE})
    terms = LeaseTerms(worker=HOSTILE)
    lease = queue.claim(1, terms)
    assert lease is not None
    failed = (Failure(HOSTILE, f"in f\nValueError: {HOSTILE}", is_final=True),)
    queue.settle(lease, Settlement(failed=failed), terms)
    queue.close()
    return url


def test_keys_and_errors_of_dead_items(url_with_dead_item: str) -> None:
    shown = shown_by("queue", url_with_dead_item, "--dead")

    assert shown.count(SAFE[0]) == 2, "The key and the error are shown in full."
    found = json.loads(shown_by("queue", url_with_dead_item, "--dead", "--format", "json"))
    assert found["dead"][0]["key"] == HOSTILE


@pytest.fixture
def places() -> tuple[str, ...]:
    queue = open_queue("sqlite:///jobs.db")
    queue.publish({HOSTILE: HOSTILE})
    queue.close()
    return ("--queue", "sqlite:///jobs.db", "--sink", "sqlite:///jobs.db")


def test_the_log_of_a_worker_whose_item_fails(places: tuple[str, ...]) -> None:
    Path("job.py").write_text("def fail(value):\n    raise ValueError(value)\n")

    shown = shown_by("work", "job:fail", *places, "--failures-max", "1")

    assert shows_hostile_text(shown)


@pytest.mark.parametrize("kind", ["ValueError", "OSError"])
def test_the_traceback_of_a_set_up_that_fails(kind: str, places: tuple[str, ...]) -> None:
    source = (
        f"class Model:\n    def setup(self):\n        raise {kind}({HOSTILE!r})\n"
        "    def __call__(self, value):\n        return value\n"
    )
    Path("job.py").write_text(source)

    shown = shown_by("work", "job:Model", *places, code=1, traceback=True)

    assert shows_hostile_text(shown)


def test_names_in_checkpoints() -> None:
    state = {HOSTILE: np.zeros(2), "b": np.zeros(2)}
    with Run("run", state, every_steps=1) as run:
        for _ in run.steps(2):
            state[HOSTILE] += 1

    shown_by("checkpoints", "run")
    shown_by("checkpoints", "run", "--verify")
    assert shows_hostile_text(shown_by("checkpoints", "run", "--diff", "1", "2"))


def test_a_checkpoint_whose_manifest_is_damaged() -> None:
    Path("run/manifests").mkdir(parents=True)
    name = f"000000000001-000001{HOSTILE.replace('/', '')}.json"
    for each in (name, "000000000002-000001.json"):
        Path("run/manifests", each).write_text(json.dumps({"format": HOSTILE}))

    shown_by("checkpoints", "run", code=1)
    shown_by("checkpoints", "run", "--verify", code=1)


def test_the_keys_and_names_of_results() -> None:
    sink = open_sink("sqlite:///results.db")
    sink.store([Result(HOSTILE, "{\n")], token=1, version="")
    sink.close()
    place = f"./{HOSTILE.replace('/', '')}"

    assert "x\\x1b]0;title" in shown_by(
        "results", "sqlite:///results.db", "--export", "r.jsonl", code=2
    )
    shown_by("results", place, code=2)
    Path(place).mkdir()
    shown_by("results", place)
    shown_by("results", "sqlite:///results.db", "--export", f"{place}.parquet")


def test_the_place_of_a_run() -> None:
    simulated = Simulated()
    simulated.start()
    simulated.work(10, save_every=5)
    folder = HOSTILE.replace("/", "")
    url = write_journal(Path(folder), simulated.finish())

    assert "x\\x1b]0;title" in shown_by("why", url)
    assert "x\\x1b]0;title" in shown_by("why", f"{folder}-nosuch", code=2)


def test_the_output_of_a_command_in_a_drill() -> None:
    source = f"import sys; print({HOSTILE!r}); sys.exit(3)"
    command = ("--", sys.executable, "-c", source)

    shown = shown_by("drill", "--evictions", "1", "--backoff-limit", "0", *command, code=1)

    assert "\\u202e\\u2066" in shown


def test_the_values_of_variables() -> None:
    assert "[/x]" in shown_by("settings", OUTLAST_RESULT_VERSION="[/x][bold]")
    assert shows_hostile_text(shown_by("settings", OUTLAST_RESULT_VERSION=HOSTILE))


@pytest.mark.parametrize("line", [HOSTILE, json.dumps({"id": 1.5, HOSTILE: HOSTILE})])
def test_lines_and_files_that_cannot_be_published(line: str) -> None:
    name = f"{HOSTILE.replace('/', '')}.jsonl"
    Path(name).write_text(line + "\n", newline="\n")

    shown = shown_by("publish", "sqlite:///jobs.db", name, "--key", "id", code=2)

    assert "x\\x1b]0;title" in shown


def test_a_file_name_that_is_not_text() -> None:
    path = Path(os.fsdecode(b"rows\xff.jsonl"))
    path.write_text('{"id": 1}\n{"id": 1, "other": 2}\n')

    shown = shown_by("publish", "sqlite:///jobs.db", str(path), "--key", "id", code=2)

    assert "rows\\udcff.jsonl:1" in shown


def test_wrong_options_and_places() -> None:
    shown_by("queue", "sqlite:///jobs.db", f"--{HOSTILE}", code=2)
    shown_by(HOSTILE, code=2)
    shown_by("queue", f"sqlite:///{HOSTILE}", code=2)
    shown_by("publish", f"{HOSTILE}://x", "rows.jsonl", code=2)
    shown_by("plan", HOSTILE, code=2)


def test_text_that_the_terminal_cannot_encode_is_shown_as_escapes() -> None:
    queue = open_queue("sqlite:///jobs.db")
    queue.publish({"日本": 1})
    terms = LeaseTerms(worker="me")
    lease = queue.claim(1, terms)
    assert lease is not None
    queue.settle(lease, Settlement(failed=(Failure("日本", "no", is_final=True),)), terms)
    queue.close()

    shown = shown_by(
        "queue", "sqlite:///jobs.db", "--dead", PYTHONUTF8="0", PYTHONIOENCODING="ascii"
    )

    assert "\\u65e5\\u672c" in shown


def test_every_command_prints_through_the_one_module() -> None:
    """ruff refuses `print` elsewhere; this is about the consoles of rich."""
    import outlast.cli

    folder = Path(outlast.cli.__file__).parent
    users = {path.name for path in folder.glob("*.py") if "Console(" in path.read_text()}

    assert users == {"printing.py"}
