"""Hundreds of random loaders, killed at random batches. A failure prints the seed to repeat it."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.checkpoint.stores import memory_url

pytest.importorskip("torch")

from torch.utils.data import BatchSampler, ConcatDataset, RandomSampler, Subset

from tests.unit.checkpoint.counting_loaders import (
    ArrayInPlace,
    CountingCalls,
    InDict,
    InObject,
    InTensor,
    ListInPlace,
)
from tests.unit.checkpoint.loaders import (
    EPOCHS,
    KINDS,
    SAMPLES,
    Counting,
    CountingAtOnce,
    Deep,
    Eager,
    Lazy,
    Made,
    Noise,
    Numbers,
    OfTheClass,
    OfTheModule,
    Slotted,
    generator_of,
    global_noise,
    life,
    lives,
    loader,
)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

COMPOSITIONS = 300


@pytest.mark.parametrize("seed", [1, 2])
def test_random_loaders_killed_at_random_batches_keep_their_order(seed: int) -> None:
    for number in range(COMPOSITIONS):
        make = composed(f"{seed}/{number}")
        chance = random.Random(f"stops of {seed}/{number}")
        expected = life(memory_url(), make)
        # The last entry is no batch.
        total = len(expected) - 1
        for _ in range(3):
            stops = stops_within(total, chance)
            found = lives(memory_url(), make, stops)
            assert found == expected, f"seed {seed}/{number}, stops {stops}"


def stops_within(total: int, chance: random.Random) -> list[int]:
    """How many batches each life gets: at least one is left to the last."""
    places = sorted(chance.sample(range(1, total), chance.randint(1, min(4, total - 1))))
    return [place - before for place, before in zip(places, [0, *places], strict=False)]


def composed(seed: str) -> Callable[[], Made]:
    """A maker of the same random composition of samplers and data each time."""
    return lambda: _compose(random.Random(seed))


def _compose(chance: random.Random) -> Made:
    state: dict[str, Any] = {}
    data = _data(chance, state)
    sampler = _sampler(chance, state)
    for _ in range(chance.randrange(3)):
        sampler = Deep(sampler)
    size = chance.choice([1, 3, 4, 7, SAMPLES])
    options: dict[str, Any] = {}
    # Random transforms in workers are warned about, and differ.
    if chance.random() < 0.05 and type(data) is Numbers and not data.transforms:
        options = {"num_workers": 1, "persistent_workers": chance.random() < 0.5}
    if chance.random() < 0.3:
        batches = BatchSampler(sampler, size, drop_last=chance.random() < 0.5)
        return loader(data, batch_sampler=batches, **options), state
    return loader(data, sampler=sampler, batch_size=size, **options), state


def _data(chance: random.Random, state: dict[str, Any]) -> Any:
    transforms: list[Any] = []
    if chance.random() < 0.5:
        transforms.append(Noise(_generator(chance, state)))
    if chance.random() < 0.3:
        transforms.append(global_noise)
    data: Any = Numbers(*transforms)
    if chance.random() < 0.2:
        data = CountingCalls()
    if chance.random() < 0.3:
        data = Subset(ConcatDataset([data, Numbers()]), range(SAMPLES))
    return data


def _sampler(chance: random.Random, state: dict[str, Any]) -> Any:
    makers: list[Callable[[], Any]] = [
        lambda: Eager(_generator(chance, state)),
        lambda: Lazy(_generator(chance, state)),
        lambda: RandomSampler(
            Numbers(),
            replacement=chance.random() < 0.5,
            num_samples=chance.choice([10, SAMPLES, EPOCHS * SAMPLES]),
            generator=chance.choice([None, generator_of("torch")]),
        ),
        lambda: Counting(chance.choice(["first", "last"])),
        CountingAtOnce,
        Slotted,
        OfTheModule,
        OfTheClass,
        lambda: ListInPlace(random.Random(1)),
        ArrayInPlace,
        InTensor,
        InDict,
        InObject,
    ]
    return chance.choice(makers)()


def _generator(chance: random.Random, state: dict[str, Any]) -> Any:
    generator = generator_of(chance.choice(KINDS))
    if chance.random() < 0.4:
        state[f"generator {len(state)}"] = generator
    return generator
