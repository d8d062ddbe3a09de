"""A copy of the state never takes more memory than there is."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.saving.memory import THREADS_BYTES, available_bytes
from outlast.checkpoint.saving.staging import StagingBuffer
from outlast.checkpoint.state.tree import Leaf, capture
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
    monkeypatch.setattr("outlast.checkpoint.saving.staging.available_bytes", lambda: 800_000)
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        for step in (1, 2):
            checkpointer.save(step)
        staged_bytes = checkpointer._session.saver._staging.buffer.size_bytes
    said = caplog.text.count("Saving in parts")

    blank = {name: np.zeros_like(array) for name, array in state.items()}
    assert resumed(url, blank) == 2

    assert staged_bytes < 800_000
    assert all(np.array_equal(blank[name], array) for name, array in state.items())
    assert said == 1


@pytest.mark.parametrize(
    ("name", "used"), [("Max address space", "VmSize"), ("Max data size", "VmData")]
)
def test_a_limit_of_the_process_counts_less_what_it_has_taken(
    tmp_path: Path, name: str, used: str
) -> None:
    other = {"VmSize": "VmData", "VmData": "VmSize"}[used]
    root = written(
        tmp_path,
        proc__meminfo="MemAvailable: 104857600 kB\n",
        proc__self__limits=f"Limit  Soft Limit  Hard Limit  Units\n{name}  {3 * GIB}  unlimited  "
        "bytes\nMax stack size  8388608  unlimited  bytes\n",
        proc__self__status=f"Name:\tx\n{used}:\t 1048576 kB\n{other}:\t 9 kB\n",
    )

    assert available_bytes(root) == 2 * GIB - THREADS_BYTES


def test_no_limit_of_the_process_is_no_bound(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        proc__meminfo="MemAvailable: 2097152 kB\n",
        proc__self__limits="Max address space  unlimited  unlimited  bytes\n",
        proc__self__status="VmSize:\t 1048576 kB\n",
    )

    assert available_bytes(root) == 2 * GIB


def test_a_state_that_grows_a_little_is_staged_in_the_memory_that_is_there() -> None:
    state = {"weights": np.zeros(1_000_000), "log": np.zeros(10, np.uint8)}
    with Checkpointer(memory_url(), state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        checkpointer.save(1)
        staging = checkpointer._session.saver._staging
        memory = staging.buffer._memory
        for step, size in ((2, 20_000), (3, 100_000)):
            state["log"] = np.ones(size, np.uint8)
            checkpointer.save(step)
            assert staging.buffer._memory is memory
        state["log"] = np.ones(1_000_000, np.uint8)
        checkpointer.save(4)

        assert staging.buffer._memory is not memory


def test_memory_that_cannot_be_had_after_all_is_asked_for_in_smaller_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = memory_url()
    state = {f"a{number}": np.random.default_rng(number).random(40_000) for number in range(8)}
    reserve = StagingBuffer.reserve

    def reserve_little(stage: StagingBuffer, size_bytes: int, **options: Any) -> None:
        if size_bytes > 800_000:
            raise MemoryError("No.")
        reserve(stage, size_bytes, **options)

    monkeypatch.setattr(StagingBuffer, "reserve", reserve_little)
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        checkpointer.save(1)

    blank = {name: np.zeros_like(array) for name, array in state.items()}
    assert resumed(url, blank) == 1
    assert all(np.array_equal(blank[name], array) for name, array in state.items())


class Reluctant(ThreadPoolExecutor):
    """Starts one thread, and no other. What it was given is queued nonetheless, as Python does."""

    def submit(self, *arguments: Any, **options: Any) -> Any:
        future = super().submit(*arguments, **options)
        if self._work_queue.qsize() or len(self._threads) > 1:
            raise RuntimeError("can't start new thread")
        return future


def test_without_threads_the_copy_is_made_all_the_same_and_nothing_is_copied_later() -> None:
    gate = threading.Event()
    copied: list[str] = []

    class Slowly:
        def location(self, array: str) -> None:
            return None

        def copy_out(self, array: str, target: object) -> None:
            gate.wait(10)
            copied.append(array)

    stage = StagingBuffer(threads=3)
    stage._pool = Reluctant(1)
    leaves = [
        (
            Leaf(
                path=name,
                array=name,
                library=cast("Any", Slowly()),
                dtype="",
                shape=(),
                nbytes=8,
                is_writable=True,
            ),
            at,
        )
        for name, at in (("a", Span(start=0, length=8)), ("b", Span(start=8, length=8)))
    ]
    threading.Timer(0.05, gate.set).start()

    stage.fill(leaves, 16)

    # All of it is over now, whoever copied it.
    assert set(copied) == {"a", "b"}
    count = len(copied)
    stage.close()
    assert len(copied) == count


def test_a_copy_that_fails_leaves_none_of_the_others_under_way() -> None:
    under_way: list[str] = []
    done: list[str] = []

    class Failing:
        def location(self, array: str) -> None:
            return None

        def copy_out(self, array: str, target: object) -> None:
            if array == "a":
                raise MemoryError("No.")
            under_way.append(array)
            threading.Event().wait(0.05)
            done.append(array)

    stage = StagingBuffer(threads=3)
    leaves = [
        (
            Leaf(
                path=name,
                array=name,
                library=cast("Any", Failing()),
                dtype="",
                shape=(),
                nbytes=8,
                is_writable=True,
            ),
            Span(start=8 * number, length=8),
        )
        for number, name in enumerate("abcd")
    ]

    with pytest.raises(MemoryError):
        stage.fill(leaves, 32)

    assert sorted(under_way) == sorted(done)
    stage.close()


def test_huge_pages_come_after_a_save_that_did_not_wait_for_them() -> None:
    stage = StagingBuffer()
    state = {"x": np.arange(3_000_000, dtype=np.float64)}
    [leaf] = capture(state).leaves
    stage.fill([(leaf, Span(start=0, length=leaf.nbytes))], leaf.nbytes)
    assert stage.has_small_pages

    stage.collapse(lambda: True)
    assert stage.has_small_pages
    stage.collapse(lambda: False)

    assert not stage.has_small_pages
    assert bytes(stage.view(Span(start=0, length=leaf.nbytes))) == state["x"].tobytes()


def test_memory_that_was_made_ready_before_a_save_needs_no_other_pages() -> None:
    stage = StagingBuffer()

    stage.reserve(9_000_000)

    assert not stage.has_small_pages
