"""After a kill at any batch the data goes on exactly, or the run refuses."""

import functools
import logging
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import outlast
from outlast.checkpoint.errors import StateMismatch, UnsupportedState
from tests.unit.checkpoint.stores import memory_url

pytest.importorskip("torch")

import torch
from torch.utils.data import DistributedSampler

from tests.unit.checkpoint.loaders import (
    BATCH,
    BATCHES,
    DATA,
    EPOCHS,
    OTHERS,
    SAMPLERS,
    Custom,
    Eager,
    GlobalPython,
    Hidden,
    Lazy,
    Made,
    Make,
    Noise,
    Numbers,
    Peeking,
    Reiterable,
    Stop,
    Stream,
    Unseeded,
    by_closure,
    generator_of,
    life,
    lives,
    loader,
    plain,
    sampled,
    seeded,
    shared,
)

# What torchdata does with torch is not our affair.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

ALL = {**SAMPLERS, **DATA, **OTHERS}
# After 2, 10, 13 and 29 batches: within an epoch, at its end, in the next and in the last one.
# And more than once in one epoch.
STOPS = [(2, 8, 3, 16), (2, 3)]
WITH_WORKERS = [
    "shuffled",
    "shuffled by the loader's generator",
    "with replacement",
    "several times",
    "NumPy at once, in the state",
    "NumPy as it goes, in the state",
    "two levels deep",
    "counting at once",
    "counting last",
    "a batch sampler",
    "a stream",
]
WORKERS = {
    "workers": {"num_workers": 2},
    "persistent workers": {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 3},
}
# A stream in persistent workers is another matter, below.
PAIRS = [
    (name, how)
    for name in WITH_WORKERS
    for how in WORKERS
    if (name, how) != ("a stream", "persistent workers")
]


@pytest.mark.parametrize("name", ALL)
def test_a_killed_run_gets_the_batches_of_an_undisturbed_one(name: str) -> None:
    expected = lives(memory_url(), ALL[name])

    for stops in STOPS:
        assert lives(memory_url(), ALL[name], stops) == expected, stops


@pytest.mark.parametrize(("name", "how"), PAIRS)
def test_workers_that_fetch_ahead_change_nothing(name: str, how: str) -> None:
    make = functools.partial(ALL[name], **WORKERS[how])
    expected = lives(memory_url(), make)

    assert lives(memory_url(), make, (3, 9, 2)) == expected


@pytest.mark.parametrize("name", ["NumPy as it goes", "with replacement", "counting last"])
def test_another_number_of_workers_keeps_the_order(name: str) -> None:
    expected = lives(memory_url(), ALL[name])
    url = memory_url()

    seen = life(url, functools.partial(ALL[name], num_workers=2), stop_after=3)
    seen += life(url, ALL[name], stop_after=4)
    seen += life(url, functools.partial(ALL[name], num_workers=1))

    assert [batch for batch, _ in seen[:-1]] == [batch for batch, _ in expected[:-1]]


REFUSED: dict[str, tuple[Make, str]] = {
    "hidden": (sampled(Hidden), "the indices of its first 3 batches differ"),
    "unseeded": (sampled(Unseeded), "the indices of its first 3 batches differ"),
    "drawn from Python's generator between the program's own draws": (
        sampled(GlobalPython),
        "the indices of its first 3 batches differ",
    ),
    "one generator, as it goes, for the order and the data": (
        shared(Lazy),
        "the indices of its first 3 batches differ",
    ),
    "hidden, without indices": (
        lambda: (Reiterable(hidden()), {}),
        "its first 3 batches differ",
    ),
    "hidden, in a stream": (
        lambda: (loader(Stream(hidden())), {}),
        "its first 3 batches differ",
    ),
}


class hidden:
    """A generator that is no generator."""

    __slots__ = ()
    drawing: Any = iter(random.Random(3).random, None)

    def random(self) -> float:
        return float(next(self.drawing))

    def permutation(self, count: int) -> list[int]:
        return sorted(range(count), key=lambda _: self.random())


@pytest.mark.parametrize("name", REFUSED)
def test_another_order_is_refused(name: str) -> None:
    make, words = REFUSED[name]
    url = memory_url()
    life(url, make, stop_after=13)

    with pytest.raises(StateMismatch, match=r"middle of epoch 2: .* different order") as caught:
        life(url, make)

    assert words in caught.value.differences
    assert "Shuffle with a generator" in str(caught.value.hint)


def test_a_refusal_says_which_settings_have_changed() -> None:
    url = memory_url()
    life(url, lambda: (loader(sampler=Eager(generator_of("NumPy"))), {}), stop_after=3)

    with pytest.raises(StateMismatch) as caught:
        life(url, lambda: (loader(sampler=Eager(generator_of("NumPy")), batch_size=5), {}))

    assert "batch_sampler.batch_size was 4 and is now 5" in caught.value.differences


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("shuffled", "a list", "it was a torch DataLoader before, or is one only now"),
        ("a list", "shuffled", "it was a torch DataLoader before, or is one only now"),
    ],
)
def test_another_kind_of_loader_is_refused(first: str, second: str, words: str) -> None:
    url = memory_url()
    life(url, ALL[first], stop_after=3)

    with pytest.raises(StateMismatch) as caught:
        life(url, ALL[second])

    assert words in caught.value.differences


def test_a_loader_with_less_data_is_refused() -> None:
    url = memory_url()
    life(url, lambda: ([[1], [2], [3]], {}), stop_after=3)

    with pytest.raises(StateMismatch, match="it has 2 batches, but 3 were consumed"):
        life(url, lambda: ([[1], [2]], {}))


def test_a_generator_of_another_kind_is_refused() -> None:
    url = memory_url()
    life(url, sampled(lambda: Eager(generator_of("NumPy"))), stop_after=3)

    with pytest.raises(StateMismatch, match=r"sampler.generator cannot take the saved state"):
        life(url, sampled(lambda: Eager(generator_of("Python"))))


class OperatingSystem(Custom):
    def __init__(self) -> None:
        super().__init__()
        self.source = random.SystemRandom()

    def __iter__(self) -> Iterator[int]:
        return iter([self.source.randrange(10)])


def test_a_generator_of_the_operating_system_is_refused_at_the_start() -> None:
    with pytest.raises(UnsupportedState, match=r"SystemRandom at 'sampler\.source'") as caught:
        life(memory_url(), sampled(OperatingSystem))

    assert caught.value.hint == "Use random.Random(seed) instead."


WARNED: dict[str, tuple[Make, str]] = {
    "noise in workers": (
        lambda: DATA["noise of NumPy"](num_workers=2),
        "copies of the random generators at dataset.transforms[0].generator, which cannot be saved",
    ),
    "noise of the globals in workers": (
        lambda: DATA["noise of the globals"](num_workers=2),
        "draws from a global random generator in worker processes",
    ),
    "a stream in persistent workers": (
        lambda: OTHERS["a stream"](num_workers=2, persistent_workers=True),
        "copies of the random generators at dataset.generator, which cannot be saved",
    ),
    "a stream without generators in persistent workers": (
        lambda: (loader(Stream(hidden()), num_workers=1, persistent_workers=True), {}),
        "Persistent workers keep the state of an IterableDataset",
    ),
    "batches in any order": (
        lambda: SAMPLERS["shuffled"](num_workers=2, in_order=False),
        "in_order=False",
    ),
    "Python's generator": (
        sampled(GlobalPython),
        "draws from the global generator of Python while it iterates, and so does other code",
    ),
    "one generator for the order and the data": (
        shared(Lazy),
        "draws from sampler.generator while it iterates, and so does other code",
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_cannot_be_repeated_is_said_in_the_first_epoch(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, words = WARNED[name]

    life(memory_url(), make, stop_after=BATCHES + 2)

    assert len([text for text in warnings_of(caplog) if words in text]) == 1


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        ("shuffled", 0),
        ("shuffled", 2),
        ("NumPy as it goes, in the state", 0),
        ("NumPy as it goes, in the state", 2),
        ("noise of NumPy", 0),
    ],
)
def test_what_can_be_repeated_is_not_warned_about(
    name: str, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    life(memory_url(), functools.partial(ALL[name], num_workers=workers), epochs=1)

    assert warnings_of(caplog) == []


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and ".position" in record.name
    ]


def test_random_transforms_of_a_stream_go_on_although_their_order_cannot_be_checked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Noisy(Stream):
        def __iter__(self) -> Iterator[Any]:
            return (float(index) + float(torch.rand(())) for index in range(40))

    def make() -> Made:
        return loader(Noisy(None)), {}

    expected = lives(memory_url(), make)

    assert lives(memory_url(), make, (3, 4)) == expected
    assert any("could not be reproduced to check their order" in it for it in warnings_of(caplog))


def test_a_loader_that_is_left_by_break_goes_on_in_the_next_loop() -> None:
    for name in ("NumPy as it goes, in the state", "noise of NumPy", "counting at once", "a list"):
        expected = broken(ALL[name], at=())

        assert broken(ALL[name], at=(3, 5)) == expected, name


def test_persistent_workers_that_are_left_by_break_go_on_in_the_next_loop() -> None:
    for name in ("shuffled", "counting at once"):
        make = functools.partial(ALL[name], num_workers=1, persistent_workers=True)

        assert broken(make, at=(3, 12)) == broken(make, at=()), name


def test_a_stateful_loader_that_is_left_by_break_goes_on_in_the_next_loop() -> None:
    assert broken(stateful_loader, at=(3, 12)) == broken(stateful_loader, at=())


def broken(make: Make, *, at: Sequence[int]) -> list[Any]:
    """The batches of a run whose loop is left by `break` after so many, and so many more."""
    torch.manual_seed(5)
    loader, state = make()
    seen: list[Any] = []
    with outlast.Run(memory_url(), state) as run:
        for count in at:
            for batch in run.batches(loader, epochs=EPOCHS):
                seen.append(plain(batch))
                if len(seen) == count:
                    break
        seen += [plain(batch) for batch in run.batches(loader, epochs=EPOCHS)]
    return seen


def test_an_iterator_that_is_left_by_break_loses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with outlast.Run(memory_url(), {}) as run:
        once = iter(range(6))
        first = next(iter(run.batches(once)))

        assert [first, *run.batches(once)] == [0, 1, 2, 3, 4, 5]
    assert any("can be iterated over only once" in text for text in warnings_of(caplog))


def test_a_generator_function_with_a_generator_in_the_state_goes_on() -> None:
    def numbers(own: random.Random) -> Iterator[float]:
        for _ in range(30):
            yield own.random()

    def make() -> Made:
        own = random.Random(3)
        return numbers(own), {"own": own}

    def once(url: str, stop_after: int | None = None) -> list[Any]:
        return life(url, make, stop_after=stop_after, epochs=1)

    expected = once(memory_url())
    url = memory_url()

    assert once(url, 4) + once(url, 7) + once(url) == expected


def distributed(url: str, *, stop_after: int | None = None, rebuilds: bool = False) -> list[Any]:
    """A program that sets the epoch itself, and may build the loader for each epoch."""
    torch.manual_seed(5)
    sampler: Any = DistributedSampler(Numbers(), num_replicas=1, rank=0, seed=3)
    data = loader(sampler=sampler)
    seen: list[Any] = []
    try:
        with outlast.Run(url, {}, every_steps=10**9) as run:
            for epoch in range(EPOCHS):
                if rebuilds:
                    own = torch.Generator().manual_seed(epoch)
                    data = loader(shuffle=True, generator=own)
                sampler.set_epoch(epoch)
                for batch in run.batches(data, epochs=epoch + 1):
                    if len(seen) == stop_after:
                        raise Stop
                    seen.append(plain(batch))
                    if len(seen) == stop_after:
                        run.save()
                if len(seen) == stop_after:
                    # Between two epochs.
                    run.save()
                    raise Stop
    except Stop:
        pass
    return seen


@pytest.mark.parametrize("rebuilds", [False, True])
def test_a_program_may_set_the_epoch_itself(rebuilds: bool) -> None:
    expected = distributed(memory_url(), rebuilds=rebuilds)
    assert expected[:BATCHES] != expected[BATCHES : 2 * BATCHES]

    for first, second in [(3, 10), (10, 4), (14, 2), (20, 9)]:
        url = memory_url()
        seen = distributed(url, stop_after=first, rebuilds=rebuilds)
        seen += distributed(url, stop_after=second, rebuilds=rebuilds)
        seen += distributed(url, rebuilds=rebuilds)
        assert seen == expected, (first, second)


@pytest.mark.parametrize(
    "name", ["counting first", "counting last", "NumPy as it goes", "NumPy at once, in the state"]
)
def test_a_finished_run_that_grows_goes_on_in_the_same_order(name: str) -> None:
    expected = life(memory_url(), ALL[name], epochs=4)
    url = memory_url()

    seen = life(url, ALL[name], epochs=2)[:-1]

    assert seen + life(url, ALL[name], epochs=4) == expected


def test_persistent_workers_of_a_finished_run_that_grows_keep_the_order() -> None:
    make = functools.partial(
        ALL["shuffled by the loader's generator"], num_workers=1, persistent_workers=True
    )
    expected = life(memory_url(), make, epochs=3)
    url = memory_url()

    seen = life(url, make, epochs=2)[:-1]

    batches = [batch for batch, _ in [*seen, *life(url, make, epochs=3)[:-1]]]
    assert batches == [batch for batch, _ in expected[:-1]]


def test_a_position_that_was_not_gone_on_from_is_saved_again() -> None:
    make = ALL["NumPy as it goes, in the state"]
    expected = lives(memory_url(), make)
    url = memory_url()
    seen = life(url, make, stop_after=13)

    _, state = make()
    with pytest.raises(Stop), outlast.Run(url, state, every_steps=10**9) as run:
        np.random.rand()
        # As a program that is told to leave before its loop.
        run._loops.done += 1
        run.save()
        run._session.wait()
        raise Stop

    assert seen + life(url, make) == expected


def stateful_loader() -> Made:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    return stateful(Numbers(), BATCH, shuffle=True, generator=seeded()), {}


@pytest.mark.parametrize(
    "make", [ALL["shuffled by the loader's generator"], ALL["a list"], stateful_loader]
)
def test_positions_of_earlier_versions_are_resumed(make: Make) -> None:
    expected = lives(memory_url(), make)
    url = memory_url()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outlast.checkpoint.position.Position.state_dict", as_earlier)
        seen = life(url, make, stop_after=13)

    assert seen + life(url, make) == expected


def as_earlier(position: Any) -> dict[str, Any]:
    """The state of a position as the first version wrote it."""
    start = position._start
    state = {
        "epoch": position._epoch,
        "batch": position._batch,
        "start": start and {"own": list(start["own"].values()), "global": start["global"]},
    }
    if position._batch and hasattr(position._loader, "state_dict"):
        state["loader"] = position._loader.state_dict()
        state["own"] = list(position._snapshot()["own"].values())
    return state


def test_a_position_of_an_earlier_version_refuses_another_loader() -> None:
    url = memory_url()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outlast.checkpoint.position.Position.state_dict", as_earlier)
        life(url, ALL["shuffled by the loader's generator"], stop_after=13)

    with pytest.raises(StateMismatch, match="1 generators were saved, but the loader has 0"):
        life(url, ALL["shuffled"])


def test_a_stateful_loader_warns_of_generators_that_it_does_not_save(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    made = stateful(Numbers(), BATCH, sampler=Eager(generator_of("NumPy")))

    life(memory_url(), lambda: (made, {}), stop_after=3)

    assert any(
        "does not save the random generators at sampler.generator" in text
        for text in warnings_of(caplog)
    )


def test_a_stateful_loader_over_noisy_data_goes_on() -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def make() -> Made:
        data = Numbers(Noise(generator_of("NumPy")))
        return stateful(data, BATCH, shuffle=True, generator=seeded()), {}

    assert lives(memory_url(), make, (3, 9, 2)) == lives(memory_url(), make)


def test_a_search_stays_bounded_and_survives_circles(caplog: pytest.LogCaptureFixture) -> None:
    data = Numbers()
    data.itself = data  # type: ignore[attr-defined]  # a circle
    data.many = [[object() for _ in range(90)] for _ in range(90)]  # type: ignore[attr-defined]
    data.more = {index: [[index, {}] for _ in range(90)] for index in range(90)}  # type: ignore[attr-defined]

    life(memory_url(), lambda: (loader(data), {}), stop_after=1)

    assert any("too many objects" in text for text in warnings_of(caplog))


def test_text_that_never_changes_is_not_saved() -> None:
    class Secretive(Eager):
        def __init__(self) -> None:
            super().__init__(generator_of("NumPy"))
            self.token = "hush"
            self.phase = "first"

        def __iter__(self) -> Iterator[int]:
            self.phase = "later"
            return super().__iter__()

    url = memory_url()
    for epochs in (1, 2):
        with outlast.Run(url, {}) as run:
            for _ in run.batches(loader(sampler=Secretive()), epochs=epochs):
                state = run._loops._position.state_dict()

                assert "sampler.token" not in state["start"]["counters"]
                assert "sampler.token" not in state["now"]["counters"]
                assert state["now"]["counters"]["sampler.phase"] == "later"


def test_a_loader_made_by_a_closure_has_its_generator_found() -> None:
    from outlast.checkpoint.position.search import search

    assert list(search({"": by_closure()}).generators) == ["function.own"]
    assert list(search({"": Peeking(Numbers(), generator=seeded())}).generators) == ["generator"]
