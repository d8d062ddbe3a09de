"""Several ranks save and resume together. Threads act as ranks."""

import json
import logging
import random
import threading
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import outlast
from outlast.checkpoint import session
from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import (
    CheckpointError,
    CheckpointsMissing,
    Fenced,
    NothingVerifies,
    StateMismatch,
)
from outlast.checkpoint.format.root import RootManifest
from outlast.checkpoint.ranks import RankGroup
from outlast.checkpoint.restoring.inspection import arrays_of, compare, find, summaries
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.checkpoint.saving import group_committing
from outlast.ranks.memory import MemoryChannels
from outlast.ranks.world import World
from outlast.storage import Store, StoreUnavailable, create_or_confirm, open_store
from tests.unit.checkpoint.stores import NEVER, memory_url, saved

Rank = Callable[[int], Any]


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Runs a function in as many threads as there are ranks; gives what each returned or raised."""
    local = threading.local()
    monkeypatch.setattr(session, "current_group", lambda: getattr(local, "group", None))

    def run(size: int, work: Rank) -> list[Any]:
        channels = MemoryChannels()

        def one(rank: int) -> Any:
            world = World(rank=rank, size=size, library="torch")
            local.group = RankGroup(world, channels.open())
            try:
                return work(rank)
            except Exception as error:
                return error

        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(one, range(size)))

    return run


Ranks = Callable[..., list[Any]]


class Counter:
    """What each rank has for itself, in an object."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.value = state["value"]


def state_of(rank: int, *, fill: float = 0.0, own: int = 0, size: int = 40_000) -> dict[str, Any]:
    """Two arrays that all ranks have alike, of which one is large, and parts of its own."""
    return {
        "weights": outlast.replicated(torch.full((size,), fill)),
        "bias": outlast.replicated(torch.full((3,), fill)),
        "own": torch.full((5,), float(own)),
        "counter": Counter(own),
        "rank": rank if own else -1,
    }


def save(url: str, state: MutableMapping[str, Any], *, step: int = 1, fill: float = 7.0) -> int:
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        state["weights"].fill_(fill)
        state["bias"].fill_(fill)
        checkpointer.save(step)
        checkpointer.wait()
        return checkpointer.attempt


def resume(url: str, state: MutableMapping[str, Any], **options: Any) -> tuple[int, Any]:
    with Checkpointer(url, state, every_steps=NEVER, **options) as checkpointer:
        return checkpointer.resume(), plain(state)


def plain(state: MutableMapping[str, Any]) -> Any:
    weights = state["weights"]
    assert bool((weights == weights[0]).all())
    counter = state["counter"].value
    return (
        float(weights[0]),
        float(state["bias"][2]),
        float(state["own"][0]),
        counter,
        state["rank"],
    )


def saved_by(ranks: Ranks, size: int, url: str, *, step: int = 1, fill: float = 7.0) -> None:
    found = ranks(size, lambda rank: save(url, state_of(rank, own=10 + rank), step=step, fill=fill))
    assert len(set(found)) == 1, found
    assert isinstance(found[0], int), found


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_rank_gets_back_what_it_had(ranks: Ranks, size: int) -> None:
    url = memory_url()
    saved_by(ranks, size, url)

    found = ranks(size, lambda rank: resume(url, state_of(rank)))

    assert found == [(1, (7.0, 7.0, 10.0 + rank, 10 + rank, rank)) for rank in range(size)]


def test_what_all_ranks_have_alike_is_written_once_and_shared_out(ranks: Ranks) -> None:
    url = memory_url()

    saved_by(ranks, 4, url)

    store = open_store(url)
    root = read_manifest(store, manifest_names(store)[0])
    assert isinstance(root, RootManifest)
    assert root.world_size == 4
    whole = 4 * 40_003
    own = 4 * (4 * 5 + torch.get_rng_state().nbytes + 2 * 4 * 624)
    assert whole < root.size_bytes < 1.02 * whole + own
    assert verify_checkpoint(store, root) == []


def test_a_save_that_one_rank_cannot_finish_leaves_the_checkpoint_before(ranks: Ranks) -> None:
    url = memory_url()
    saved_by(ranks, 3, url)

    def fails(rank: int) -> object:
        state = state_of(rank)
        with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
            checkpointer.resume()
            if rank == 1:
                state["new"] = object()
            checkpointer.save(2)
            checkpointer.wait()
        return None

    found = ranks(3, fails)

    assert "object" in str(found[1])
    for other in (found[0], found[2]):
        assert isinstance(other, CheckpointError)
        assert "Rank 1 could not save" in str(other)
    assert {step for step, _ in ranks(3, lambda rank: resume(url, state_of(rank)))} == {1}


def test_ranks_at_different_steps_are_named(ranks: Ranks) -> None:
    url = memory_url()

    found = ranks(2, lambda rank: save(url, state_of(rank), step=5 + rank))

    assert all("rank 0 at 5, rank 1 at 6" in str(error) for error in found)
    assert manifest_names(open_store(url)) == []


def test_states_that_differ_in_structure_are_refused(ranks: Ranks) -> None:
    url = memory_url()

    found = ranks(3, lambda rank: save(url, state_of(rank, size=40_000 + 8 * (rank == 2))))

    assert all("on rank 2" in str(error) for error in found)
    assert manifest_names(open_store(url)) == []


def test_replicas_that_have_diverged_are_reported_with_rank_and_path(
    ranks: Ranks, caplog: pytest.LogCaptureFixture
) -> None:
    url = memory_url()

    def diverges(rank: int) -> int:
        state = state_of(rank, fill=1.0)
        with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
            checkpointer.resume()
            if rank == 2:
                state["bias"][1] = 5.0
            checkpointer.save(1)
        return 0

    with caplog.at_level(logging.ERROR):
        ranks(4, diverges)

    (message,) = [record.getMessage() for record in caplog.records]
    assert "The replicas have diverged: state.bias on rank 2" in message


def test_a_damaged_part_makes_all_ranks_use_the_checkpoint_before(ranks: Ranks) -> None:
    url = memory_url()
    saved_by(ranks, 3, url, step=1, fill=1.0)
    saved_by(ranks, 3, url, step=2, fill=2.0)
    store = open_store(url)
    newest = read_manifest(store, manifest_names(store)[0])
    assert isinstance(newest, RootManifest)
    damage(store, newest.part_name(1))

    found = ranks(3, lambda rank: resume(url, state_of(rank)))

    assert found == [(1, (1.0, 1.0, 10.0 + rank, 10 + rank, rank)) for rank in range(3)]
    assert any("is not the one that was committed" in str(s.problems) for s in listed(store))


def test_without_any_readable_checkpoint_all_ranks_refuse(ranks: Ranks) -> None:
    url = memory_url()
    saved_by(ranks, 2, url)
    store = open_store(url)
    root = read_manifest(store, manifest_names(store)[0])
    assert isinstance(root, RootManifest)
    damage(store, root.part_name(0))

    found = ranks(2, lambda rank: resume(url, state_of(rank)))

    assert isinstance(found[0], NothingVerifies)
    assert "Rank 0 cannot resume" in str(found[1])


def test_a_run_that_has_lost_its_checkpoints_is_not_started_over(ranks: Ranks) -> None:
    url = memory_url()
    saved_by(ranks, 2, url)
    store = open_store(url)
    store.delete(manifest_names(store))

    found = ranks(2, lambda rank: resume(url, state_of(rank)))

    assert isinstance(found[0], CheckpointsMissing)
    assert "Rank 0 cannot resume" in str(found[1])


def test_a_state_that_does_not_match_on_one_rank_is_refused_by_all(ranks: Ranks) -> None:
    url = memory_url()
    saved_by(ranks, 3, url)

    def other(rank: int) -> object:
        state = state_of(rank)
        if rank == 1:
            state["own"] = torch.zeros(6)
        return resume(url, state)

    found = ranks(3, other)

    assert isinstance(found[1], StateMismatch)
    for error in (found[0], found[2]):
        assert "Rank 1 cannot resume" in str(error)
        assert "state.own" in str(error)


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (3, 1), (1, 3)])
def test_another_number_of_ranks_needs_consent(ranks: Ranks, before: int, after: int) -> None:
    url = memory_url()
    if before == 1:
        saved(url, state_of(0, fill=7.0, own=10))
    else:
        saved_by(ranks, before, url)

    def resumed(**options: Any) -> list[Any]:
        if after > 1:
            return ranks(after, lambda rank: resume(url, state_of(rank), **options))
        try:
            return [resume(url, state_of(0), **options)]
        except StateMismatch as error:
            return [error]

    for error in resumed():
        assert f"was saved by {before} rank" in str(error)
        assert "elastic=True" in str(error)
        assert "random.torch" in str(error)
    found = resumed(elastic=True)
    assert [(step, values[:2]) for step, values in found] == [(1, (7.0, 7.0))] * after
    assert {values[2] - 10 for _, values in found} <= set(range(before))


def test_an_older_attempt_is_fenced_on_all_ranks(ranks: Ranks) -> None:
    url = memory_url()
    started = threading.Barrier(3)
    replaced = threading.Event()

    def late(rank: int) -> object:
        with Checkpointer(url, state_of(rank), every_steps=NEVER) as checkpointer:
            checkpointer.resume()
            started.wait()
            replaced.wait()
            checkpointer.save(1)
            checkpointer.wait()
        return None

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ranks, 2, late)
        started.wait()
        store = open_store(url)
        store.create("attempts/000099.json", [json.dumps({"id": "newer"}).encode()])
        replaced.set()
        found = first.result()

    assert [type(error) for error in found] == [Fenced, Fenced]
    assert manifest_names(store) == []


def test_old_parts_are_deleted_with_their_checkpoint(ranks: Ranks) -> None:
    url = memory_url()

    def saves(rank: int) -> int:
        state = state_of(rank, fill=1.0, own=1)
        with Checkpointer(url, state, every_steps=NEVER, keep_last=2) as checkpointer:
            checkpointer.resume()
            for step in range(1, 6):
                state["weights"] += 1.0
                checkpointer.save(step)
                checkpointer.wait()
        return 0

    assert ranks(2, saves) == [0, 0]

    store = open_store(url)
    kept = [read_manifest(store, name) for name in manifest_names(store)]
    assert [manifest.step for manifest in kept] == [5, 4]
    needed = {name for manifest in kept for name in manifest.packs}
    there = {entry.name for folder in ("packs/", "parts/") for entry in store.list(folder)}
    assert there == needed
    assert all(verify_checkpoint(store, manifest) == [] for manifest in kept)


def test_a_checkpoint_whose_commit_is_in_doubt_keeps_its_bytes(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = memory_url()
    roots: list[str] = []

    def create_and_lose_the_answer(store: Store, name: str, *rest: Any, **limits: Any) -> None:
        create_or_confirm(store, name, *rest, **limits)
        if name.startswith("manifests/"):
            roots.append(name)
            if len(roots) == 2:
                raise StoreUnavailable("no answer")

    monkeypatch.setattr(group_committing, "create_or_confirm", create_and_lose_the_answer)

    def saves(rank: int) -> int:
        state = state_of(rank, fill=1.0, own=1)
        with Checkpointer(url, state, every_steps=NEVER, keep_last=2, on_error="warn") as saver:
            saver.resume()
            for step in range(1, 5):
                # The large array stays the same, so all checkpoints share its first pack.
                state["own"] += 1.0
                saver.save(step)
                saver.wait()
        return 0

    assert ranks(2, saves) == [0, 0]

    store = open_store(url)
    kept = [read_manifest(store, name) for name in manifest_names(store)]
    assert [manifest.step for manifest in kept] == [4, 3]
    assert all(verify_checkpoint(store, manifest) == [] for manifest in kept)
    assert len(roots) == 4


def test_unchanged_arrays_are_not_written_again(ranks: Ranks) -> None:
    url = memory_url()
    saved_by(ranks, 2, url)

    def saves_again(rank: int) -> int:
        state = state_of(rank)
        with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
            checkpointer.resume()
            checkpointer.save(2)
        return 0

    assert ranks(2, saves_again) == [0, 0]

    store = open_store(url)
    assert read_manifest(store, manifest_names(store)[0]).new_bytes < 40_000


def test_exported_arrays_are_put_together(ranks: Ranks) -> None:
    url = memory_url()
    saved_by(ranks, 3, url, step=1, fill=1.0)
    saved_by(ranks, 3, url, step=2, fill=2.0)
    store = open_store(url)

    dtype, shape, data = arrays_of(store, find(store, 2))["weights"]

    assert (dtype, shape) == ("float32", (40_000,))
    assert np.array_equal(data.view(np.float32), np.full(40_000, 2.0, np.float32))
    difference = compare(store, find(store, 1), find(store, 2))
    assert set(difference.changed) == {"weights", "bias"}


def test_errors_in_the_background_are_raised_on_all_ranks_at_one_step(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = memory_url()
    steps: dict[int, int] = {}
    together = threading.Barrier(2)

    def trains(rank: int) -> object:
        state = state_of(rank, own=1)
        with Checkpointer(url, state, every_steps=2) as checkpointer:
            checkpointer.resume()
            for step in range(1, 200):
                together.wait(60)
                steps[rank] = step
                if rank == 1 and step == 5:
                    state["late"] = object()
                checkpointer.tick(step)
        return None

    found = ranks(2, trains)

    assert all(isinstance(error, CheckpointError) for error in found), found
    assert steps[0] == steps[1]


@pytest.mark.parametrize("seed", range(12))
def test_no_damage_to_any_object_loads_wrong_bytes(ranks: Ranks, seed: int) -> None:
    url = memory_url()
    saved_by(ranks, 2, url)
    store = open_store(url)
    chance = random.Random(seed)
    folder = ("manifests/", "parts/", "packs/")[seed % 3]
    name = chance.choice(sorted(entry.name for entry in store.list(folder)))
    data = bytearray(store.read(name))
    store.delete([name])
    if chance.random() < 0.8:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        store.create(name, [bytes(data)])

    found = ranks(2, lambda rank: resume(url, state_of(rank)))

    expected = [(1, (7.0, 7.0, 10.0 + rank, 10 + rank, rank)) for rank in range(2)]
    # A flipped byte of the padding between two arrays is part of no array.
    is_refused = all(isinstance(error, CheckpointError) for error in found)
    assert is_refused or found == expected, found


def damage(store: Store, name: str) -> None:
    data = bytearray(store.read(name))
    data[len(data) // 2] ^= 1
    store.delete([name])
    store.create(name, [bytes(data)])


def listed(store: Store) -> Iterator[Any]:
    return summaries(store, reads_all=True)
