"""Samplers that shuffle by the epoch: each rank gets the batches of an uninterrupted run."""

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset

import outlast
from outlast.errors import Interrupted
from tests.unit.checkpoint.loaders import (
    BATCH,
    EPOCHS,
    NEVER,
    SAMPLES,
    Counting,
    Custom,
    Made,
    Numbers,
    Stop,
    lives,
    loader,
    plain,
    shut_down,
)
from tests.unit.checkpoint.stores import memory_url

# What torchdata does with torch is not our affair.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

Program = Callable[[outlast.Run, Any, Any], Iterator[Any]]


def sampler_of(rank: int, ranks: int, kind: Any = DistributedSampler) -> Any:
    return kind(Numbers(), num_replicas=ranks, rank=rank, seed=3)


def stateful(sampler: Any, **options: Any) -> Any:
    kind = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    return kind(Numbers(), **({"batch_size": BATCH, "sampler": sampler} | options))


def stateful_sampler(rank: int, ranks: int) -> Any:
    sampler = pytest.importorskip("torchdata.stateful_dataloader.sampler")
    return sampler_of(rank, ranks, sampler.StatefulDistributedSampler)


LOADERS: dict[str, Callable[[int, int], Any]] = {
    "a sampler": lambda rank, ranks: loader(sampler=sampler_of(rank, ranks)),
    "a batch sampler": lambda rank, ranks: loader(
        batch_sampler=BatchSampler(sampler_of(rank, ranks), BATCH, False)
    ),
    "no batches": lambda rank, ranks: loader(sampler=sampler_of(rank, ranks), batch_size=None),
    "stateful": lambda rank, ranks: stateful(sampler_of(rank, ranks)),
    "a stateful sampler": lambda rank, ranks: stateful(stateful_sampler(rank, ranks)),
}


def passes(run: outlast.Run, data: Any, _sampler: Any) -> Iterator[Any]:
    yield from run.batches(data, epochs=EPOCHS)


def epochs(run: outlast.Run, data: Any, _sampler: Any) -> Iterator[Any]:
    for _ in run.epochs(EPOCHS):
        yield from run.batches(data)


def epochs_that_are_set(run: outlast.Run, data: Any, sampler: Any) -> Iterator[Any]:
    for epoch in run.epochs(EPOCHS):
        sampler.set_epoch(CHOSEN[epoch])
        yield from run.batches(data)


CHOSEN = [7, 5, 5]
PROGRAMS: dict[str, tuple[Program, list[int]]] = {
    "passes": (passes, [0, 1, 2]),
    "epochs": (epochs, [0, 1, 2]),
    "epochs that are set": (epochs_that_are_set, CHOSEN),
}


def rank_life(url: str, data: Any, program: Program, *, stop_after: int | None = None) -> list[Any]:
    """The batches that one rank gets until it is killed. Saved once, at the end."""
    torch.manual_seed(5)
    seen: list[Any] = []
    sampler = data.sampler if hasattr(data.sampler, "set_epoch") else data.batch_sampler.sampler
    try:
        with outlast.Run(url, {}, every_steps=NEVER) as run:
            for batch in program(run, data, sampler):
                if len(seen) == stop_after:
                    raise Stop
                seen.append(plain(batch))
                if len(seen) == stop_after:
                    run.save()
    except Stop:
        pass
    finally:
        shut_down(data)
    return seen


def expected_of(data: Any, numbers: list[int]) -> list[Any]:
    """What the loader returns if the epoch is set by hand."""
    seen: list[Any] = []
    for number in numbers:
        sampler = data.sampler if hasattr(data.sampler, "set_epoch") else data.batch_sampler.sampler
        sampler.set_epoch(number)
        seen += map(plain, data)
    return seen


CASES = [
    *((2, name, "passes") for name in LOADERS),
    *((2, "a sampler", program) for program in PROGRAMS if program != "passes"),
    (2, "stateful", "epochs that are set"),
    (4, "a sampler", "passes"),
    (4, "stateful", "epochs"),
]


@pytest.mark.parametrize(("ranks", "name", "program"), CASES)
def test_each_rank_gets_the_batches_of_an_uninterrupted_run(
    ranks: int, name: str, program: str
) -> None:
    make = LOADERS[name]
    run, numbers = PROGRAMS[program]
    for rank in (0, ranks - 1):
        expected = expected_of(make(rank, ranks), numbers)
        length = len(expected) // EPOCHS
        assert expected[:length] != expected[length : 2 * length]
        assert rank_life(memory_url(), make(rank, ranks), run) == expected
        # Within an epoch, after its last batch, and in the second and third.
        for stops in [(1, length - 1, 1), (length + 1, 1), (2 * length,)]:
            url = memory_url()
            seen: list[Any] = []
            for stop in stops:
                seen += rank_life(url, make(rank, ranks), run, stop_after=stop)
            assert seen + rank_life(url, make(rank, ranks), run) == expected, (rank, stops)


@pytest.mark.parametrize("is_set", [False, True])
@pytest.mark.parametrize("name", ["a sampler", "stateful"])
def test_an_interruption_between_epochs_changes_nothing(name: str, is_set: bool) -> None:
    url = memory_url()
    seen: list[Any] = []
    for _ in range(EPOCHS):
        data = LOADERS[name](1, 2)
        with contextlib.suppress(Interrupted), outlast.Run(url, {}) as run:
            for epoch in run.epochs(EPOCHS):
                if is_set:
                    data.sampler.set_epoch(CHOSEN[epoch])
                seen += map(plain, run.batches(data))
                run.guard.interrupt("a test")

    numbers = CHOSEN if is_set else [0, 1, 2]
    assert seen == expected_of(LOADERS[name](1, 2), numbers)


@pytest.mark.parametrize("kind", [loader, stateful])
def test_worker_processes_change_nothing(kind: Any) -> None:
    def make() -> Any:
        return kind(sampler=sampler_of(1, 2), num_workers=2)

    expected = expected_of(make(), [0, 1, 2])
    url = memory_url()

    seen = rank_life(url, make(), passes, stop_after=7)
    seen += rank_life(url, make(), passes)

    assert seen == expected


def test_a_loader_for_each_epoch_is_numbered_too() -> None:
    def program(run: outlast.Run, _data: Any, _sampler: Any) -> Iterator[Any]:
        for _ in run.epochs(EPOCHS):
            yield from run.batches(LOADERS["a sampler"](0, 2))

    data = LOADERS["a sampler"](0, 2)
    expected = expected_of(data, [0, 1, 2])
    url = memory_url()

    seen = rank_life(url, data, program, stop_after=5) + rank_life(url, data, program, stop_after=2)

    assert seen + rank_life(url, data, program) == expected


def test_loaders_that_take_turns_are_numbered_by_all_passes() -> None:
    def program(run: outlast.Run, data: Any, _sampler: Any) -> Iterator[Any]:
        other = LOADERS["a sampler"](0, 2)
        for epoch in run.epochs(6):
            yield from run.batches(other if epoch % 2 else data)

    data = LOADERS["a sampler"](0, 2)
    expected = expected_of(data, list(range(6)))
    for stops in [(), (15,), (20, 2)]:
        url = memory_url()
        seen: list[Any] = []
        for stop in (*stops, None):
            seen += rank_life(url, LOADERS["a sampler"](0, 2), program, stop_after=stop)
        assert seen == expected, stops


def test_an_epoch_that_was_set_before_the_loop_holds_for_the_first_pass() -> None:
    def make() -> Any:
        data = LOADERS["a sampler"](0, 2)
        data.sampler.set_epoch(100)
        return data

    expected = expected_of(make(), [100, 1, 2])
    for stops in [(), (3,), (5,), (8, 2)]:
        url = memory_url()
        seen: list[Any] = []
        for stop in (*stops, None):
            seen += rank_life(url, make(), passes, stop_after=stop)
        assert seen == expected, stops


class Unreadable(Custom):
    """Draws the order in set_epoch, and does not keep the number."""

    def __init__(self) -> None:
        super().__init__()
        self.order = list(range(SAMPLES))

    def set_epoch(self, epoch: int) -> None:
        self.order = random.Random(epoch).sample(range(SAMPLES), SAMPLES)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)


class CountingItself(Counting):
    """Needs no help, and starts elsewhere."""

    def __init__(self) -> None:
        super().__init__("last")
        self.epoch = 50

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def orders(*seeds: int) -> list[list[int]]:
    return [random.Random(seed).sample(range(SAMPLES), SAMPLES) for seed in seeds]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Unreadable, [list(range(SAMPLES)), *orders(1, 2)]),
        (CountingItself, orders(50, 51, 52)),
    ],
)
def test_other_samplers_are_numbered_unless_they_count_themselves(
    kind: Any, expected: list[Any]
) -> None:
    def make(**_: Any) -> Made:
        return loader(sampler=kind(), batch_size=SAMPLES // 2), {}

    for stops in [(), (1,), (2,), (3, 2)]:
        seen = [batch for batch, _ in lives(memory_url(), make, stops)[:-1]]
        found = [[*map(int, a), *map(int, b)] for a, b in zip(seen[::2], seen[1::2], strict=True)]
        assert found == expected, stops


class Streamed(IterableDataset[Any]):
    """As a streaming data set of Hugging Face: the epoch is in memory that workers share."""

    def __init__(self) -> None:
        epoch: Any = torch.tensor(0)
        self._epoch = epoch.share_memory_()

    @property
    def epoch(self) -> int:
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        self._epoch += epoch - self._epoch

    def __iter__(self) -> Iterator[Any]:
        yield from random.Random(self.epoch).sample(range(SAMPLES), SAMPLES)


@pytest.mark.parametrize(
    "options", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}], ids=str
)
def test_a_data_set_is_numbered_if_its_sampler_is_not(options: dict[str, Any]) -> None:
    def make(**_: Any) -> Made:
        return DataLoader(Streamed(), SAMPLES // 2, **options), {}

    for stops in [(), (1, 2)]:
        seen = [batch for batch, _ in lives(memory_url(), make, stops)[:-1]]
        found = [[*a, *b] for a, b in zip(seen[::2], seen[1::2], strict=True)]
        assert found == orders(0, 1, 2), stops


def test_an_iterable_of_the_program_is_numbered() -> None:
    class Numbered:
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Iterator[Any]:
            return iter([f"{self.epoch}{letter}" for letter in "abc"])

    for stops in [(), (2,), (4,)]:
        seen = lives(memory_url(), lambda **_: (Numbered(), {}), stops)[:-1]
        assert " ".join(batch for batch, _ in seen) == "0a 0b 0c 1a 1b 1c 2a 2b 2c"


def test_a_stateful_loader_without_batches_is_accepted() -> None:
    expected = expected_of(stateful(sampler_of(0, 2), batch_size=None), [0, 1, 2])
    url = memory_url()

    seen = rank_life(url, stateful(sampler_of(0, 2), batch_size=None), passes, stop_after=25)

    assert seen + rank_life(url, stateful(sampler_of(0, 2), batch_size=None), passes) == expected
