"""Real processes that are killed while they write their journal."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast.journal.events import Metrics
from outlast.journal.lines import decode_lines
from outlast.journal.reader import AttemptRecord, read_journal
from outlast.storage.local.store import Commit, LocalStore

SEED = 11
WRITERS = 4
ROUNDS = 3
LINES_MIN = 3


def start(folder: Path, commit: Commit, attempt: int, writer: int) -> "subprocess.Popen[str]":
    arguments = [str(folder), commit.name, str(attempt), str(writer)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.journal.writing", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def killed_at(processes: "list[subprocess.Popen[str]]", chance: random.Random) -> list[int]:
    """Let all write, kill each at an instant of its own, and say what each knew to be durable."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    durable = []
    for process in processes:
        assert process.stdout is not None
        # A slow machine gets to write as well.
        first = "".join(process.stdout.readline() for _ in range(LINES_MIN))
        time.sleep(chance.uniform(0.0, 0.15))
        process.kill()
        printed = first + process.communicate()[0]
        # The kill may cut the last line short.
        whole = printed[: printed.rfind("\n") + 1].split()
        durable.append(int(whole[-1]) if whole else 0)
    return durable


def numbers_of(record: AttemptRecord | None, writer: int) -> list[object]:
    if record is None:
        return []
    metrics = [event for event in record.events if isinstance(event, Metrics)]
    return [e.values["number"] for e in metrics if e.values["writer"] == str(writer)]


@pytest.mark.parametrize("commit", Commit, ids=[commit.name.lower() for commit in Commit])
def test_what_was_flushed_before_a_kill_is_read_and_nothing_is_torn(
    tmp_path: Path, commit: Commit
) -> None:
    chance = random.Random(SEED)
    store = LocalStore(tmp_path, commit=commit)
    written = 0
    for attempt in range(1, ROUNDS + 1):
        # All writers of a round take themselves for the same attempt.
        processes = [start(tmp_path, commit, attempt, writer) for writer in range(WRITERS)]
        durable = killed_at(processes, chance)

        records = {record.attempt: record for record in read_journal(store)}

        for writer, number in enumerate(durable):
            found = numbers_of(records.get(attempt), writer)
            assert found == list(range(1, len(found) + 1)), f"seed {SEED}"
            assert len(found) >= number, f"seed {SEED}"
            written += len(found)
        assert all(record.garbled == 0 for record in records.values()), f"seed {SEED}"
    for entry in store.list("journal/"):
        data = store.read(entry.name)
        assert data.endswith(b"\n")
        assert decode_lines(data).segment is not None
    assert written >= LINES_MIN * WRITERS * ROUNDS
