"""Loaders that iterate in their own way: they load ahead, or start late, or wrap another."""

import functools
import logging
from typing import Any

import pytest
from torch.utils.data import BatchSampler, RandomSampler

from outlast.checkpoint.errors import UnsupportedState
from tests.unit.checkpoint.loaders import (
    BATCH,
    PREFETCHERS,
    KeepsIterator,
    Numbers,
    Shard,
    Stateless,
    generator_of,
    life,
    lives,
    loader,
    shut_down,
)
from tests.unit.checkpoint.stores import memory_url

# What torchdata does with torch is not our affair.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

WORKERS = {
    "workers": {"num_workers": 2},
    "persistent workers": {"num_workers": 2, "persistent_workers": True},
}
# A wrapper that torch does not know cannot be asked whether its loader keeps its workers.
PAIRS = [
    (name, how)
    for name in PREFETCHERS
    for how in WORKERS
    if (name, how)
    not in (("preloading", "persistent workers"), ("itertools", "persistent workers"))
]


@pytest.mark.parametrize("name", PREFETCHERS)
def test_a_killed_run_gets_the_batches_of_an_undisturbed_one(name: str) -> None:
    expected = lives(memory_url(), PREFETCHERS[name])

    for stops in [(3,), (10,), (13,), (1, 1, 1), (3, 9, 2)]:
        assert lives(memory_url(), PREFETCHERS[name], stops) == expected, stops


@pytest.mark.parametrize(("name", "how"), PAIRS)
def test_workers_change_nothing(name: str, how: str) -> None:
    make = functools.partial(PREFETCHERS[name], **WORKERS[how])
    expected = lives(memory_url(), make)

    assert lives(memory_url(), make, (3, 10)) == expected


def test_a_kept_iterator_with_workers_is_refused_by_name() -> None:
    kept = KeepsIterator(Numbers(), batch_size=BATCH, num_workers=1)
    try:
        with pytest.raises(UnsupportedState, match="KeepsIterator keeps a running iterator") as why:
            life(memory_url(), lambda: (kept, {}))
        assert "persistent_workers=True" in str(why.value.hint)
    finally:
        shut_down(kept)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Shard(loader(shuffle=True)), "wrapper around a torch loader"),
        (lambda: Stateless(generator_of("NumPy")), "it returns None"),
    ],
)
def test_a_state_dict_that_cannot_be_used_is_reported_once(
    make: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    url = memory_url()
    expected = lives(memory_url(), lambda: (make(), {}))
    caplog.clear()

    assert lives(url, lambda: (make(), {}), (13,)) == expected
    warnings = [text for text in caplog.messages if "has a state_dict that cannot be used" in text]
    # Once in each process.
    assert len(warnings) == 2
    assert reason in warnings[0]


def test_a_stateful_loader_around_an_unsaved_random_sampler_is_refused() -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    data = Numbers()
    unsaved = stateful(data, batch_sampler=BatchSampler(RandomSampler(data), BATCH, False))

    with pytest.raises(UnsupportedState, match="not the order of its RandomSampler"):
        life(memory_url(), lambda: (unsaved, {}))
