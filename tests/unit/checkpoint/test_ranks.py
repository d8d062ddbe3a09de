"""The parts of a checkpoint that several ranks have saved, and which of them are refused."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format.encoding import decode, decode_part, encode
from outlast.checkpoint.format.envelope import digest_of
from outlast.checkpoint.format.manifest import CheckpointManifest
from outlast.checkpoint.ranks import current_group
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.checkpoint.state.shards import Shard
from outlast.ranks.errors import RanksNotReady
from outlast.storage import open_store
from tests.unit.checkpoint.stores import memory_url, saved


@pytest.fixture
def manifest() -> CheckpointManifest:
    url = memory_url()
    saved(url, {"x": np.zeros((2, 3)), "y": np.zeros(4)})
    store = open_store(url)
    found = read_manifest(store, manifest_names(store)[0])
    assert isinstance(found, CheckpointManifest)
    return found


def sharded(manifest: CheckpointManifest, **shards: Shard) -> CheckpointManifest:
    leaves = tuple(
        replace(leaf, shard=shards.get(leaf.path.removeprefix("state.")))
        for leaf in manifest.leaves
    )
    return replace(manifest, leaves=leaves, world_size=4, rank=1)


def with_shards(data: bytes, rows: Any) -> bytes:
    """The manifest with other rows for its shards, and a right hash."""
    body = json.dumps(json.loads(data.partition(b"\n")[2]) | {"shards": rows}).encode()
    head = {"outlast": 1, "length": len(body), "xxh3_128": digest_of(body)}
    return json.dumps(head).encode() + b"\n" + body


def test_one_process_is_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in ("", "1"):
        monkeypatch.setenv("WORLD_SIZE", size)
        assert current_group() is None
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(RanksNotReady, match="WORLD_SIZE is 8"):
        current_group()


def test_a_checkpoint_of_one_process_has_no_shards(manifest: CheckpointManifest) -> None:
    assert manifest.world_size == 1
    assert all(leaf.shard is None for leaf in manifest.leaves)
    assert b"shards" not in encode(manifest)


def test_world_size_and_offsets_are_read_back(manifest: CheckpointManifest) -> None:
    written = sharded(
        manifest,
        x=Shard(global_shape=(8, 3), offsets=(6, 0)),
        y=Shard(global_shape=(5, 4), offsets=(16,), is_flat=True),
    )

    found = decode_part(written.name, encode(written), world_size=4)

    assert found == written


def test_a_part_is_refused_as_a_checkpoint(manifest: CheckpointManifest) -> None:
    part = sharded(manifest)

    with pytest.raises(CheckpointCorrupt, match="saved by 4 ranks instead of 1"):
        decode(part.name, encode(part))
    with pytest.raises(CheckpointCorrupt, match="saved by 4 ranks instead of 3"):
        decode_part(part.name, encode(part), world_size=3)
    with pytest.raises(CheckpointCorrupt, match="contains the manifest of"):
        decode_part(replace(part, rank=2).name, encode(part), world_size=4)


def test_shards_in_a_checkpoint_of_one_process_are_refused(manifest: CheckpointManifest) -> None:
    data = with_shards(encode(manifest), [[0, "box", [8, 3], [6, 0]]])

    with pytest.raises(CheckpointCorrupt, match="shards of arrays, but was saved by one rank"):
        decode(manifest.name, data)


@pytest.mark.parametrize(
    "rows",
    [
        None,
        {},
        [[0, "box", [8, 3]]],
        [["0", "box", [8, 3], [0, 0]]],
        [[10**6, "box", [8, 3], [0, 0]]],
        [[-1, "box", [8, 3], [0, 0]]],
        [[0, "box", [8, 3], [7, 0]]],
        [[0, "box", [8, 3], [-1, 0]]],
        [[0, "box", [8, 3], [0.0, 0]]],
        [[0, "box", [8], [0]]],
        [[0, "box", "83", "00"]],
        [[0, "box", [8, True], [0, 0]]],
        [[0, "box", [1, 3], [0, 0]]],
        [[0, "box", [2**62, 3], [0, 0]]],
        [[0, "box", [8, 3], [0, 0]], [0, "box", [8, 3], [2, 0]]],
        [[0, "ring", [8, 3], [0, 0]]],
        [[0, None, [8, 3], [0, 0]]],
        [[0, "flat", [8, 3], [0]]],
        [[0, "flat", [8, 3], [0, 0]]],
    ],
    ids=str,
)
def test_impossible_shards_are_refused(manifest: CheckpointManifest, rows: Any) -> None:
    index = next(i for i, leaf in enumerate(manifest.leaves) if leaf.path == "state.x")
    if isinstance(rows, list):
        rows = [
            [index if row[0] == 0 and type(row[0]) is int else row[0], *row[1:]] for row in rows
        ]
    part = sharded(manifest)

    with pytest.raises(CheckpointCorrupt, match="is invalid"):
        decode_part(part.name, with_shards(encode(part), rows), world_size=4)
