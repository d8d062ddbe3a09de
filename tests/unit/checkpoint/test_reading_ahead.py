"""What a start reads before it has claimed its attempt, and how a save is cut into packs."""

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import CheckpointsMissing
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.runs.catalog import COMMITTED
from outlast.checkpoint.saving import packing
from outlast.storage import ROUTINE, Buffer, Limits, Store, open_store
from tests.faults.stores import AroundStore, wrapped
from tests.unit.checkpoint.stores import NEVER, memory_url, resumed, saved


class WatchedStore(AroundStore):
    """Calls `before_claim` right before an attempt is claimed, once packs have been read."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.manifests_read: list[str] = []
        self.packs_read = threading.Event()

    def before_claim(self) -> None:
        """What happens at the last moment."""

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        if name.startswith("attempts/"):
            assert self.packs_read.wait(60), "Nothing was restored before the claim."
            self.before_claim()
        super().create(name, parts, limits=limits)

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        if name.startswith("manifests/"):
            self.manifests_read.append(name)
        return super().read(name, start=start, length=length, limits=limits)

    def read_into(
        self, name: str, *targets: Buffer, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        super().read_into(name, *targets, start=start, limits=limits)
        self.packs_read.set()


def test_the_newest_checkpoint_is_restored_while_the_attempt_is_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, state = memory_url(), {"x": np.zeros(3)}
    saved(url, {"x": np.ones(3)}, step=4)
    stores: list[WatchedStore] = []

    def watched(store: Store) -> Store:
        stores.append(WatchedStore(store))
        return stores[-1]

    wrapped(monkeypatch, watched)

    assert resumed(url, state) == 4
    assert np.array_equal(state["x"], [1, 1, 1])

    [store] = stores
    assert len(store.manifests_read) == 1


def test_a_checkpoint_that_another_attempt_commits_before_the_claim_is_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, live = memory_url(), {"x": np.ones(3)}
    older = Checkpointer(url, live, every_steps=NEVER)
    older.resume()
    older.save(1)
    older.wait()

    class Late(WatchedStore):
        def before_claim(self) -> None:
            live["x"] += 1
            older.save(2)
            older.wait()

    wrapped(monkeypatch, Late)
    state = {"x": np.zeros(3)}

    assert resumed(url, state) == 2
    assert np.array_equal(state["x"], [2, 2, 2])
    older.close()


def test_an_older_checkpoint_replaces_what_was_restored_of_one_that_is_gone_at_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = memory_url()
    saved(url, {"x": np.ones(3)}, step=1)
    saved(url, {"x": np.full(3, 2.0)}, step=2)

    class Losing(WatchedStore):
        def before_claim(self) -> None:
            self.delete(self.manifests_read)

    wrapped(monkeypatch, Losing)
    state = {"x": np.zeros(3)}

    assert resumed(url, state) == 1
    assert np.array_equal(state["x"], [1, 1, 1])


def test_a_state_that_was_restored_from_a_checkpoint_that_is_gone_is_not_taken_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = memory_url()
    saved(url, {"x": np.ones(3)}, step=1)
    store = open_store(url)
    store.delete([one.name for folder in ("attempts/", "journal/") for one in store.list(folder)])

    class Emptied(WatchedStore):
        def before_claim(self) -> None:
            # As if someone removed the run by hand.
            self.delete([*self.manifests_read, COMMITTED])

    wrapped(monkeypatch, Emptied)

    with pytest.raises(CheckpointsMissing, match="has saved checkpoints before"):
        resumed(url, {"x": np.zeros(3)})


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([100, 100, 100], [300]),
        ([100] * 10, [400, 400, 200]),
        ([100] * 8 + [40], [400, 440]),
        ([100] * 8 + [60], [400, 400, 60]),
        ([400, 400, 10], [400, 410]),
        ([1000], [1000]),
        ([], []),
    ],
)
def test_a_small_rest_joins_the_last_pack(
    monkeypatch: pytest.MonkeyPatch, lengths: list[int], expected: list[int]
) -> None:
    monkeypatch.setattr(packing, "PACK_BYTES_MAX", 400 * 4096)
    spans, start = [], 0
    for length in lengths:
        spans.append(Span(start=start, length=length * 4096))
        start += length * 4096

    chunks = ((str(s.start), s) for s in spans)
    batches = packing._batches(chunks, packing._pack_sizes(None), end_of_all=start)

    assert [sum(s.length for _, s in batch) // 4096 for batch in batches] == expected
