"""Two runs can be compared step by step."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outlast
from tests.unit.checkpoint.stores import memory_url


def hashed(path: Path, monkeypatch: pytest.MonkeyPatch, *, seed: int = 1) -> list[dict[str, Any]]:
    """What a short run of two epochs writes down."""
    monkeypatch.setenv("OUTLAST_DRILL_HASHES", str(path))
    np.random.seed(seed)
    random.seed(seed)
    state: dict[str, Any] = {"weights": np.zeros(10), "count": 0}
    with outlast.Run(memory_url(), state) as run:
        for batch in run.batches([1, 2, 3], epochs=2):
            state["weights"] = state["weights"] + np.random.rand(10) * batch
            state["count"] += 1
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_step_and_where_the_run_began_are_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, *lines = hashed(tmp_path / "hashes", monkeypatch)

    assert {"weights", "count", "random.python", "random.numpy"} <= set(names["leaves"])
    assert [line["step"] for line in lines] == list(range(7))
    hashed_ones = [line for line in lines if "hashes" in line]
    assert all(len(line["hashes"]) == len(names["leaves"]) for line in hashed_ones)
    assert hashed_ones[-1]["batch"]


def test_the_same_run_gives_the_same_hashes_and_another_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, other = (
        {
            line["step"]: line["hashes"]
            for line in hashed(tmp_path / name, monkeypatch, seed=seed)[1:]
            if "hashes" in line
        }
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )

    common = first.keys() & second.keys()
    assert common
    assert all(first[step] == second[step] for step in common)
    assert all(first[step] != other[step] for step in first.keys() & other.keys())


def test_without_the_variable_nothing_is_written(tmp_path: Path) -> None:
    with outlast.Run(tmp_path / "run", {"x": 1}) as run:
        list(run.steps(2))

    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_hashes_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "hashes"
    hashed(path, monkeypatch)

    assert path.stat().st_mode & 0o777 == 0o600


class Sampler:
    """An object that can only be stored as a pickle."""

    def __init__(self) -> None:
        self.seen: list[int] = []


def test_a_state_that_is_pickled_in_part_is_hashed_without_its_pickles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hashes"
    monkeypatch.setenv("OUTLAST_DRILL_HASHES", str(path))
    # Hash every step, even on a busy machine.
    monkeypatch.setattr("outlast.checkpoint.state.step_hashes._COST_SHARE_MAX", float("inf"))
    state: dict[str, Any] = {"sampler": Sampler(), "count": 0}

    with outlast.Run(memory_url(), state, may_pickle=["sampler"]) as run:
        for step in run.steps(3):
            state["sampler"].seen.append(step)
            state["count"] += 1

    names, first, *_, last = [json.loads(line) for line in path.read_text().splitlines()]
    before, after = (
        dict(zip(names["leaves"], line["hashes"], strict=True)) for line in (first, last)
    )
    assert before["count"] != after["count"]
    assert before["sampler"] == after["sampler"]
