"""Loaders whose order or data depends on something other than a random generator."""

import collections
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

import outlast
from tests.unit.checkpoint.loaders import (
    BATCH,
    BATCHES,
    EPOCHS,
    NEVER,
    SAMPLES,
    Custom,
    Made,
    Make,
    Numbers,
    Stop,
    loader,
    permutation,
    plain,
    sampled,
    seed_all,
    seeded,
)


class ListInPlace(Custom):
    """Shuffles one list again and again."""

    def __init__(self, generator: Any = None) -> None:
        super().__init__(generator)
        self.order = list(range(SAMPLES))

    def __iter__(self) -> Iterator[int]:
        (self.generator or random).shuffle(self.order)
        return iter(list(self.order))


class ListAtTheEnd(ListInPlace):
    """Shuffles one list when an epoch ends, for the next one."""

    def __iter__(self) -> Iterator[int]:
        yield from list(self.order)
        self.generator.shuffle(self.order)


class PlainAtTheEnd:
    """The same as batches of an iterable that torch does not know."""

    def __init__(self) -> None:
        self.sampler = ListAtTheEnd(random.Random(1))

    def __iter__(self) -> Iterator[Any]:
        numbers = map(float, self.sampler)
        while batch := list(itertools.islice(numbers, BATCH)):
            yield batch


class ArrayInPlace(Custom):
    def __init__(self) -> None:
        super().__init__(np.random.default_rng(1))
        self.order = np.arange(SAMPLES)

    def __iter__(self) -> Iterator[int]:
        self.generator.shuffle(self.order)
        return iter(self.order.tolist())


class FilesInPlace(Custom):
    """Shuffles names and rotates a queue."""

    def __init__(self) -> None:
        super().__init__(random.Random(2))
        self.names = [(f"file-{number}", number) for number in range(SAMPLES)]
        self.queue = collections.deque(range(SAMPLES))

    def __iter__(self) -> Iterator[int]:
        self.generator.shuffle(self.names)
        self.queue.rotate(1)
        pairs = zip(self.names, self.queue, strict=True)
        return iter([(number + first) % SAMPLES for (_, number), first in pairs])


class Counted(Custom):
    """Seeds each epoch by a count that `count` keeps somewhere."""

    def count(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        return iter(permutation(random.Random(self.count())))


class InTensor(Counted):
    def __init__(self) -> None:
        super().__init__()
        self.epoch = torch.zeros((), dtype=torch.long)

    def count(self) -> int:
        self.epoch += 1
        return int(self.epoch)


class InArray(Counted):
    def __init__(self) -> None:
        super().__init__()
        self.epoch = np.zeros(1, int)

    def count(self) -> int:
        self.epoch += 1
        return int(self.epoch[0])


class InDict(Counted):
    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {"epoch": 0, "sizes": [1, 2]}

    def count(self) -> int:
        self.settings["epoch"] += 1
        return int(self.settings["epoch"])


class InSet(Counted):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def count(self) -> int:
        self.seen.add(len(self.seen))
        return len(self.seen)


class Box:
    epoch = 0


class InObject(Counted):
    def __init__(self) -> None:
        super().__init__()
        self.box = Box()

    def count(self) -> int:
        self.box.epoch += 1
        return self.box.epoch


class InItertools(Counted):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()

    def count(self) -> int:
        return next(self.numbers)


class Endless(Custom):
    """Takes each epoch from one generator function that never ends."""

    def __init__(self) -> None:
        super().__init__()
        self.endless = self._numbers()

    def _numbers(self) -> Iterator[int]:
        own = random.Random(3)
        while True:
            yield from own.sample(range(SAMPLES), 33)

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(self.endless, SAMPLES)


class LongList(Custom):
    """Shuffles a list that is too long to be saved with the position."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.order = list(range(200_000))

    def __iter__(self) -> Iterator[int]:
        self.generator.shuffle(self.order)
        return iter([number % SAMPLES for number in self.order[:SAMPLES]])


class KeyedByTuples(Custom):
    def __init__(self) -> None:
        super().__init__()
        self.generators = {("k", number): random.Random(number) for number in range(3)}

    def __iter__(self) -> Iterator[int]:
        return iter(permutation(self.generators["k", 1]))


class ManyGenerators(Custom):
    def __init__(self) -> None:
        super().__init__()
        self.generators = {number: np.random.default_rng(number) for number in range(150)}

    def __iter__(self) -> Iterator[int]:
        return iter(permutation(self.generators[149]))


class InASet(Custom):
    def __init__(self) -> None:
        super().__init__()
        self.generators = {random.Random(1)}

    def __iter__(self) -> Iterator[int]:
        return iter(permutation(next(iter(self.generators))))


class Buckets(Custom):
    """A batch sampler that shuffles its buckets in place."""

    def __init__(self) -> None:
        super().__init__(random.Random(5))
        self.buckets = [list(range(20)), list(range(20, SAMPLES))]

    def __len__(self) -> int:
        return BATCHES

    def __iter__(self) -> Iterator[Any]:
        for bucket in self.buckets:
            self.generator.shuffle(bucket)
        batches = [bucket[at : at + BATCH] for bucket in self.buckets for at in range(0, 20, BATCH)]
        self.generator.shuffle(batches)
        yield from batches


class CountingCalls(Numbers):
    """Data that depends on how often it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __getitem__(self, index: int) -> Any:
        self.calls += 1
        return float(index) + random.Random(self.calls).random()


class CountingEpochs(Numbers):
    def __init__(self) -> None:
        super().__init__()
        self.served = [0, 0]

    def __getitem__(self, index: int) -> Any:
        self.served[0] += 1
        if self.served[0] > SAMPLES:
            self.served[:] = [1, self.served[1] + 1]
        return float(index) + 100 * self.served[1]


class StreamInList(IterableDataset[Any]):
    def __init__(self) -> None:
        self.epoch = [0]

    def __iter__(self) -> Iterator[Any]:
        self.epoch[0] += 1
        yield from map(float, permutation(random.Random(self.epoch[0])))


class StreamInPlace(IterableDataset[Any]):
    """Shuffles a list that is too long to be saved."""

    def __init__(self) -> None:
        self.order = list(range(200_000))
        self.generator = random.Random(1)

    def __iter__(self) -> Iterator[Any]:
        self.generator.shuffle(self.order)
        yield from map(float, self.order[:SAMPLES])


class StreamOfIterator(IterableDataset[Any]):
    """Goes on with one iterator from epoch to epoch."""

    def __init__(self) -> None:
        self.numbers = map(float, itertools.count())

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(self.numbers, SAMPLES)


def of_data(make: Any) -> Make:
    def made(**options: Any) -> Made:
        return loader(make(), shuffle=True, generator=seeded(), **options), {}

    return made


def of_stream(make: Any) -> Make:
    return lambda **options: (loader(make(), **options), {})


CARRIED: dict[str, Make] = {
    "a list in place": sampled(ListInPlace),
    "a list in place by its own generator": sampled(lambda: ListInPlace(random.Random(1))),
    "a list in place at the end": sampled(lambda: ListAtTheEnd(random.Random(1))),
    "a list in place at the end of an iterable": lambda **_: (PlainAtTheEnd(), {}),
    "an array in place": sampled(ArrayInPlace),
    "file names and a queue": sampled(FilesInPlace),
    "a count in a tensor": sampled(InTensor),
    "a count in an array": sampled(InArray),
    "a count in a dict": sampled(InDict),
    "a count in a set": sampled(InSet),
    "a count in an object": sampled(InObject),
    "generators keyed by tuples": sampled(KeyedByTuples),
    "many generators": sampled(ManyGenerators),
    "a generator in a set": sampled(InASet),
    "buckets in place": lambda **options: (loader(batch_sampler=Buckets(), **options), {}),
    "data that counts calls": of_data(CountingCalls),
    "data that counts epochs in a list": of_data(CountingEpochs),
    "a stream that counts in a list": of_stream(StreamInList),
}
"""Loaders that are resumed exactly, because all they depend on is saved with the position."""

NOT_CARRIED: dict[str, tuple[Make, str]] = {
    "itertools.count": (sampled(InItertools), "sampler.numbers"),
    "a generator function": (sampled(Endless), "sampler.endless"),
    "a long list": (sampled(LongList), "sampler.order"),
    "a stream with a long list": (of_stream(StreamInPlace), "dataset.order"),
    "a stream of an iterator": (of_stream(StreamOfIterator), "dataset.numbers"),
}
"""Loaders that are refused where they would go on differently, each with what to name."""


def epoch_by_epoch(url: str, make: Make, *, stop_after_epoch: int | None = None) -> list[Any]:
    """One life of a program with a loop for each epoch, saved between two of them."""
    seed_all()
    data, state = make()
    seen: list[Any] = []
    try:
        with outlast.Run(url, state, every_steps=NEVER) as run:
            for epoch in range(EPOCHS):
                seen += [plain(batch) for batch in run.batches(data, epochs=epoch + 1)]
                if epoch == stop_after_epoch:
                    run.save()
                    raise Stop
    except Stop:
        pass
    return seen
