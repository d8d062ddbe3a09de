"""Items that are published one by one are few ranges, so that counting them stays quick."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from outlast.queue import LeaseTerms
from outlast.queue.sqlite.queue import SQLiteQueue

TERMS = LeaseTerms(worker="tester", lease_seconds=600.0)


def ranges(path: Path) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT first, last FROM outlast_runs WHERE lease = 0")
        return rows.fetchall()


def published_one_by_one(path: Path, wall_times: list[float]) -> SQLiteQueue:
    queue = SQLiteQueue(f"sqlite:///{path}")
    with pytest.MonkeyPatch.context() as patch:
        for number, seconds in enumerate(wall_times):
            patch.setattr(time, "time", lambda seconds=seconds: seconds)
            queue.publish({f"{number}": number})
    return queue


def test_items_published_within_a_second_share_a_range(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    times = [1000.0, 1000.2, 1000.9, 1001.5, 1001.6]
    with closing(published_one_by_one(path, times)) as queue:
        assert ranges(path) == [(1, 3), (4, 5)]
        assert queue.stats().ready == 5
        lease = queue.claim(5, TERMS)
        assert lease is not None
        assert [item.key for item in lease.items] == ["0", "1", "2", "3", "4"]


def test_items_are_not_added_to_a_range_that_was_claimed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with closing(published_one_by_one(path, [1000.0, 1000.1])) as queue:
        queue.claim(2, TERMS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: 1000.2)
            queue.publish({"2": 2})
        assert ranges(path) == [(3, 3)]
        stats = queue.stats()
        assert (stats.ready, stats.leased) == (1, 2)


def test_a_clock_that_was_set_back_starts_a_new_range(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    published_one_by_one(path, [1000.0, 900.0]).close()

    assert ranges(path) == [(1, 1), (2, 2)]
