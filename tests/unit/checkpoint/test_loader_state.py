"""What a loader keeps besides generators: saved with the position, or reported and refused."""

import logging
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import outlast
from outlast.checkpoint.errors import StateMismatch
from tests.unit.checkpoint.stores import memory_url

pytest.importorskip("torch")

import torch

from tests.unit.checkpoint.counting_loaders import (
    CARRIED,
    NOT_CARRIED,
    CountingCalls,
    LongList,
    epoch_by_epoch,
    of_data,
)
from tests.unit.checkpoint.loaders import (
    ALL_KINDS,
    SAMPLES,
    Custom,
    Eager,
    GlobalPython,
    Hidden,
    Made,
    Make,
    Numbers,
    life,
    lives,
    loader,
    permutation,
    plain,
    sampled,
    seeded,
)


@pytest.mark.parametrize("name", CARRIED)
def test_what_a_loader_keeps_is_restored_within_an_epoch(name: str) -> None:
    expected = lives(memory_url(), CARRIED[name])

    # The last ones are within the epoch after one that a second process has ended.
    for stops in ((3, 7, 3, 16), (3, 12, 6), (9, 4, 3), (3, 11, 3)):
        assert lives(memory_url(), CARRIED[name], stops) == expected, stops


@pytest.mark.parametrize("name", CARRIED)
def test_what_a_loader_keeps_is_restored_between_epochs(name: str) -> None:
    expected = epoch_by_epoch(memory_url(), CARRIED[name])

    for stops in ((1,), (0, 1)):
        assert epochs_of(CARRIED[name], stops) == expected, stops


@pytest.mark.parametrize("name", ALL_KINDS)
def test_ordinary_loaders_go_on_between_epochs(name: str) -> None:
    expected = epoch_by_epoch(memory_url(), ALL_KINDS[name])

    for stops in ((0, 1),):
        assert epochs_of(ALL_KINDS[name], stops) == expected, stops


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_restored_is_not_warned_about(name: str, caplog: pytest.LogCaptureFixture) -> None:
    epoch_by_epoch(memory_url(), CARRIED[name])

    assert warnings_of(caplog) == []


@pytest.mark.parametrize("name", NOT_CARRIED)
def test_what_cannot_be_saved_is_named_in_the_first_epoch(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, path = NOT_CARRIED[name]

    life(memory_url(), make, stop_after=2)

    assert [path in text for text in warnings_of(caplog)] == [True]


@pytest.mark.parametrize("name", NOT_CARRIED)
def test_what_cannot_be_saved_is_refused_between_epochs(name: str) -> None:
    make, path = NOT_CARRIED[name]
    url = memory_url()
    epoch_by_epoch(url, make, stop_after_epoch=1)

    with pytest.raises(StateMismatch, match=r"(?s)Cannot resume after epoch 2: ") as caught:
        epoch_by_epoch(url, make)

    assert "state_dict" in str(caught.value.hint)
    assert path.startswith("sampler") or any(path in one for one in caught.value.differences)


def test_an_order_from_a_place_that_cannot_be_searched_is_refused_between_epochs() -> None:
    url = memory_url()
    epoch_by_epoch(url, sampled(Hidden), stop_after_epoch=1)

    with pytest.raises(StateMismatch, match="different order"):
        epoch_by_epoch(url, sampled(Hidden))


def test_a_sampler_that_draws_from_a_shared_generator_goes_on_between_epochs() -> None:
    expected = epoch_by_epoch(memory_url(), sampled(GlobalPython))

    assert epochs_of(sampled(GlobalPython), (1,)) == expected


class Caching(Numbers):
    """Keeps what it has loaded, some of it, for a while."""

    def __init__(self, size: int = 10) -> None:
        super().__init__()
        self.size = size
        self.cache: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.cache:
            if len(self.cache) == self.size:
                self.cache.pop(next(iter(self.cache)))
            self.cache[index] = torch.full((3,), float(index))
        return self.cache[index]


@pytest.mark.parametrize("size", [10, 1000])
def test_a_cache_is_a_warning_at_most(size: int, caplog: pytest.LogCaptureFixture) -> None:
    make = of_data(lambda: Caching(size))
    expected = epoch_by_epoch(memory_url(), make)
    caplog.clear()

    assert epochs_of(make, (0, 1)) == expected
    assert lives(memory_url(), make, (13, 4)) == lives(memory_url(), make)
    assert all("dataset.cache" in text for text in warnings_of(caplog))


class EpochsBySetting(Custom):
    """Draws the order in set_epoch, and does not keep the number."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.order = list(range(length))

    def set_epoch(self, epoch: int) -> None:
        self.order = random.Random(epoch).sample(range(len(self.order)), len(self.order))

    def __iter__(self) -> Iterator[int]:
        return iter([number % SAMPLES for number in self.order[:SAMPLES]])


@pytest.mark.parametrize("length", [SAMPLES, 200_000])
def test_a_program_that_sets_the_order_itself_is_not_refused(length: int) -> None:
    def program(url: str, stop_after_epoch: int | None = None) -> list[Any]:
        sampler = EpochsBySetting(length)
        data = loader(sampler=sampler)
        seen: list[Any] = []
        with outlast.Run(url, {}, every_steps=10**9) as run:
            for epoch in range(3):
                sampler.set_epoch(epoch)
                seen += [plain(batch) for batch in run.batches(data, epochs=epoch + 1)]
                if epoch == stop_after_epoch:
                    run.save()
                    return seen
        return seen

    expected = program(memory_url())
    url = memory_url()

    seen = program(url, stop_after_epoch=1)

    assert seen + program(url) == expected


def test_a_loader_for_each_epoch_goes_on_with_its_own_data() -> None:
    def program(url: str, stop_after_epoch: int | None = None) -> list[Any]:
        seen: list[Any] = []
        with outlast.Run(url, {}, every_steps=10**9) as run:
            for epoch in range(3):
                own = np.random.default_rng(epoch)
                order = [int(n) for n in own.permutation(10 * (epoch + 1))]
                data = loader(sampler=order)
                seen += [plain(batch) for batch in run.batches(data, epochs=epoch + 1)]
                if epoch == stop_after_epoch:
                    run.save()
                    return seen
        return seen

    expected = program(memory_url())
    for stop in (0, 1):
        url = memory_url()
        seen = program(url, stop_after_epoch=stop)
        assert seen + program(url) == expected, stop


def test_data_that_counts_in_worker_processes_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life(memory_url(), lambda: of_data(CountingCalls)(num_workers=1), stop_after=6)

    assert [
        "dataset.calls" in text and "worker processes" in text for text in warnings_of(caplog)
    ] == [True]


def test_a_cache_in_worker_processes_is_not_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    life(memory_url(), lambda: of_data(Caching)(num_workers=1), stop_after=6)

    assert warnings_of(caplog) == []


class Opening(Numbers):
    """Opens what it reads from late, and keeps the number of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.fd = -1
        self.reader: int | None = None

    def __getitem__(self, index: int) -> Any:
        if self.fd < 0:
            self.fd = self.reader = 7
        return super().__getitem__(index)


def test_numbers_of_open_files_are_not_restored() -> None:
    url = memory_url()
    life(url, of_data(Opening), stop_after=3)
    data = Opening()
    seen: list[Any] = []

    def made() -> Made:
        return loader(data, shuffle=True, generator=seeded()), {}

    class Watching(Opening):
        pass

    original = Opening.__getitem__

    def watched(self: Any, index: int) -> Any:
        seen.append((self.fd, self.reader))
        return original(self, index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Opening, "__getitem__", watched)
        life(url, made, stop_after=1)

    assert seen[0] == (-1, None)


def test_a_large_data_set_costs_nothing_to_watch() -> None:
    from outlast.checkpoint.position.search import search

    data = Numbers()
    data.rows = [[number] * 10 for number in range(100_000)]  # type: ignore[attr-defined]
    data.array = np.zeros((1000, 100_000), np.uint8)  # type: ignore[attr-defined]
    data.names = [f"name {number}" for number in range(1_000_000)]  # type: ignore[attr-defined]
    sources = search({"": loader(data, sampler=LongList())})

    counters = sources.counters()

    held = sum(len(str(found)) for found in counters.values())
    assert held < 2_000_000
    assert "dataset.array" not in counters
    assert sources.is_complete


def test_values_of_enums_and_other_subclasses_are_left_alone() -> None:
    import enum

    class Mode(enum.IntEnum):
        FIRST = 1

    class Moded(Custom):
        def __init__(self) -> None:
            super().__init__(np.random.default_rng(1))
            self.mode = Mode.FIRST

        def __iter__(self) -> Iterator[int]:
            return iter(permutation(self.generator))

    expected = lives(memory_url(), sampled(Moded))

    assert lives(memory_url(), sampled(Moded), (3, 9)) == expected


def epochs_of(make: Make, stops: tuple[int, ...]) -> list[Any]:
    """All batches of a run that is stopped after these epochs, and then ends."""
    url = memory_url()
    seen: list[Any] = []
    for stop in stops:
        seen += epoch_by_epoch(url, make, stop_after_epoch=stop)
    return seen + epoch_by_epoch(url, make)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and ".position" in record.name
    ]


@pytest.mark.parametrize("kind", ["torch", "NumPy", "Python"])
@pytest.mark.parametrize("stop", [0, 1])
def test_a_loader_with_its_own_seed_for_each_epoch_goes_on(
    kind: str, stop: int, caplog: pytest.LogCaptureFixture
) -> None:
    seeds: dict[str, Any] = {
        "torch": lambda epoch: torch.Generator().manual_seed(epoch),
        "NumPy": np.random.default_rng,
        "Python": random.Random,
    }

    def program(url: str, stop_after_epoch: int | None = None) -> list[Any]:
        seen: list[Any] = []
        with outlast.Run(url, {}, every_steps=10**9) as run:
            for epoch in range(3):
                data = loader(sampler=Eager(seeds[kind](epoch)))
                seen += [plain(batch) for batch in run.batches(data, epochs=epoch + 1)]
                if epoch == stop_after_epoch:
                    run.save()
                    return seen
        return seen

    expected = program(memory_url())
    url = memory_url()

    seen = program(url, stop_after_epoch=stop) + program(url)

    if (kind, stop) == ("Python", 0):
        # It does not remember its seed, so this is not known after a single epoch.
        assert any("do not start as they did" in text for text in warnings_of(caplog))
    else:
        assert seen == expected


def test_a_generator_that_is_also_drawn_from_between_epochs_goes_on() -> None:
    def program(url: str, stop_after_epoch: int | None = None) -> list[Any]:
        own = random.Random(3)
        data = loader(sampler=Eager(own))
        seen: list[Any] = []
        with outlast.Run(url, {}, every_steps=10**9) as run:
            for epoch in range(3):
                before = len(seen)
                seen += [plain(batch) for batch in run.batches(data, epochs=epoch + 1)]
                if len(seen) > before:
                    own.random()
                if epoch == stop_after_epoch:
                    run.save()
                    return seen
        return seen

    expected = program(memory_url())
    for stop in (0, 1):
        url = memory_url()
        assert program(url, stop_after_epoch=stop) + program(url) == expected, stop
