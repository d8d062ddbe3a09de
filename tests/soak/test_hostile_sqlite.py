"""Damaged queue and sink files, by the thousand: never a raw traceback, never a hang."""

import contextlib
import random
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from tests.faults.hostile_sqlite import (
    VALUES,
    change,
    columns_of,
    flip,
    make_file,
    use_everything,
)

pytestmark = pytest.mark.soak

_SEEDS = 3000
_SECONDS_MAX = 5.0


@pytest.mark.timeout(1800)
def test_no_damaged_file_crashes_or_hangs(tmp_path: Path) -> None:
    intact = tmp_path / "intact.db"
    make_file(intact)
    with contextlib.closing(sqlite3.connect(intact)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    columns = columns_of(intact)
    for number in range(_SEEDS):
        seed = random.Random(number)
        path = tmp_path / "damaged.db"
        for left in tmp_path.glob("damaged.db*"):
            left.unlink()
        shutil.copy(intact, path)
        for _ in range(seed.randint(0, 3)):
            table, column = seed.choice(columns)
            change(path, table, column, seed.choice(VALUES))
        if seed.random() < 0.5:
            flip(path, seed)
        started = time.monotonic()
        try:
            use_everything(path)
        except Exception as error:
            raise AssertionError(f"Seed {number}: {error!r}") from error
        assert time.monotonic() - started < _SECONDS_MAX, f"Seed {number}"
