"""No damage to a run loads wrong bytes, ends in a traceback, or reaches outside of the run."""

import time
from pathlib import Path

import pytest

from outlast.storage.local.store import Commit, LocalStore
from tests.faults.stores import wrapped
from tests.unit.checkpoint.damage import bounded, endure, make_run

CASES = 40
CASES_SOAKED = 10_000


@pytest.fixture(params=Commit, ids=[commit.name.lower() for commit in Commit])
def origin(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    wrapped(monkeypatch, lambda store: LocalStore(store.url, commit=request.param))
    make_run(tmp_path / "origin")
    return tmp_path / "origin"


def test_no_damage_fools_a_run(origin: Path, tmp_path: Path) -> None:
    for seed in range(CASES):
        endure(origin, tmp_path, seed)


# Each of these once ended in a RecursionError or took all memory.
@pytest.mark.parametrize("seed", [65, 147, 171, 205, 274, 442, 456, 687])
def test_no_attempt_file_stops_a_run(origin: Path, tmp_path: Path, seed: int) -> None:
    endure(origin, tmp_path, seed)


def test_a_case_has_a_time_and_memory_of_its_own() -> None:
    with pytest.raises(TimeoutError), bounded(0.05, 2**32):
        time.sleep(60)
    with pytest.raises(MemoryError), bounded(60, 2**26):
        bytearray(2**33)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_damage_fools_a_run_for_long(origin: Path, tmp_path: Path) -> None:
    for seed in range(CASES, CASES + CASES_SOAKED):
        endure(origin, tmp_path, seed)
