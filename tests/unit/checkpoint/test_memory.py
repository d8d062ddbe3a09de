"""A copy of the state never takes more memory than there is."""

from pathlib import Path

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.memory import available_bytes
from tests.unit.checkpoint.stores import NEVER, memory_url, resumed

GIB = 1024**3


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_machine_bounds_what_is_free(tmp_path: Path) -> None:
    root = written(tmp_path, proc__meminfo="MemTotal: 9 kB\nMemAvailable: 2097152 kB\n")

    assert available_bytes(root) == 2 * GIB


def test_the_limit_of_a_container_counts_less_what_can_be_dropped(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        proc__meminfo="MemAvailable: 104857600 kB\n",
        proc__self__cgroup="0::/\n",
        sys__fs__cgroup__memoryDOTmax=f"{4 * GIB}\n",
        sys__fs__cgroup__memoryDOTcurrent=f"{3 * GIB}\n",
        sys__fs__cgroup__memoryDOTstat=f"anon 5\ninactive_file {GIB}\n",
    )

    assert available_bytes(root) == 2 * GIB


def test_the_tightest_group_above_counts(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        proc__meminfo="MemAvailable: 104857600 kB\n",
        proc__self__cgroup="0::/pods/one\n",
        sys__fs__cgroup__pods__memoryDOTmax=f"{3 * GIB}\n",
        sys__fs__cgroup__pods__memoryDOTcurrent=f"{2 * GIB}\n",
        sys__fs__cgroup__pods__one__memoryDOTmax="max\n",
        sys__fs__cgroup__pods__one__memoryDOTcurrent=f"{2 * GIB}\n",
    )

    assert available_bytes(root) == GIB


def test_where_nobody_can_tell_nothing_is_assumed(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None


def test_this_machine_says_something() -> None:
    free = available_bytes()

    assert free is not None
    assert free > 0


def test_a_state_larger_than_what_is_free_is_saved_in_waves_and_said_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = memory_url()
    state = {f"a{number}": np.random.default_rng(number).random(40_000) for number in range(4)}
    monkeypatch.setattr("outlast.checkpoint.saver.available_bytes", lambda: 800_000)
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        for step in (1, 2):
            checkpointer.save(step)
        staged_bytes = checkpointer._opened()._stage.size_bytes
    said = caplog.text.count("it is saved in waves")

    blank = {name: np.zeros_like(array) for name, array in state.items()}
    assert resumed(url, blank) == 2

    assert staged_bytes < 800_000
    assert all(np.array_equal(blank[name], array) for name, array in state.items())
    assert said == 1
