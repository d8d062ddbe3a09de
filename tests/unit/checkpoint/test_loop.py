"""The loop of a run, within one process."""

import logging
from typing import Any

import numpy as np
import pytest

import outlast
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.errors import Interrupted, SettingError
from outlast.journal import Ending, Metrics, read_journal, summarize
from outlast.run.place import url_for
from outlast.storage import open_store
from tests.unit.checkpoint.stores import memory_url

pytestmark = pytest.mark.usefixtures("ample_grace")


def fresh() -> dict[str, Any]:
    return {"x": np.zeros(3), "seen": []}


def steps_of(url: str) -> list[int]:
    store = open_store(url)
    return [read_manifest(store, name).step for name in manifest_names(store)]


def ending(url: str) -> Ending:
    return summarize(read_journal(open_store(url))).attempts[-1].ending


def ran(url: str, count: int, **options: Any) -> list[int]:
    """The steps that one life makes of a run."""
    with outlast.Run(url, fresh(), **options) as run:
        return list(run.steps(count))


def test_steps_are_absolute_and_a_finished_run_yields_nothing() -> None:
    url = memory_url()

    assert ran(url, 5) == [0, 1, 2, 3, 4]
    assert ran(url, 5) == []
    assert ran(url, 3) == []
    assert ending(url) is Ending.FINISHED


def test_a_larger_count_extends_a_finished_run() -> None:
    url = memory_url()
    ran(url, 5)

    assert ran(url, 8) == [5, 6, 7]
    assert ran(url, 8) == []


def test_a_break_means_finished_early() -> None:
    url = memory_url()
    with outlast.Run(url, fresh()) as run:
        for step in run.steps(100):
            if step == 6:
                break

    assert steps_of(url)[0] == 7
    assert ran(url, 100) == []
    assert ran(url, 102)[0] == 7


def test_an_exception_means_unfinished() -> None:
    url = memory_url()
    with pytest.raises(KeyError), outlast.Run(url, fresh(), every_steps=2) as run:
        for step in run.steps(100):
            if step == 6:
                raise KeyError

    assert ending(url) is Ending.FAILED
    assert ran(url, 9)[-1] == 8


def test_the_state_follows_the_steps() -> None:
    url = memory_url()
    for stop in (3, 5, None):
        state = fresh()
        try:
            with outlast.Run(url, state, every_steps=1) as run:
                for step in run.steps(8):
                    if step == stop:
                        raise KeyError
                    state["x"] += step
                    state["seen"].append(step)
                    run._session.saver.wait()
        except KeyError:
            continue

    assert state["seen"] == list(range(8))
    assert state["x"].tolist() == [28, 28, 28]


def test_a_loop_within_a_loop_is_refused() -> None:
    with (
        pytest.raises(RuntimeError, match="one loop at a time"),
        outlast.Run(memory_url(), fresh()) as run,
    ):
        for _ in run.steps(3):
            for _ in run.steps(3):
                pass


def test_two_loops_after_each_other_share_one_count() -> None:
    url = memory_url()
    seen: list[Any] = []
    for _ in range(2):
        with outlast.Run(url, fresh()) as run:
            seen += run.batches(["a", "b"], epochs=2)
            seen += run.steps(6)

    assert seen == ["a", "b", "a", "b", 4, 5]


def test_a_step_left_by_break_counts_for_the_next_loop() -> None:
    with outlast.Run(memory_url(), fresh()) as run:
        for _ in run.steps(10):
            break

        assert next(run.steps(10)) == 1


def test_an_interruption_saves_and_raises_and_the_next_life_goes_on() -> None:
    url = memory_url()
    with pytest.raises(Interrupted) as caught, outlast.Run(url, fresh(), exit_code=75) as run:
        for step in run.steps(100):
            if step == 4:
                run.guard.interrupt("a test")

    assert caught.value.code == 75
    assert steps_of(url) == [5]
    assert ending(url) is Ending.ANNOUNCED
    assert ran(url, 7) == [5, 6]


@pytest.mark.parametrize("code", [None, 0])
def test_an_exit_without_a_failure_after_a_notice_is_an_interruption(code: int | None) -> None:
    url = memory_url()
    with pytest.raises(SystemExit) as caught, outlast.Run(url, fresh(), exit_code=75) as run:
        for step in run.steps(100):
            if step == 4:
                run.guard.interrupt("a test")
                break
        list(run.steps(5))
        raise SystemExit(code)

    assert caught.value.code == 75
    assert steps_of(url) == [5]
    assert ending(url) is Ending.ANNOUNCED
    assert ran(url, 7) == [5, 6]


def test_an_exit_within_a_step_after_a_notice_saves_no_part_of_it() -> None:
    url = memory_url()
    with pytest.raises(SystemExit) as caught, outlast.Run(url, fresh(), exit_code=75) as run:
        for step in run.steps(100):
            if step == 4:
                run.guard.interrupt("a test")
                raise SystemExit

    assert caught.value.code == 75
    assert steps_of(url) == []
    assert ending(url) is Ending.ANNOUNCED


def test_an_exit_with_a_failure_after_a_notice_is_a_failure() -> None:
    url = memory_url()
    with pytest.raises(SystemExit) as caught, outlast.Run(url, fresh(), exit_code=75) as run:
        run.guard.interrupt("a test")
        raise SystemExit(3)

    assert caught.value.code == 3
    assert ending(url) is Ending.FAILED


@pytest.mark.parametrize("kind", ["steps", "batches"])
def test_with_accumulation_only_whole_updates_are_saved_and_left(kind: str) -> None:
    url = memory_url()
    with pytest.raises(Interrupted), outlast.Run(url, fresh(), every_steps=1) as run:
        loop = {
            "steps": run.steps(100, accumulate=4),
            "batches": run.batches(range(100), accumulate=4),
        }[kind]
        for step in loop:
            if step == 5:
                run.guard.interrupt("a test")
            run._session.saver.wait()

    assert steps_of(url)[0] == 8
    assert all(step % 4 == 0 for step in steps_of(url))


def test_accumulating_less_than_a_step_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="accumulate must be at least 1, got 0"),
        outlast.Run(memory_url(), fresh()) as run,
    ):
        next(run.steps(3, accumulate=0))


def test_check_leaves_from_within_a_step_without_saving_half_of_it() -> None:
    url = memory_url()
    with pytest.raises(Interrupted), outlast.Run(url, fresh(), every_steps=2) as run:
        for step in run.steps(100):
            run._session.saver.wait()
            if step == 5:
                run.guard.interrupt("a test")
                run.check()

    assert steps_of(url)[0] == 4


def test_a_save_asked_for_within_a_step_is_made_at_its_end() -> None:
    url = memory_url()
    with outlast.Run(url, fresh()) as run:
        for step in run.steps(5):
            if step == 2:
                run.save()
            if step == 3:
                run._session.saver.wait()
                assert steps_of(url) == [3]
        run.save()


def test_a_notice_during_the_last_step_does_not_spoil_the_end() -> None:
    url = memory_url()
    with outlast.Run(url, fresh()) as run:
        for step in run.steps(3):
            if step == 2:
                run.guard.interrupt("a test")

    assert ran(url, 3) == []


def test_metrics_go_to_the_journal_with_their_step() -> None:
    url = memory_url()
    with outlast.Run(url, fresh()) as run:
        for step in run.steps(2):
            run.log(loss=0.5 * step)

    [record] = read_journal(open_store(url))
    found = [(e.step, e.values) for e in record.events if isinstance(e, Metrics)]
    assert found == [(0, {"loss": 0.0}), (1, {"loss": 0.5})]


def test_where_a_run_is_kept() -> None:
    both = {"OUTLAST_RUN_URL": "gs://a/run", "CHECKPOINT_DIR": "/data"}

    assert url_for("memory://x", both) == "memory://x"
    assert url_for(None, both) == "gs://a/run"
    assert url_for(None, {"CHECKPOINT_DIR": "/data"}) == "/data"
    assert url_for("gs://a/run/", {"JOB_COMPLETION_INDEX": "3"}) == "gs://a/run/3"
    with pytest.raises(SettingError, match="No folder or URL was given") as caught:
        url_for(None, {})
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("ranks", "url"),
    [
        ({}, "gs://a/run/3"),
        ({"WORLD_SIZE": "1"}, "gs://a/run/3"),
        ({"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}, "gs://a/run/3"),
        # Each trial of a sweep may have several ranks in its own Pod.
        ({"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, "gs://a/run/3"),
        ({"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, "gs://a/run"),
        ({"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "1"}, "gs://a/run"),
        # Not every launcher sets the local size.
        ({"WORLD_SIZE": "2"}, "gs://a/run"),
        ({"WORLD_SIZE": ""}, "gs://a/run/3"),
        ({"WORLD_SIZE": "many"}, "gs://a/run/3"),
    ],
)
def test_the_pods_of_one_world_share_a_url_and_the_pods_of_a_sweep_do_not(
    ranks: dict[str, str], url: str
) -> None:
    assert url_for("gs://a/run", {"JOB_COMPLETION_INDEX": "3", **ranks}) == url
    assert url_for("gs://a/run", ranks) == "gs://a/run"


def test_the_interval_of_the_environment_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKPOINT_INTERVAL", "3")
    url = memory_url()
    with outlast.Run(url, fresh()) as run:
        for _ in run.steps(7):
            run._session.saver.wait()

    assert steps_of(url) == [7, 6, 3]
    monkeypatch.setenv("CHECKPOINT_INTERVAL", "often")
    with pytest.raises(SettingError, match="'often'"):
        outlast.Run(url, fresh())


def test_an_error_of_the_program_is_not_hidden_by_one_of_the_store(
    caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    import shutil

    caplog.set_level(logging.WARNING)
    url = tmp_path / "run"
    with pytest.raises(KeyError), outlast.Run(url, fresh(), every_steps=1) as run:
        for step in run.steps(3):
            if step == 1:
                run._session.saver.wait()
                shutil.rmtree(url)
                run._session.save(1)
                raise KeyError

    assert "Could not close the run properly" in caplog.text


@pytest.mark.parametrize("loop", ["steps", "epochs", "batches"])
def test_a_loop_outside_the_block_is_refused_before_its_first_step(loop: str) -> None:
    url = memory_url()
    run = outlast.Run(url, fresh())
    argument: Any = [1] if loop == "batches" else 1

    with pytest.raises(RuntimeError, match=r"not open. Open it with: with outlast.Run\(...\)"):
        next(iter(getattr(run, loop)(argument)))
    with run:
        pass
    with pytest.raises(RuntimeError, match="not open"):
        next(iter(getattr(run, loop)(argument)))
