"""`outlast publish` in a real process, run twice and killed halfway."""

import contextlib
import itertools
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from outlast.queue import Queue, open_queue
from tests.patience import eventually
from tests.programs import Program

ITEMS = 40_000


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with file.open("w") as lines:
        for number in range(ITEMS):
            lines.write(json.dumps({"id": number, "text": "x" * 60}) + "\n")
    return file


def publish(url: str, rows: Path) -> Program:
    command = [sys.executable, "-m", "outlast", "publish", url, str(rows), "--key", "id"]
    return Program([*command, "--format", "json"])


def published(queue: Queue) -> int:
    count = queue.stats().ready
    assert count is not None
    return count


def told(program: Program) -> dict[str, object]:
    found: dict[str, object] = json.loads(program.output)
    return found


def killed_while_publishing(url: str, rows: Path) -> int:
    """How many items are there after a publisher was killed after its first one."""
    with contextlib.closing(open_queue(url)) as queue, publish(url, rows) as program:
        eventually(lambda: published(queue) > 0, "the first items are there")
        program.signal(signal.SIGKILL)
        program.wait()
        return published(queue)


def test_publishing_twice_adds_nothing_twice(tmp_path: Path, rows: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    for added in (ITEMS, 0):
        with publish(url, rows) as program:
            assert program.wait() == 0, program.output
        assert told(program) == {
            "url": url,
            "added": added,
            "known": ITEMS - added,
            "repeated": 0,
        }

    with contextlib.closing(open_queue(url)) as queue:
        assert published(queue) == ITEMS


def test_a_publish_killed_halfway_and_repeated_adds_each_item_once(
    tmp_path: Path, rows: Path
) -> None:
    # A machine that is quick to publish may be through before the kill: then once more.
    urls = (f"sqlite:///{tmp_path}/jobs-{number}.db" for number in itertools.count())
    url = next(url for url in urls if killed_while_publishing(url, rows) < ITEMS)

    with contextlib.closing(open_queue(url)) as queue:
        before = published(queue)
        assert 0 < before < ITEMS

        with publish(url, rows) as program:
            assert program.wait() == 0, program.output

        assert told(program)["known"] == before
        assert published(queue) == ITEMS
    assert not list(tmp_path.glob("*tmp*")), "Nothing but the queue is left behind."


@pytest.mark.soak
def test_memory_stays_small_however_much_is_published(tmp_path: Path) -> None:
    big = tmp_path / "big.jsonl"
    with big.open("w") as file:
        for number in range(150_000):
            file.write(json.dumps({"id": number, "text": f"{number:09}" * 400}) + "\n")
    size_mib = big.stat().st_size / 1024**2
    source = f"""
import resource, sys
from outlast.cli.app import run
assert run(["publish", "sqlite:///{tmp_path}/jobs.db", {str(big)!r}, "--key", "id"]) == 0
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    command = [sys.executable, "-c", source]
    with Program(command, env=dict(os.environ), patience_seconds=280) as program:
        peak_mib = int(program.wait_for("peak").split()[1])
        assert program.wait() == 0

    assert size_mib > 500
    print(f"{size_mib:.0f} MiB published within {peak_mib} MiB")
    assert peak_mib < 250
