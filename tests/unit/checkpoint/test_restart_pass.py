"""A pass that starts again, because another number of ranks shares the data now."""

import contextlib
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DistributedSampler

import outlast
from outlast.checkpoint.errors import StateMismatch
from tests.unit.checkpoint.loaders import (
    BATCH,
    BATCHES,
    EPOCHS,
    NEVER,
    SAMPLERS,
    SAMPLES,
    Made,
    Make,
    Numbers,
    Stop,
    life,
    lives,
    loader,
    plain,
)
from tests.unit.checkpoint.stores import memory_url


def restart(run: outlast.Run) -> None:
    run._loops._position.restart_pass()


def distributed(rank: int, ranks: int) -> Any:
    sampler: Any = DistributedSampler(Numbers(), num_replicas=ranks, rank=rank, seed=3)
    return loader(sampler=sampler)


def passes(data: Any, *numbers: int) -> list[Any]:
    seen: list[Any] = []
    for number in numbers:
        data.sampler.set_epoch(number)
        seen += map(plain, data)
    return seen


def rank_life(
    url: str, data: Any, *, stop_after: int | None = None, restarts: bool = False
) -> list[Any]:
    seen: list[Any] = []
    torch.manual_seed(5)
    with contextlib.suppress(Stop), outlast.Run(url, {}, every_steps=NEVER) as run:
        if restarts:
            restart(run)
        for batch in run.batches(data, epochs=EPOCHS):
            if len(seen) == stop_after:
                raise Stop
            seen.append(plain(batch))
            if len(seen) == stop_after:
                run.save()
    return seen


@pytest.mark.parametrize("stop", [1, 3, 4, 7])
def test_another_number_of_ranks_repeats_the_pass_with_its_number(stop: int) -> None:
    """4 ranks have 3 batches in each pass; 2 ranks have 5."""
    url = memory_url()
    assert (
        rank_life(url, distributed(1, 4), stop_after=stop)
        == passes(distributed(1, 4), 0, 1, 2)[:stop]
    )

    # The last batch of a pass does not end it: that is when the loop asks for another one.
    complete = (stop - 1) // 3
    expected = passes(distributed(1, 2), *range(complete, EPOCHS))
    seen = rank_life(url, distributed(1, 2), stop_after=2, restarts=True)
    # What is saved since resumes as usual.
    seen += rank_life(url, distributed(1, 2), stop_after=4)
    seen += rank_life(url, distributed(1, 2))

    assert seen == expected


def test_without_it_another_number_of_ranks_is_refused() -> None:
    url = memory_url()
    rank_life(url, distributed(1, 4), stop_after=2)

    with pytest.raises(StateMismatch, match=r"sampler\.num_replicas was 4 and is now 2"):
        rank_life(url, distributed(1, 2))


def test_a_save_before_the_loop_keeps_the_pass_at_its_start() -> None:
    url = memory_url()
    rank_life(url, distributed(1, 4), stop_after=4)
    with pytest.raises(Stop), outlast.Run(url, {}, every_steps=NEVER) as run:
        restart(run)
        run._loops.done += 1
        run.save()
        run._session.wait()
        raise Stop

    assert rank_life(url, distributed(0, 2)) == passes(distributed(0, 2), 1, 2)


@pytest.mark.parametrize(
    "name",
    [
        "shuffled by the loader's generator",
        "NumPy at once",
        "NumPy as it goes",
        "counting first",
        "counting last",
        "counting at once",
        "a batch sampler",
    ],
)
def test_generators_and_counters_go_back_to_the_start_of_the_pass(name: str) -> None:
    expected = [batch for batch, _ in lives(memory_url(), SAMPLERS[name])[:-1]]
    for stop in (3, BATCHES + 4):
        url = memory_url()
        life(url, SAMPLERS[name], stop_after=stop)

        seen = restarted_life(url, SAMPLERS[name])

        assert seen == expected[stop - stop % BATCHES :], stop


def restarted_life(url: str, make: Make) -> list[Any]:
    data, state = make()
    with outlast.Run(url, state, every_steps=NEVER) as run:
        restart(run)
        return [plain(batch) for batch in run.batches(data, epochs=EPOCHS)]


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_a_stateful_loader_starts_its_pass_again() -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def data(ranks: int) -> Any:
        sampler: Any = DistributedSampler(Numbers(), num_replicas=ranks, rank=0, seed=3)
        return stateful(Numbers(), BATCH, sampler=sampler)

    url = memory_url()
    rank_life(url, data(4), stop_after=4)

    assert rank_life(url, data(2), restarts=True) == passes(data(2), 1, 2)


def epochs_life(
    url: str, data: Any, *, stop: int | None = None, restarts: bool = False
) -> list[Any]:
    """What each step sees: the epoch, the number of the batch, the batch and the state."""
    state: dict[str, Any] = {"begun": 0, "sum": 0.0, "array": np.zeros(2)}
    seen: list[Any] = []
    with contextlib.suppress(Stop), outlast.Run(url, state, every_steps=1) as run:
        if restarts:
            restart(run)
        for epoch in run.epochs(2):
            state["begun"] += 1
            state["array"] += 1
            for batch in run.batches(data):
                run._session.wait()
                if run.step == stop:
                    raise Stop
                seen.append((epoch, run.batch, plain(batch), state["begun"]))
                state["sum"] += 1
            seen.append((epoch, "end", state["sum"], float(state["array"].sum())))
    return seen


def test_the_loop_of_an_epoch_starts_again_at_batch_0() -> None:
    url = memory_url()
    # The first epoch of 4 ranks is 3 batches and its end.
    epochs_life(url, distributed(1, 4), stop=6)

    seen = epochs_life(url, distributed(1, 2), stop=8, restarts=True)
    seen += epochs_life(url, distributed(1, 2))

    batches = passes(distributed(1, 2), 1)
    assert len(batches) == 5
    # The code before the loop ran twice in the second epoch and took effect once.
    assert seen[:5] == [(1, number, batch, 2) for number, batch in enumerate(batches)]
    # 3 batches of the first epoch, 2 that are repeated, and all 5.
    assert seen[5:] == [(1, "end", 10.0, 4.0)]


def test_a_position_between_epochs_stays_there() -> None:
    url = memory_url()
    # After the end of the first epoch.
    epochs_life(url, distributed(1, 4), stop=4)

    seen = epochs_life(url, distributed(1, 2), restarts=True)

    assert [batch for _, _, batch, _ in seen[:-1]] == passes(distributed(1, 2), 1)
    assert seen[0][:2] == (1, 0)


def test_a_run_that_has_not_begun_starts_as_usual() -> None:
    seen = rank_life(memory_url(), distributed(0, 2), restarts=True)

    assert seen == passes(distributed(0, 2), 0, 1, 2)


def test_data_that_a_rank_had_does_not_come_back() -> None:
    """A sampler that shuffles its part of the data in place."""

    class InPlace:
        def __init__(self, ranks: int) -> None:
            self.part = list(range(0, SAMPLES, ranks))
            self.passes = 0

        def __iter__(self) -> Any:
            self.passes += 1
            self.part.reverse()
            return iter(list(self.part))

        def __len__(self) -> int:
            return len(self.part)

    def make(ranks: int) -> Made:
        return loader(sampler=InPlace(ranks)), {}

    url = memory_url()
    life(url, lambda **_: make(4), stop_after=4)

    seen = restarted_life(url, lambda **_: make(2))

    first_pass = [number for batch in seen[:5] for number in batch]
    assert sorted(first_pass) == [float(number) for number in range(0, SAMPLES, 2)]
