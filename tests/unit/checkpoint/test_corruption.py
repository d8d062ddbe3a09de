"""Whatever happens to the bytes in the store is found out, and the checkpoint before is used."""

import logging
import random
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import CheckpointCorrupt, NothingVerifies
from outlast.checkpoint.format.manifest import CheckpointManifest, Chunk
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.checkpoint.runs.inventory import Retention, delete_garbage, find_garbage
from outlast.journal import Resumed, read_journal
from outlast.storage import open_store
from tests.unit.checkpoint.stores import manifest_of

SIZES = (40_000, 3, 700_000, 1, 20_000)


def state_at(step: int) -> dict[str, Any]:
    chance = np.random.default_rng(step)
    arrays = {f"a{number}": chance.random(size) for number, size in enumerate(SIZES)}
    return {**arrays, "step": step}


def blank() -> dict[str, Any]:
    return {name: item * 0 for name, item in state_at(0).items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three checkpoints that share nothing."""
    url = tmp_path_factory.mktemp("origin") / "run"
    state = blank()
    with Checkpointer(url, state, every_steps=10**9) as checkpointer:
        checkpointer.resume()
        for step in (1, 2, 3):
            state.update(state_at(step))
            checkpointer.save(step)
    return url


def newest(url: Path) -> CheckpointManifest:
    store = open_store(url)
    return manifest_of(store, manifest_names(store)[0])


def flip(path: Path, at: int, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def flip_in_pack(url: Path, manifest: CheckpointManifest, chance: random.Random) -> None:
    chunk: Chunk = chance.choice(manifest.chunks)
    [copy] = chunk.copies
    flip(url / copy.pack, copy.offset + chance.randrange(chunk.span.length), chance)


def cut_pack(url: Path, manifest: CheckpointManifest, chance: random.Random) -> None:
    path = url / chance.choice(sorted(manifest.packs))
    ends = [c.copies[0].offset + c.span.length for c in manifest.chunks]
    with path.open("r+b") as file:
        file.truncate(chance.randrange(max(ends)))


def remove_pack(url: Path, manifest: CheckpointManifest, chance: random.Random) -> None:
    (url / chance.choice(sorted(manifest.packs))).unlink()


def flip_in_manifest(url: Path, manifest: CheckpointManifest, chance: random.Random) -> None:
    path = url / manifest.name
    flip(path, chance.randrange(path.stat().st_size), chance)


def cut_manifest(url: Path, manifest: CheckpointManifest, chance: random.Random) -> None:
    path = url / manifest.name
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def garble_manifest(url: Path, manifest: CheckpointManifest, chance: random.Random) -> None:
    (url / manifest.name).write_bytes(chance.randbytes(chance.randrange(500)))


DAMAGES = (
    flip_in_pack,
    cut_pack,
    remove_pack,
    flip_in_manifest,
    cut_manifest,
    garble_manifest,
)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", range(12))
def test_damage_is_detected_and_the_checkpoint_before_is_used(
    tmp_path: Path, origin: Path, damage: Any, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    url = tmp_path / "run"
    shutil.copytree(origin, url)
    name = newest(url).name
    damage(url, newest(url), random.Random(seed))
    state = blank()

    with Checkpointer(url, state) as checkpointer:
        assert checkpointer.resume() == 2

    assert same(state, state_at(2))
    [record] = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert name in record.getMessage()
    journal = read_journal(open_store(url))[-1]
    [event] = [event for event in journal.events if isinstance(event, Resumed)]
    assert [passed.checkpoint for passed in event.passed_over] == [name]


def test_when_nothing_verifies_it_says_so_and_does_not_start_from_zero(
    tmp_path: Path, origin: Path
) -> None:
    url = tmp_path / "run"
    shutil.copytree(origin, url)
    for pack in (url / "packs").iterdir():
        pack.unlink()

    with pytest.raises(NothingVerifies, match="None of the 3 checkpoints") as caught:
        Checkpointer(url, blank()).resume()

    assert re.search(r"'packs/\S+' does not exist in ", str(caught.value))
    assert caught.value.hint is not None


def test_a_manifest_of_a_newer_format_is_not_guessed_at(tmp_path: Path, origin: Path) -> None:
    url = tmp_path / "run"
    shutil.copytree(origin, url)
    path = url / newest(url).name
    path.write_bytes(path.read_bytes().replace(b'"outlast":1', b'"outlast":3', 1))

    with pytest.raises(CheckpointCorrupt, match="format 3") as caught:
        read_manifest(open_store(url), manifest_names(open_store(url))[0])

    assert caught.value.hint == "Install the version of outlast that wrote it."


def frozen_run(url: Path, saves: int, *, keep_last: int = 3) -> dict[str, Any]:
    """A run whose large layer never changes."""
    state: dict[str, Any] = {"frozen": np.arange(200_000.0), "lora": np.zeros(10), "step": 0}
    with Checkpointer(url, state, every_steps=10**9, keep_last=keep_last) as checkpointer:
        checkpointer.resume()
        for step in range(1, saves + 1):
            state["lora"] += 1
            state["step"] = step
            checkpointer.save(step)
    return state


def frozen_chunk(url: Path) -> Chunk:
    return max(newest(url).chunks, key=lambda chunk: chunk.span.length)


@pytest.mark.parametrize("saves", [2, 3, 9])
@pytest.mark.parametrize("copy", [0, 1])
def test_a_flip_in_what_all_checkpoints_share_is_survived(
    tmp_path: Path, saves: int, copy: int, caplog: pytest.LogCaptureFixture
) -> None:
    url = tmp_path / "run"
    expected = frozen_run(url, saves)
    chunk = frozen_chunk(url)
    assert len({copy.pack for copy in chunk.copies}) == 2
    flip(url / chunk.copies[copy].pack, chunk.copies[copy].offset + 5, random.Random(0))
    state: dict[str, Any] = {"frozen": np.zeros(200_000), "lora": np.zeros(10), "step": 0}

    with Checkpointer(url, state, every_steps=10**9) as checkpointer:
        assert checkpointer.resume() == saves
        state["step"] += 1
        checkpointer.save(saves + 1)

    assert same({**expected, "step": saves + 1}, state)
    assert ("from second copies" in caplog.text) == (copy == 0)
    if copy == 0:
        # What was found damaged is replaced by a new copy.
        assert verify_checkpoint(open_store(url), newest(url), lambda _: None) == []


def test_the_frozen_part_is_written_twice_and_never_again(tmp_path: Path) -> None:
    url = tmp_path / "run"
    frozen_run(url, 8)
    sizes = [path.stat().st_size for path in (url / "packs").iterdir()]

    assert sum(size > 1_000_000 for size in sizes) == 2
    assert len(manifest_names(open_store(url))) == 3


def test_pruning_keeps_every_pack_that_a_kept_checkpoint_names(tmp_path: Path) -> None:
    url = tmp_path / "run"
    frozen_run(url, 8, keep_last=5)
    store = open_store(url)

    garbage = find_garbage(store, Retention(keep_last=2), 1)
    delete_garbage(store, garbage)

    assert len(garbage.manifests) == 3
    assert len(manifest_names(store)) == 2
    for name in manifest_names(store):
        assert verify_checkpoint(store, read_manifest(store, name), lambda _: None) == []


def test_pruning_with_an_unreadable_checkpoint_deletes_no_pack(tmp_path: Path) -> None:
    url = tmp_path / "run"
    frozen_run(url, 5)
    store = open_store(url)
    packs = sorted((url / "packs").iterdir())
    (url / newest(url).name).write_bytes(b"garbled")

    delete_garbage(store, find_garbage(store, Retention(keep_last=1), 1))

    assert sorted((url / "packs").iterdir()) == packs


def test_milestones_are_kept_for_ever(tmp_path: Path) -> None:
    url = tmp_path / "run"
    state = {"x": np.zeros(3)}
    with Checkpointer(url, state, keep_last=1, keep_every=4) as checkpointer:
        checkpointer.resume()
        for step in range(1, 11):
            state["x"] += 1
            checkpointer.save(step)

    steps = [read_manifest(open_store(url), n).step for n in manifest_names(open_store(url))]
    assert steps == [10, 8, 4]


@pytest.mark.parametrize("options", [{"keep_last": 0}, {"keep_every": 0}], ids=str)
def test_a_retention_that_keeps_nothing_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Retention(**options)
