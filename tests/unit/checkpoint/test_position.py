"""Interrupted within an epoch, the data goes on in the same order."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import outlast
from outlast.checkpoint.errors import StateMismatch
from tests.unit.checkpoint.stores import memory_url

pytest.importorskip("torch")

import random

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, random_split

# What torchdata does with torch is not our affair.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

EXAMPLES = 20
EPOCHS = 3


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(EXAMPLES))


class Shuffled:
    """Iterable again and again; shuffles with Python's global generator."""

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(EXAMPLES))
        random.shuffle(order)
        return iter([order[at : at + 3] for at in range(0, EXAMPLES, 3)])


class Stop(Exception):
    """Ends a life of a run."""


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(11)


def stateful(**options: Any) -> Any:
    loader = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    return loader(Numbers(), 3, shuffle=True, **options)


LOADERS: dict[str, Callable[[], Iterable[Any]]] = {
    "list": lambda: [[1], [2], [3], [4], [5], [6], [7]],
    "shuffled by Python": Shuffled,
    "global generator": lambda: DataLoader(Numbers(), 3, shuffle=True),
    "own generator": lambda: DataLoader(Numbers(), 3, shuffle=True, generator=seeded()),
    "the sampler's generator": lambda: DataLoader(
        Numbers(), 3, sampler=RandomSampler(Numbers(), generator=seeded())
    ),
    "with replacement": lambda: DataLoader(
        Numbers(), 3, sampler=RandomSampler(Numbers(), replacement=True, generator=seeded())
    ),
    "without batches": lambda: DataLoader(
        Numbers(), None, sampler=RandomSampler(Numbers(), generator=seeded())
    ),
    "stream": lambda: DataLoader(Stream(), 3),
    "two workers": lambda: DataLoader(
        Numbers(), 3, shuffle=True, num_workers=2, generator=seeded()
    ),
    "persistent workers": lambda: DataLoader(
        Numbers(), 3, shuffle=True, num_workers=2, persistent_workers=True
    ),
    "persistent workers, own generator": lambda: DataLoader(
        Numbers(), 3, shuffle=True, num_workers=2, persistent_workers=True, generator=seeded()
    ),
    "stateful": lambda: stateful(),
    "stateful with a generator": lambda: stateful(generator=seeded()),
    "stateful with two workers": lambda: stateful(num_workers=2, generator=seeded()),
}
SLOW = {name for name in LOADERS if "workers" in name}


def epochs(
    url: str,
    make: Callable[[], Iterable[Any]],
    *,
    stop_after: int | None = None,
    every_steps: int = 10**9,
) -> Any:
    """One life of a run: all batches that the state holds after it, and what it drew besides.

    It saves where it stops, and else as often as it is told.
    """
    torch.manual_seed(5)
    random.seed(5)
    state: dict[str, Any] = {"seen": []}
    loader = make()
    count = 0
    try:
        with outlast.Run(url, state, every_steps=every_steps) as run:
            for batch in run.batches(loader, epochs=EPOCHS):
                if count == stop_after:
                    raise Stop
                count += 1
                if count == stop_after:
                    run.save()
                # Draws of the program's own come between the batches, as dropout does.
                drawn = (float(torch.rand(())), random.random())
                state["seen"].append((torch.as_tensor(batch).tolist(), *drawn))
    except Stop:
        return None
    finally:
        # Left to the garbage collector, torch's workers are waited for in vain, 5 s each.
        shut_down = getattr(getattr(loader, "_iterator", None), "_shutdown_workers", None)
        if shut_down is not None:
            shut_down()
    return state["seen"]


@pytest.mark.parametrize("name", LOADERS)
def test_two_interruptions_in_one_epoch_change_nothing(name: str) -> None:
    make = LOADERS[name]
    # Saving at every step changes nothing either.
    expected = epochs(memory_url(), make, every_steps=1)

    first_lives = ((2, 2), (9, 1)) if name in SLOW else ((1, 1), (2, 3), (7, 2), (8, 1), (15, 4))
    for first, second in first_lives:
        url = memory_url()
        assert epochs(url, make, stop_after=first) is None
        assert epochs(url, make, stop_after=second) is None
        assert epochs(url, make) == expected, (first, second)


@pytest.mark.parametrize("name", ["list", "global generator", "own generator", "stateful"])
def test_a_finished_run_that_grows_by_an_epoch_goes_on_in_the_same_order(name: str) -> None:
    def run_for(url: str, count: int) -> list[Any]:
        torch.manual_seed(5)
        state: dict[str, Any] = {"seen": []}
        with outlast.Run(url, state) as run:
            for batch in run.batches(LOADERS[name](), epochs=count):
                state["seen"].append(torch.as_tensor(batch).tolist())
        found: list[Any] = state["seen"]
        return found

    url = memory_url()
    short = run_for(url, 2)

    assert run_for(url, 2) == short
    assert run_for(url, 4) == run_for(memory_url(), 4)


def test_what_was_consumed_is_not_loaded_again() -> None:
    loaded: list[int] = []

    class Noting(Numbers):
        def __getitem__(self, index: int) -> int:
            loaded.append(index)
            return index

    url = memory_url()
    make = lambda: DataLoader(Noting(), 1, shuffle=True)  # noqa: E731
    assert epochs(url, make, stop_after=12) is None
    loaded.clear()
    assert epochs(url, make, stop_after=1) is None

    assert len(loaded) <= 2


def test_another_loader_is_refused() -> None:
    url = memory_url()
    assert epochs(url, LOADERS["own generator"], stop_after=2) is None

    with pytest.raises(StateMismatch, match="generator was a generator and is missing now"):
        epochs(url, LOADERS["global generator"])


def part_of_a_split(seed: int) -> Any:
    """As without a generator in a program that does not seed: each process has another one."""

    class Scaled(Dataset[int]):
        """The program's own, around the part."""

        def __init__(self) -> None:
            split = random_split(Numbers(), [12, 8], torch.Generator().manual_seed(seed))
            self.part: Dataset[int] = split[0]

        def __len__(self) -> int:
            return 12

        def __getitem__(self, index: int) -> int:
            return int(2 * self.part[index])

    return DataLoader(Scaled(), 3, shuffle=True)


def test_another_part_of_a_random_split_is_refused() -> None:
    url = memory_url()
    assert epochs(url, lambda: part_of_a_split(1), stop_after=2) is None

    with pytest.raises(StateMismatch, match="another subset than before, as after random_split"):
        epochs(url, lambda: part_of_a_split(2))
    assert epochs(url, lambda: part_of_a_split(1)) == epochs(
        memory_url(), lambda: part_of_a_split(1)
    )


def test_between_two_epochs_another_part_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = memory_url()

    def train(seed: int, *, stop_in: int) -> None:
        with outlast.Run(url, {}, every_steps=1) as run:
            for epoch in run.epochs(3):
                if epoch == stop_in:
                    raise Stop
                list(run.batches(part_of_a_split(seed)))

    with pytest.raises(Stop):
        train(1, stop_in=1)
    with pytest.raises(Stop):
        train(1, stop_in=2)
    assert "another subset" not in caplog.text
    train(2, stop_in=-1)

    assert "the data set is another subset than before" in caplog.text


def test_what_can_be_iterated_over_once_has_one_epoch() -> None:
    with outlast.Run(memory_url(), {}) as run:
        with pytest.raises(TypeError, match="only once, not 2 times"):
            next(run.batches(iter([1, 2]), epochs=2))
        assert list(run.batches(iter([1, 2]))) == [1, 2]


class Remembering(IterableDataset[int]):
    """Keeps what cannot be saved, and what another process has not made yet."""

    def __init__(self) -> None:
        self.by_kind: dict[type, int] = {}
        self.states: list[Any] = [None]

    def __iter__(self) -> Iterator[int]:
        for number in range(EXAMPLES):
            self.by_kind[int] = number
            self.states = [{"number": number, "name": "state"}]
            yield number


def test_containers_that_cannot_be_restored_do_no_harm() -> None:
    url = memory_url()
    done: list[Any] = []

    for _ in range(11):
        data = Remembering()
        with contextlib.suppress(Stop), outlast.Run(url, {}, every_steps=1) as run:
            for number, batch in enumerate(run.batches(DataLoader(data, 3), epochs=EPOCHS)):
                if number == 2:
                    raise Stop
                done.append(batch.tolist())
        assert list(vars(data)) == ["by_kind", "states"]

    assert done == EPOCHS * [list(range(EXAMPLES))[at : at + 3] for at in range(0, EXAMPLES, 3)]
