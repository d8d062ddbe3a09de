"""A manifest is believed only if it can be true, whatever its hash says."""

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError
from outlast.checkpoint.format import envelope
from outlast.checkpoint.format.dtype_sizes import BYTES_BY_NAME, item_bytes
from outlast.checkpoint.format.encoding import decode, encode
from outlast.checkpoint.format.manifest import CheckpointManifest
from outlast.checkpoint.format.tree_validation import KINDS
from outlast.checkpoint.restoring.inspection import arrays_of
from outlast.checkpoint.restoring.loading import load
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.checkpoint.state import nodes
from outlast.storage import ROUTINE, Limits, Store, open_store
from outlast.storage.memory import MemoryStore
from tests.commands import command
from tests.faults.stores import AroundStore
from tests.unit.checkpoint.crafted import (
    CHANGES,
    MIB,
    changed,
    headed,
    mutated,
    newest_of,
    same,
    saved_run,
    state_at,
    store_of,
    texts,
    url_of,
)
from tests.unit.checkpoint.stores import manifest_of, memory_url, resumed, saved

checkpoints = command("checkpoints")

ALL = pytest.mark.parametrize("case", [*CHANGES, *texts(b"")])


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedRun:
    """The objects of a run with two checkpoints, and the newest of those."""

    objects: dict[str, bytes]
    newest: str
    data: bytes

    def with_newest(self, data: bytes) -> dict[str, bytes]:
        return {**self.objects, self.newest: data}


@pytest.fixture(scope="module")
def run() -> SavedRun:
    objects = saved_run()
    newest = newest_of(objects)
    return SavedRun(objects=objects, newest=newest, data=objects[newest])


@pytest.fixture
def crafted(run: SavedRun, case: str) -> bytes:
    """The newest manifest with something in it that cannot be."""
    data = changed(run.data, CHANGES[case]) if case in CHANGES else texts(run.data)[case]
    assert data != run.data
    return data


def test_what_was_saved_is_believed(run: SavedRun) -> None:
    manifest = decode(run.newest, run.data)

    assert encode(manifest) == run.data


@ALL
def test_an_impossible_manifest_is_refused(run: SavedRun, crafted: bytes) -> None:
    with pytest.raises(CheckpointCorrupt, match=run.newest) as caught:
        decode(run.newest, crafted)

    assert len(str(caught.value)) < 500


@ALL
def test_an_impossible_manifest_is_passed_over_at_resume(run: SavedRun, crafted: bytes) -> None:
    url = url_of(run.with_newest(crafted))
    state: dict[str, Any] = state_at(0)

    with Checkpointer(url, state) as checkpointer:
        assert checkpointer.resume() == 1

    assert same(state, state_at(1))


@ALL
def test_no_command_stumbles_over_an_impossible_manifest(
    run: SavedRun, crafted: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = url_of(run.with_newest(crafted))

    assert checkpoints(url) == 1
    assert checkpoints(url, verify=True) == 1
    for options in ({"diff": (1, 2)}, {"export": (2, tmp_path / "x.safetensors")}):
        with pytest.raises(CheckpointCorrupt, match=run.newest):
            checkpoints(url, **options)

    assert list(tmp_path.iterdir()) == []
    assert run.newest in capsys.readouterr().err


def test_a_bad_checkpoint_does_not_keep_another_from_being_exported(tmp_path: Path) -> None:
    url = memory_url()
    for step in (1, 2):
        saved(url, {"x": np.arange(1000.0)}, step=step)
    store = open_store(url)
    newest = manifest_names(store)[0]
    store.delete([newest])
    store.create(newest, [b"garbled"])
    path = tmp_path / "one.safetensors"

    assert checkpoints(url, export=(1, path)) == 0

    assert path.read_bytes().endswith(np.arange(1000.0).tobytes())


def test_export_refuses_two_arrays_of_one_path(tmp_path: Path) -> None:
    url = memory_url()
    saved(url, {"a.b": np.zeros(3), "a": {"b": np.ones(3)}})
    state = {"a.b": np.ones(3), "a": {"b": np.zeros(3)}}

    assert resumed(url, state) == 1
    assert same(state, {"a.b": np.zeros(3), "a": {"b": np.ones(3)}})
    with pytest.raises(CheckpointError, match=r"have the path 'state\.a\.b'"):
        checkpoints(url, export=(1, tmp_path / "x"))
    with pytest.raises(CheckpointError, match=r"have the path 'state\.a\.b'"):
        checkpoints(url, diff=(1, 1))


def test_memory_that_nothing_filled_is_never_exported(run: SavedRun) -> None:
    """Even of a manifest that was never checked."""
    manifest = replace(decode(run.newest, run.data), chunks=())

    with pytest.raises(CheckpointCorrupt, match="are in no chunk"):
        arrays_of(store_of(run.objects), manifest)


def test_an_array_of_another_size_than_was_saved_is_not_filled(run: SavedRun) -> None:
    manifest = decode(run.newest, run.data)
    targets = [[np.zeros(leaf.nbytes + 1, np.uint8)] for leaf in manifest.leaves]

    with pytest.raises(CheckpointCorrupt, match="but the array there has"):
        load(store_of(run.objects), manifest, targets)


class CountingStore(AroundStore):
    """Counts the bytes that are read whole."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.bytes_read = 0

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        data = super().read(name, start=start, length=length, limits=limits)
        self.bytes_read += len(data)
        return data


@pytest.mark.parametrize("claims", [8 * 1024**3, None], ids=["claimed", "unsaid"])
def test_a_sparse_manifest_of_8_gib_is_refused_without_reading_it(
    run: SavedRun, tmp_path: Path, claims: int | None
) -> None:
    path = tmp_path / run.newest
    path.parent.mkdir()
    with path.open("wb") as file:
        if claims is not None:
            file.write(headed(b"", length=claims) + b"\n")
        file.truncate(8 * 1024**3)
    store = CountingStore(open_store(tmp_path))

    with pytest.raises(CheckpointCorrupt, match=run.newest):
        read_manifest(store, run.newest)

    assert store.bytes_read <= 2 * MIB


def test_a_manifest_longer_than_it_says_is_refused(run: SavedRun, tmp_path: Path) -> None:
    store = MemoryStore()
    large = headed(b" " * (3 * MIB) + run.data.partition(b"\n")[2])
    store.create(run.newest, [large])
    assert read_manifest(store, run.newest) == decode(run.newest, run.data)
    store.delete([run.newest])
    store.create(run.newest, [large, b" "])

    with pytest.raises(CheckpointCorrupt, match="was truncated or changed"):
        read_manifest(store, run.newest)


def test_what_could_not_be_read_back_is_not_written(
    run: SavedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = decode(run.newest, run.data)
    with pytest.raises(CheckpointError, match="is out of range for a checkpoint") as caught:
        encode(replace(manifest, step=10**12))
    assert caught.value.hint == "Steps go up to 999,999,999,999 and attempts up to 999,999,999."

    monkeypatch.setattr(envelope, "MANIFEST_BYTES_MAX", 5000)
    with pytest.raises(CheckpointError, match="more than the 5,000 that can be read back"):
        encode(manifest)


@pytest.mark.parametrize(
    ("library", "dtype", "size"),
    [
        ("numpy", "<f4", 4),
        ("numpy", "<U3", 12),
        ("numpy", "<M8[ns]", 8),
        ("numpy", "[('a', '<f4'), ('b', '<i8', (2,))]", 20),
        ("torch", "bfloat16", 2),
        ("torch", "complex64", 8),
        ("torch", "float8_e4m3fn", 1),
        ("jax", "int4", 1),
        ("jax", "float64", 8),
    ],
)
def test_the_size_of_an_item_is_known_without_its_library(
    library: str, dtype: str, size: int
) -> None:
    assert item_bytes(library, dtype) == size


def test_the_table_of_sizes_agrees_with_the_libraries() -> None:
    ml_dtypes, torch = pytest.importorskip("ml_dtypes"), pytest.importorskip("torch")
    for name, size in BYTES_BY_NAME.items():
        for library in (torch, ml_dtypes):
            found = getattr(library, name, None)
            if isinstance(found, torch.dtype):
                assert found.itemsize == size, name
            elif found is not None:
                assert np.dtype(found).itemsize == size, name


@pytest.mark.parametrize("key", ["__metadata__", "half \ud800 pair"])
def test_names_that_the_format_lacks_are_not_exported(tmp_path: Path, key: str) -> None:
    url = memory_url()
    saved(url, {key: np.zeros(3)})

    with pytest.raises(CheckpointError, match="cannot be the name of an array"):
        checkpoints(url, export=(1, tmp_path / "x"))

    assert list(tmp_path.iterdir()) == []


def test_paths_are_printed_without_what_a_terminal_acts_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = memory_url()
    state: dict[str, Any] = {"x": np.zeros(3), "\x1b[2J\ud800é": np.zeros(3)}
    with Checkpointer(url, state, every_steps=10**9) as checkpointer:
        checkpointer.resume()
        checkpointer.save(1)
        state["\x1b[2J\ud800é"] += 1
        checkpointer.save(2)

    assert checkpoints(url, diff=(1, 2)) == 0

    assert "~ \\x1b[2J\\ud800é\n" in capsys.readouterr().out


def test_every_kind_of_value_that_is_decoded_is_checked() -> None:
    assert set(nodes._DECODERS) <= KINDS.keys()


# Damage by chance


def test_no_random_change_of_a_manifest_loads_wrong_bytes(run: SavedRun) -> None:
    store = store_of(run.objects)
    image = image_of(run)
    for seed in range(300):
        store.delete([run.newest])
        store.create(run.newest, [mutated(run.data, random.Random(seed))])
        try:
            manifest = manifest_of(store, run.newest)
            arrays = arrays_of(store, manifest)
        except CheckpointError:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        assert_right(arrays, manifest, image, seed)


def assert_right(
    arrays: dict[str, Any], manifest: CheckpointManifest, image: bytes, seed: int
) -> None:
    """What is loaded into a place are the bytes that were saved there.

    A value in the tree, a path, or a type of the same size can be changed unseen, because the hash
    that would have told is right. Bytes cannot.
    """
    for leaf, place in zip(manifest.leaves, manifest.places, strict=True):
        if leaf.path.startswith("state."):
            data = arrays[leaf.path.removeprefix("state.")][2].tobytes()
            assert data == image[place.start : place.end], f"seed {seed}"


def image_of(run: SavedRun) -> bytes:
    """The staged image that a manifest describes, zero where nothing lies."""
    manifest = decode(run.newest, run.data)
    targets = [[np.zeros(leaf.nbytes, np.uint8)] for leaf in manifest.leaves]
    load(store_of(run.objects), manifest, targets)
    image = bytearray(max(place.end for place in manifest.places))
    for place, [target] in zip(manifest.places, targets, strict=True):
        image[place.start : place.end] = target.tobytes()
    return bytes(image)
