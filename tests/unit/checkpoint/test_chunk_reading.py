"""Chunks are read together where they are next to each other, and used only once verified."""

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import NothingVerifies
from outlast.checkpoint.format.manifest import CheckpointManifest, Chunk, Copy
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names
from outlast.checkpoint.saving import packing
from outlast.storage import AccessPattern, Limits, Store, StoreFull, open_store
from outlast.storage.local.store import LocalStore
from tests.faults.counting import CountingStore
from tests.faults.stores import AroundStore, wrapped
from tests.patience import PATIENCE_SECONDS
from tests.unit.checkpoint.stores import NEVER, manifest_of

STEPS = (1, 2, 3)
SIZES = (9_000, 12_001, 30_000, 8_193, 70_000, 5, 1, 600, 10_000, 16_384)
DISTANT = AccessPattern(read_bytes=300_000, reads_at_once=4, creates_at_once=2)


class DistantStore(AroundStore):
    """A store in which neighbors are read together, as in an object store."""

    @property
    def access(self) -> AccessPattern:
        return DISTANT


def state_at(step: int) -> dict[str, Any]:
    """Every other array is frozen, so that all checkpoints share it."""
    arrays: dict[str, Any] = {}
    for number, size in enumerate(SIZES):
        chance = np.random.default_rng((number, step if number % 2 else 0))
        arrays[f"a{number}"] = chance.random(size)
    return {**arrays, "step": step}


def blank() -> dict[str, Any]:
    return {name: item * 0 for name, item in state_at(0).items()}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run with three checkpoints."""
    url = tmp_path_factory.mktemp("origin") / "run"
    state = blank()
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        for step in STEPS:
            state.update(state_at(step))
            checkpointer.save(step)
    files = (path for path in url.rglob("*") if path.is_file())
    return {str(path.relative_to(url)): path.read_bytes() for path in files}


def newest(store: Store) -> CheckpointManifest:
    return manifest_of(store, manifest_names(store)[0])


def damage_copy(files: dict[str, bytes], chunk: Chunk, copy: Copy, chance: random.Random) -> None:
    """Make one copy of a chunk bad."""
    data = bytearray(files.get(copy.pack, b""))
    at = copy.offset + chance.randrange(chunk.span.length)
    match chance.choice(("flip", "flip", "flip", "zero", "cut", "remove")):
        case "flip" if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        case "zero" if at < len(data):
            end = min(len(data), at + chance.randrange(1, 9000))
            data[at:end] = bytes(end - at)
        case "cut":
            del data[at:]
        case "remove":
            files.pop(copy.pack, None)
            return
    if copy.pack in files:
        files[copy.pack] = bytes(data)


@pytest.mark.parametrize("is_distant", [False, True], ids=["local", "distant"])
@pytest.mark.parametrize("seed", range(40))
def test_no_damage_to_any_copies_ever_reaches_the_state(
    tmp_path: Path,
    origin: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    is_distant: bool,
) -> None:
    chance = random.Random(seed)
    files = dict(origin)
    url = tmp_path / "run"
    write_files(url, files)
    manifest = newest(open_store(url))
    pairs = [(chunk, copy) for chunk in manifest.chunks for copy in chunk.copies]
    for chunk, copy in chance.sample(pairs, chance.randint(1, len(pairs) // 2)):
        damage_copy(files, chunk, copy, chance)
    write_files(url, files)
    if is_distant:
        wrapped(monkeypatch, DistantStore)
    survives = all(
        any(is_intact(files, origin, chunk, copy) for copy in chunk.copies)
        for chunk in manifest.chunks
    )
    state = blank()

    try:
        with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
            step = checkpointer.resume()
    except NothingVerifies:
        assert not survives
        return

    assert (step == STEPS[-1]) == survives
    for name, item in state_at(step).items():
        assert np.array_equal(state[name], item), f"{name} after step {step}"


def write_files(url: Path, files: dict[str, bytes]) -> None:
    for path in url.rglob("*.pack"):
        path.unlink()
    for name, data in files.items():
        (url / name).parent.mkdir(parents=True, exist_ok=True)
        (url / name).write_bytes(data)


def is_intact(files: dict[str, bytes], origin: dict[str, bytes], chunk: Chunk, copy: Copy) -> bool:
    part = slice(copy.offset, copy.offset + chunk.span.length)
    return files.get(copy.pack, b"")[part] == origin[copy.pack][part]


def test_neighbors_are_read_together(
    tmp_path: Path, origin: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, origin)
    manifest = newest(open_store(tmp_path))
    stores: list[CountingStore] = []

    def counted(store: Store) -> Store:
        stores.append(CountingStore(DistantStore(store)))
        return stores[-1]

    wrapped(monkeypatch, counted)
    state = blank()

    with Checkpointer(tmp_path, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()

    reads = stores[0].count("read_into")
    size = sum(chunk.span.length for chunk in manifest.chunks)
    assert reads < len(manifest.chunks)
    assert reads >= size / DISTANT.read_bytes
    assert np.array_equal(state["a4"], state_at(3)["a4"])


@pytest.mark.parametrize("is_distant", [False, True], ids=["local", "distant"])
def test_verifying_reads_every_copy(
    tmp_path: Path, origin: dict[str, bytes], is_distant: bool
) -> None:
    files = dict(origin)
    write_files(tmp_path, files)
    store: Store = LocalStore(tmp_path)
    manifest = newest(store)
    if is_distant:
        store = DistantStore(store)
    read: list[int] = []
    assert verify_checkpoint(store, manifest, read.append) == []
    assert sum(read) == sum(chunk.span.length for chunk in manifest.chunks)
    for chunk in manifest.chunks:
        for copy in chunk.copies:
            files = dict(origin)
            data = bytearray(files[copy.pack])
            data[copy.offset + chunk.span.length - 1] ^= 1
            write_files(tmp_path, {**files, copy.pack: bytes(data)})

            problems = verify_checkpoint(store, manifest)

            shared = [c for c in manifest.chunks if copy in c.copies]
            assert len(problems) == len(shared)
            assert all(f"{copy.pack!r} has different bytes" in problem for problem in problems)


class MeetingStore(DistantStore):
    """Each of the first two packs is written only once the other one has begun."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._both = threading.Barrier(2)
        self._packs = 0
        self._lock = threading.Lock()

    def before(self, name: str, limits: Limits) -> None:
        if not name.startswith("packs/"):
            return
        with self._lock:
            self._packs += 1
            number = self._packs
        if number <= 2:
            self._both.wait(PATIENCE_SECONDS)


class FullStore(MeetingStore):
    """Has no room for the second of these packs."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.failed: list[str] = []

    def before(self, name: str, limits: Limits) -> None:
        super().before(name, limits)
        if name.startswith("packs/") and not self.failed:
            self.failed.append(name)
            raise StoreFull("No space left.", hint="Make room.")


def test_a_store_that_is_fastest_so_gets_packs_two_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "PACK_BYTES_MAX", 400_000)
    wrapped(monkeypatch, MeetingStore)
    state = state_at(1)
    with Checkpointer(tmp_path, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        checkpointer.save(1)
    monkeypatch.undo()

    found = blank()
    with Checkpointer(tmp_path, found, every_steps=NEVER) as checkpointer:
        assert checkpointer.resume() == 1

    assert len(newest(open_store(tmp_path)).packs) > 2
    assert all(np.array_equal(found[name], item) for name, item in state.items())


def test_a_pack_that_fails_leaves_none_of_the_others_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "PACK_BYTES_MAX", 400_000)
    wrapped(monkeypatch, FullStore)
    state = state_at(1)
    checkpointer = Checkpointer(tmp_path, state, every_steps=NEVER)
    checkpointer.resume()

    with pytest.raises(StoreFull, match="No space left"):
        checkpointer.save(1)
        checkpointer.wait()

    checkpointer.close()
    assert manifest_names(open_store(tmp_path)) == []
    assert open_store(tmp_path).list("packs/") == []
