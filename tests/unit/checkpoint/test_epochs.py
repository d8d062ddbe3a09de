"""Epochs: whatever a run is killed in, the code at the end of an epoch counts once."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import outlast
from outlast.checkpoint.errors import StateMismatch
from outlast.errors import Interrupted
from tests.faults.epochs import BATCHES, Killed, Life, training
from tests.unit.checkpoint.loaders import shut_down
from tests.unit.checkpoint.stores import memory_url


def lived(url: str, moments: Iterator[int], **options: Any) -> Any:
    """The end of a run that is killed after so many moments, again and again."""
    while True:
        try:
            return training(url, Life(next(moments, None)), **options)
        except Killed:
            continue


def test_a_kill_at_every_moment_of_every_epoch_changes_nothing() -> None:
    expected = training(memory_url(), Life(None))
    assert expected[0][3][-1][0] in (2, 3, 4)

    # An epoch has 2 moments for each batch and 4 others.
    for moment in range(2 * (2 * BATCHES + 4)):
        assert lived(memory_url(), iter([moment])) == expected, moment


@pytest.mark.parametrize("every_steps", [1, 3, 4])
@pytest.mark.parametrize("accumulate", [1, 2, 4])
def test_many_kills_change_nothing(accumulate: int, every_steps: int) -> None:
    options: dict[str, Any] = {"accumulate": accumulate, "stop_early": False}
    expected = training(memory_url(), Life(None), **options)
    seed = random.Random().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)

    # More than the moments between two saves at least, or no life would get further.
    moments = iter([rng.randrange(12, 40) for _ in range(8)])

    found = lived(memory_url(), moments, **options, every_steps=every_steps)
    assert found == expected


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_scheduler_that_steps_first_after_a_resume_does_not_warn(momentum: float) -> None:
    def training(optimizer_steps: int) -> None:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        with outlast.Checkpointer(url, state) as checkpointer:
            step = checkpointer.resume()
            for _ in range(optimizer_steps):
                model(torch.ones(1)).backward()
                optimizer.step()
            if step:
                scheduler.step()
            checkpointer.save(step + 1)

    url = memory_url()
    training(optimizer_steps=1)
    training(optimizer_steps=0)


def test_the_end_of_an_epoch_runs_once_if_every_step_is_saved_by_a_notice() -> None:
    url = memory_url()
    ends: list[int] = []
    begins: list[int] = []
    for _ in range(100):
        try:
            with outlast.Run(url, {}) as run:
                for epoch in run.epochs(3):
                    begins.append(epoch)
                    for _ in run.batches(["a", "b"]):
                        run.guard.interrupt("a test")
                    ends.append(epoch)
                    run.guard.interrupt("a test")
        except Interrupted:
            continue
        break

    assert ends == [0, 1, 2]
    # Killed after each batch, so three lives begin each epoch.
    assert begins == sorted(3 * [0, 1, 2])
    assert run.step == 9


def test_changes_before_the_loop_are_undone_after_a_resume_within_the_epoch() -> None:
    url = memory_url()
    seen: list[Any] = []
    for stop in (1, 3, None):
        state: dict[str, Any] = {"total": 0, "begun": 0, "array": np.zeros(3)}
        try:
            with outlast.Run(url, state, every_steps=1) as run:
                for _ in run.epochs(2):
                    state["total"] = 0
                    state["begun"] += 1
                    state["array"] += 1
                    for number in run.steps(3):
                        run._session.wait()
                        if run.step == stop:
                            raise Killed
                        state["total"] += number + 1
                    seen.append((state["total"], state["begun"], float(state["array"].sum())))
        except Killed:
            continue

    assert seen[-2:] == [(6, 1, 3.0), (6, 2, 6.0)]


def test_steps_inside_an_epoch_start_at_zero() -> None:
    url = memory_url()
    seen: list[Any] = []
    for stop in (2, 5, None):
        try:
            with outlast.Run(url, {}, every_steps=1) as run:
                for epoch in run.epochs(2):
                    for number in run.steps(3):
                        run._session.wait()
                        if run.step == stop:
                            raise Killed
                        seen.append((epoch, number))
        except Killed:
            continue

    assert seen == [(epoch, number) for epoch in range(2) for number in range(3)]


def test_an_epoch_without_a_loop_is_one_step() -> None:
    url = memory_url()
    with outlast.Run(url, {}, every_steps=1) as run:
        assert list(run.epochs(3)) == [0, 1, 2]
        assert run.step == 3
    with outlast.Run(url, {}) as run:
        assert list(run.epochs(3)) == []
    with outlast.Run(url, {}) as run:
        assert list(run.epochs(5)) == [3, 4]


def with_breaks(url: str, stops: tuple[int | None, ...], **options: Any) -> list[Any]:
    """All batches of three epochs that are left after 4, 3 and 2 batches of 6."""
    seen: list[Any] = []
    for stop in stops:
        torch.manual_seed(1)
        data: Any = list(range(12))
        loader: DataLoader[Any] = DataLoader(data, batch_size=2, shuffle=True, **options)
        state = {"taken": 0}
        try:
            with outlast.Run(url, state, every_steps=1) as run:
                for epoch in run.epochs(3):
                    state["taken"] = 0
                    for batch in run.batches(loader):
                        run._session.wait()
                        if run.step == stop:
                            raise Killed
                        seen.append((epoch, batch.tolist()))
                        state["taken"] += 1
                        if state["taken"] == 4 - epoch:
                            break
        except Killed:
            continue
        finally:
            shut_down(loader)
    return seen


@pytest.mark.parametrize("workers", [0, 2])
def test_a_break_inside_the_loop_ends_the_pass_over_the_loader(workers: int) -> None:
    options: dict[str, Any] = {"num_workers": workers}
    expected = with_breaks(memory_url(), (None,), **options)

    assert [epoch for epoch, _ in expected] == [0, 0, 0, 0, 1, 1, 1, 2, 2]
    # Epochs begin after 0, 4 and 7 steps: the step that is left counts with the end of its epoch.
    for stops in [(2, None), (4, None), (5, None), (7, None), (3, 4, 6, 8, None)]:
        assert with_breaks(memory_url(), stops, **options) == expected


def test_a_finished_early_run_can_be_extended() -> None:
    url = memory_url()
    with outlast.Run(url, {}) as run:
        for epoch in run.epochs(10):
            for _ in run.batches("abc"):
                pass
            if epoch == 2:
                break
    with outlast.Run(url, {}) as run:
        assert list(run.epochs(10)) == []
    with outlast.Run(url, {}) as run:
        assert list(run.epochs(12)) == list(range(3, 12))


def test_check_in_an_evaluation_repeats_the_end_of_the_epoch() -> None:
    url = memory_url()
    ends = []
    for is_first in (True, False):
        state = {"scheduled": 0}
        try:
            with outlast.Run(url, state, every_steps=1) as run:
                for epoch in run.epochs(2):
                    for _ in run.batches("ab"):
                        pass
                    run._session.wait()
                    state["scheduled"] += 1
                    if is_first:
                        run.guard.interrupt("a test")
                    run.save()
                    run.check()
                    ends.append((epoch, state["scheduled"]))
        except Interrupted:
            continue

    assert ends == [(0, 1), (1, 2)]


def test_a_second_loop_in_one_epoch_is_refused() -> None:
    with (
        pytest.raises(RuntimeError, match=r"Epoch 1 has had its loop.*validation set"),
        outlast.Run(memory_url(), {}) as run,
    ):
        for _ in run.epochs(2):
            list(run.batches("ab"))
            list(run.batches("cd"))


def test_epochs_inside_a_loop_are_refused() -> None:
    with outlast.Run(memory_url(), {}) as run:
        for _ in run.epochs(1):
            with pytest.raises(RuntimeError, match=r"inside another loop of run\.epochs"):
                list(run.epochs(2))
    with outlast.Run(memory_url(), {}) as run:
        for _ in run.steps(1):
            with pytest.raises(RuntimeError, match="one loop at a time"):
                list(run.epochs(2))


def test_several_passes_inside_an_epoch_are_refused() -> None:
    with outlast.Run(memory_url(), {}) as run:
        for _ in run.epochs(1):
            with pytest.raises(ValueError, match="once, not 2 times: remove epochs="):
                list(run.batches("ab", epochs=2))


def test_batches_after_epochs_are_refused_and_before_them_are_not() -> None:
    url = memory_url()
    seen: list[Any] = []
    for stop in ("d", None):
        try:
            with outlast.Run(url, {}, every_steps=1) as run:
                seen += run.batches("ab")
                for _ in run.epochs(2):
                    for batch in run.batches("cd"):
                        run._session.wait()
                        if batch == stop:
                            raise Killed
                        seen.append(batch)
                with pytest.raises(RuntimeError, match="only be called inside its loop"):
                    list(run.batches("ef", epochs=2))
        except Killed:
            continue

    assert "".join(seen) == "abcdcd"


def test_a_program_that_skips_the_rest_of_an_epoch_is_refused() -> None:
    url = memory_url()
    with pytest.raises(Killed), outlast.Run(url, {}, every_steps=1) as run:
        for _ in run.epochs(2):
            for batch in run.batches("abc"):
                if batch == "c":
                    raise Killed

    with (
        pytest.raises(StateMismatch, match=r"without calling run\.batches"),
        outlast.Run(url, {}) as run,
    ):
        list(run.epochs(2))


def test_the_number_of_the_batch_goes_on_after_a_resume() -> None:
    url = memory_url()
    numbers: list[int] = []
    for stop in (2, None):
        with contextlib.suppress(Killed), outlast.Run(url, {}, every_steps=1) as run:
            for _ in run.epochs(2):
                for _ in run.batches("abc"):
                    run._session.wait()
                    if run.step == stop:
                        raise Killed
                    numbers.append(run.batch)
                assert run.batch == 0

    assert numbers == [0, 1, 2, 0, 1, 2]
