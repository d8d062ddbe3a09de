"""Loaders of all kinds, and lives of a run that go over them."""

import itertools
import queue
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import outlast

SAMPLES = 40
BATCH = 4
BATCHES = SAMPLES // BATCH
EPOCHS = 3
NEVER = 10**9

Made = tuple[Iterable[Any], dict[str, Any]]
"""A loader, and what the program keeps in its state besides."""

Make = Callable[..., Made]
"""Makes both, with options for the DataLoader."""

# The module's generator, as a script has one. `life` seeds it.
rng = np.random.default_rng(3)


class Numbers(Dataset[Any]):
    """Numbers, each transformed in turn."""

    def __init__(self, *transforms: Callable[[Any], Any]) -> None:
        self.transforms = list(transforms)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        found: Any = float(index)
        for transform in self.transforms:
            found = transform(found)
        return found


class Noise:
    """A transform with a generator of its own."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __call__(self, number: float) -> float:
        return number + float(draw(self.generator))


def draw(generator: Any) -> float:
    if isinstance(generator, torch.Generator):
        return float(torch.rand((), generator=generator))
    if isinstance(generator, np.random.RandomState):
        return float(generator.rand())
    return float(generator.random())


def permutation(generator: Any) -> list[int]:
    if isinstance(generator, torch.Generator):
        return [int(number) for number in torch.randperm(SAMPLES, generator=generator)]
    if isinstance(generator, random.Random):
        return generator.sample(range(SAMPLES), SAMPLES)
    return [int(number) for number in generator.permutation(SAMPLES)]


class Custom(Sampler[int]):
    """A sampler of the program's own."""

    def __init__(self, generator: Any = None) -> None:
        self.generator = generator

    def __len__(self) -> int:
        return SAMPLES


class Eager(Custom):
    """Draws the order as soon as it is asked for an iterator."""

    def __iter__(self) -> Iterator[int]:
        return iter(permutation(self.generator))


class Lazy(Custom):
    """Draws each index as it goes."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(SAMPLES):
            yield int(SAMPLES * draw(self.generator))


class Spawning(Custom):
    """Draws each order from a new child of its generator."""

    def __iter__(self) -> Iterator[int]:
        [child] = self.generator.spawn(1)
        return iter(permutation(child))


class Deep(Custom):
    """Wraps another sampler, which has the generator."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.parts = {"inner": [inner]}

    def __iter__(self) -> Iterator[int]:
        yield from self.parts["inner"][0]


class Counting(Custom):
    """Seeds each epoch by a counter, which goes up when `at` says."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        order = permutation(random.Random(self.epoch))
        if self.at == "first":
            self.epoch += 1
        yield from order
        if self.at == "last":
            self.epoch += 1


class CountingAtOnce(Custom):
    """Counts as soon as it is asked for an iterator, and keeps the generator it made."""

    epoch = 0

    def __init__(self) -> None:
        super().__init__()
        self.made: np.random.Generator | None = None

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        self.made = np.random.default_rng((5, self.epoch))
        return iter(permutation(self.made))


class Slotted:
    """Not even a Sampler of torch's, and without a __dict__."""

    __slots__ = ("count", "own")

    def __init__(self) -> None:
        self.own = np.random.default_rng(9)
        self.count = 0

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        self.count += 1
        return iter([(index + self.count) % SAMPLES for index in permutation(self.own)])


class OfTheModule(Custom):
    """Uses a generator that is a global of the script."""

    def __iter__(self) -> Iterator[int]:
        return iter(permutation(rng))


class OfTheClass(Custom):
    """Uses a generator that all instances share."""

    shared = random.Random(4)

    def __iter__(self) -> Iterator[int]:
        return iter(permutation(self.shared))


class Hidden(Custom):
    """Draws from where nobody can look."""

    def __init__(self) -> None:
        super().__init__()
        own = np.random.default_rng(6)
        self.orders = map(lambda _: permutation(own), itertools.count())  # noqa: C417

    def __iter__(self) -> Iterator[int]:
        return iter(next(self.orders))


class Unseeded(Custom):
    def __iter__(self) -> Iterator[int]:
        return iter(permutation(np.random.default_rng()))


class GlobalPython(Custom):
    """Draws each index from Python's generator, from which the program draws too."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(SAMPLES):
            yield random.randrange(SAMPLES)


class Batches(Custom):
    """A batch sampler, which yields one and the same list."""

    def __len__(self) -> int:
        return BATCHES

    def __iter__(self) -> Iterator[Any]:
        order = permutation(self.generator)
        batch: list[int] = []
        for at in range(0, SAMPLES, BATCH):
            batch[:] = order[at : at + BATCH]
            yield batch


class Reiterable:
    """No DataLoader, but can be iterated over again and again."""

    def __init__(self, generator: Any = None, *, counts: bool = False) -> None:
        self.generator = generator
        self.counts = counts
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        order = permutation(random.Random(self.epoch) if self.counts else self.generator)
        self.epoch += 1
        yield from ([*map(float, order[at : at + BATCH])] for at in range(0, SAMPLES, BATCH))


class MadeBy:
    """Iterates by a function."""

    def __init__(self, function: Callable[[], Iterator[Any]]) -> None:
        self.function = function

    def __iter__(self) -> Iterator[Any]:
        return self.function()


class Stream(IterableDataset[Any]):
    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[Any]:
        for index in permutation(self.generator):
            yield float(index) + draw(self.generator)


class Peeking(DataLoader[Any]):
    """Fetches one batch ahead, as loaders of some frameworks do."""

    def __iter__(self) -> Any:
        ahead: Iterator[Any] = super().__iter__()
        batch = next(ahead)
        for following in ahead:
            yield batch
            batch = following
        yield batch


class Lazily(DataLoader[Any]):
    """Its iteration, like that of any generator, starts with the first batch."""

    def __iter__(self) -> Any:
        yield from super().__iter__()


class Prefetcher:
    """Loads ahead in a thread, as far as it gets."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._loaded: queue.Queue[Any] = queue.Queue(3)
        threading.Thread(target=self._load, args=(batches,), daemon=True).start()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = self._loaded.get()
        if batch is self:
            raise StopIteration
        if isinstance(batch, Exception):
            raise batch
        return batch

    def _load(self, batches: Iterator[Any]) -> None:
        try:
            for batch in batches:
                self._loaded.put(batch)
        except Exception as error:
            # Nobody asks for it if the workers were shut down because the run was stopped.
            self._loaded.put(error)
        self._loaded.put(self)


class InThread(DataLoader[Any]):
    """As prefetch_generator's users write it."""

    def __iter__(self) -> Any:
        return Prefetcher(super().__iter__())


class InThreadLazily(DataLoader[Any]):
    def __iter__(self) -> Any:
        yield from Prefetcher(super().__iter__())


class Preloading:
    """Wraps a loader, and has the next batch on its way to the device while one is in use."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.loader)
        ahead = next(batches)
        while ahead is not None:
            batch, ahead = ahead, next(batches, None)
            yield 2 * batch


class Sliced:
    """Wraps a loader in tools of itertools."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.loader)
        return itertools.chain(itertools.islice(batches, 4), itertools.islice(batches, 5))


class Shard:
    """As accelerate prepares a loader: claims its class, and has a state_dict that cannot work."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.base_dataloader = loader
        self.iteration = 0

    @property  # type: ignore[misc]  # it lies on purpose
    def __class__(self) -> Any:
        return self.base_dataloader.__class__

    def __getattr__(self, name: str) -> Any:
        if name == "base_dataloader":
            raise AttributeError(name)
        return getattr(self.base_dataloader, name)

    def state_dict(self) -> Any:
        return self.dl_state_dict

    def load_state_dict(self, state: Any) -> None:
        self.base_dataloader.load_state_dict(state)  # type: ignore[attr-defined]  # nor does it have one

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.base_dataloader)
        ahead = next(batches)
        for following in batches:
            yield ahead
            ahead = following
        yield ahead
        self.iteration += 1


class Stateless(Reiterable):
    """Has a state_dict that returns nothing, as it would for another kind of data."""

    def state_dict(self) -> None:
        return None

    def load_state_dict(self, state: Any) -> None:
        raise AssertionError("There is no state to load.")


class KeepsIterator(DataLoader[Any]):
    """Keeps its workers by keeping an iterator over all epochs, which they load ahead."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.iterator = super().__iter__()

    def __iter__(self) -> Any:
        for _ in range(len(self)):
            yield next(self.iterator)


def prefetching(kind: Any) -> Make:
    """A loader over data with a generator of its own; with workers, over plain data."""

    def made(**options: Any) -> Made:
        data = Numbers() if options else Numbers(Noise(generator_of("NumPy")))
        return kind(data, batch_size=BATCH, shuffle=True, **options), {}

    return made


def wrapped(kind: Any) -> Make:
    def made(**options: Any) -> Made:
        data = Numbers() if options else Numbers(Noise(generator_of("NumPy")))
        return kind(loader(data, shuffle=True, **options)), {}

    return made


PREFETCHERS: dict[str, Make] = {
    "a generator": prefetching(Lazily),
    "a thread": prefetching(InThread),
    "a thread in a generator": prefetching(InThreadLazily),
    "one batch ahead": prefetching(Peeking),
    "preloading": wrapped(Preloading),
    "itertools": wrapped(Sliced),
    "as accelerate does": wrapped(Shard),
}


def by_closure() -> MadeBy:
    own = random.Random(8)

    def function() -> Iterator[Any]:
        order = permutation(own)
        for at in range(0, SAMPLES, BATCH):
            # Lazy draws of its own, too.
            yield [*order[at : at + BATCH], own.randrange(100)]

    return MadeBy(function)


def generator_of(kind: str) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "NumPy": lambda: np.random.default_rng(7),
        "RandomState": lambda: np.random.RandomState(7),
        "Python": lambda: random.Random(7),
        "torch": seeded,
        "Philox": lambda: np.random.Generator(np.random.Philox(7)),
    }
    return makers[kind]()


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def loader(dataset: Any = None, **options: Any) -> DataLoader[Any]:
    if "batch_sampler" not in options:
        options = {"batch_size": BATCH, **options}
    return DataLoader(dataset if dataset is not None else Numbers(), **options)


def sampled(make: Callable[[], Any]) -> Make:
    return lambda **options: (loader(sampler=make(), **options), {})


def in_state(kind: str, make: Callable[[Any], Any]) -> Make:
    """A sampler with a generator that is in the state of the program too."""

    def made(**options: Any) -> Made:
        generator = generator_of(kind)
        return loader(sampler=make(generator), **options), {"sampler_rng": generator}

    return made


def noisy(kind: str, *, is_in_state: bool = False) -> Make:
    """Shuffled data, transformed by a generator of its own."""

    def made(**options: Any) -> Made:
        generator = generator_of(kind)
        state = {"noise": generator} if is_in_state else {}
        return loader(Numbers(Noise(generator)), shuffle=True, **options), state

    return made


def noisy_deep(**options: Any) -> Made:
    data: ConcatDataset[Any] = ConcatDataset(
        [Numbers(float, Noise(generator_of("Python"))), Numbers()]
    )
    return loader(Subset(data, range(2 * SAMPLES)), shuffle=True, **options), {}


def global_noise(number: float) -> float:
    return number + random.random() + float(np.random.rand()) + float(torch.rand(()))


def shared(sampler: type[Custom]) -> Make:
    """One generator for the order and the data."""

    def made(**options: Any) -> Made:
        generator = np.random.default_rng(2)
        return loader(Numbers(Noise(generator)), sampler=sampler(generator), **options), {}

    return made


def reiterable_in_state(**_: Any) -> Made:
    generator = generator_of("NumPy")
    return Reiterable(generator), {"generator": generator}


KINDS = ("NumPy", "RandomState", "Python", "torch", "Philox")

SAMPLERS: dict[str, Make] = {
    "in sequence": lambda **options: (loader(**options), {}),
    "shuffled": lambda **options: (loader(shuffle=True, **options), {}),
    "shuffled by the loader's generator": lambda **options: (
        loader(shuffle=True, generator=seeded(), **options),
        {},
    ),
    "RandomSampler with a generator in the state": in_state(
        "torch", lambda generator: RandomSampler(Numbers(), generator=generator)
    ),
    "with replacement": sampled(
        lambda: RandomSampler(Numbers(), replacement=True, generator=seeded())
    ),
    "several times": sampled(
        lambda: RandomSampler(Numbers(), num_samples=2 * SAMPLES, generator=seeded())
    ),
    "weighted": sampled(lambda: WeightedRandomSampler([1.0, 2.0] * (SAMPLES // 2), SAMPLES)),
    "subset": sampled(lambda: SubsetRandomSampler(range(SAMPLES), generator=seeded())),
    "Philox at once": sampled(lambda: Eager(generator_of("Philox"))),
    "Philox as it goes": sampled(lambda: Lazy(generator_of("Philox"))),
    "NumPy at once": sampled(lambda: Eager(generator_of("NumPy"))),
    "NumPy as it goes": sampled(lambda: Lazy(generator_of("NumPy"))),
    "RandomState at once": sampled(lambda: Eager(generator_of("RandomState"))),
    "RandomState as it goes": sampled(lambda: Lazy(generator_of("RandomState"))),
    "Python at once": sampled(lambda: Eager(generator_of("Python"))),
    "Python as it goes": sampled(lambda: Lazy(generator_of("Python"))),
    "NumPy at once, in the state": in_state("NumPy", Eager),
    "NumPy as it goes, in the state": in_state("NumPy", Lazy),
    "RandomState at once, in the state": in_state("RandomState", Eager),
    "Python as it goes, in the state": in_state("Python", Lazy),
    "torch as it goes, in the state": in_state("torch", Lazy),
    "NumPy by children": sampled(lambda: Spawning(generator_of("NumPy"))),
    "two levels deep": sampled(lambda: Deep(Deep(Lazy(seeded())))),
    "counting first": sampled(lambda: Counting("first")),
    "counting last": sampled(lambda: Counting("last")),
    "counting at once": sampled(CountingAtOnce),
    "counting two levels deep": sampled(lambda: Deep(Deep(Counting("last")))),
    "slots": sampled(Slotted),
    "a generator of the module": sampled(OfTheModule),
    "a generator of the class": sampled(OfTheClass),
    "a batch sampler": lambda **options: (
        loader(batch_sampler=Batches(generator_of("Python")), **options),
        {},
    ),
    "a batch sampler around a sampler": lambda **options: (
        loader(batch_sampler=BatchSampler(Eager(generator_of("NumPy")), 3, True), **options),
        {},
    ),
    "no batches": lambda **options: (
        loader(sampler=Lazy(generator_of("NumPy")), **(options | {"batch_size": None})),
        {},
    ),
}

DATA: dict[str, Make] = {
    "noise of NumPy": noisy("NumPy"),
    "noise of torch": noisy("torch"),
    "noise in the state": noisy("Python", is_in_state=True),
    "noise deep in the data": noisy_deep,
    "noise of the globals": lambda **options: (
        loader(Numbers(global_noise), shuffle=True, **options),
        {},
    ),
    "one generator for the order and the data": shared(Eager),
}

OTHERS: dict[str, Make] = {
    "a list": lambda **_: ([[index] for index in range(BATCHES)], {}),
    "iterable with a generator": lambda **_: (Reiterable(generator_of("Python")), {}),
    "iterable with a generator in the state": reiterable_in_state,
    "iterable that counts": lambda **_: (Reiterable(counts=True), {}),
    "made by a function": lambda **_: (by_closure(), {}),
    "a stream": lambda **options: (loader(Stream(generator_of("NumPy")), **options), {}),
    "a stream of torch's generator": lambda **options: (loader(Stream(seeded()), **options), {}),
    "a loader that fetches ahead": lambda **_: (
        Peeking(Numbers(Noise(generator_of("Python"))), BATCH, shuffle=True),
        {},
    ),
}

ALL_KINDS = {**SAMPLERS, **DATA, **OTHERS}


class Stop(Exception):
    """Ends a life of a run, as SIGKILL would."""


def life(url: str, make: Make, *, stop_after: int | None = None, epochs: int = EPOCHS) -> list[Any]:
    """One life: the batches it got, and what it drew besides. Saved once, at its end."""
    seed_all()
    loader, state = make()
    seen: list[Any] = []
    try:
        with outlast.Run(url, state, every_steps=NEVER) as run:
            # Draws that an undisturbed run makes once, and a resumed one again.
            global_noise(0)
            for batch in run.batches(loader, epochs=epochs):
                if len(seen) == stop_after:
                    raise Stop
                # Draws of the program's own come between the batches, as dropout does.
                drawn = (float(torch.rand(())), random.random(), float(np.random.rand()))
                seen.append((plain(batch), drawn))
                if len(seen) == stop_after:
                    run.save()
    except Stop:
        return seen
    finally:
        shut_down(loader)
    # Where the generators end up.
    return [*seen, [draw(part) for part in state.values()]]


def seed_all() -> None:
    """Everything that a new process starts with."""
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(5)
    rng.bit_generator.state = np.random.default_rng(3).bit_generator.state
    OfTheClass.shared.seed(4)


def lives(url: str, make: Make, stops: Sequence[int] = ()) -> list[Any]:
    """All batches of a run that is stopped after so many, then so many more, and then ends."""
    seen: list[Any] = []
    for stop_after in stops:
        seen += life(url, make, stop_after=stop_after)
    return seen + life(url, make)


def plain(batch: Any) -> Any:
    return batch.tolist() if isinstance(batch, torch.Tensor) else batch


def shut_down(loader: Any) -> None:
    # Left to the garbage collector, torch's workers are waited for in vain, 5 s each.
    loader = getattr(loader, "loader", loader)
    for name in ("_iterator", "iterator"):
        stop = getattr(getattr(loader, name, None), "_shutdown_workers", None)
        if stop is not None:
            stop()
