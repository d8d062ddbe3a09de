"""The format has room for several ranks; for now, one process reads and writes it."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError
from outlast.checkpoint.format.encoding import decode, encode
from outlast.checkpoint.format.manifest import CheckpointManifest, Shard, digest_of
from outlast.checkpoint.ranks import SingleProcess, current_group
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import open_store
from tests.unit.checkpoint.stores import memory_url, saved


@pytest.fixture
def manifest() -> CheckpointManifest:
    url = memory_url()
    saved(url, {"x": np.zeros((2, 3)), "y": np.zeros(4)})
    store = open_store(url)
    return read_manifest(store, manifest_names(store)[0])


def sharded(manifest: CheckpointManifest, **shards: Shard) -> CheckpointManifest:
    leaves = tuple(
        replace(leaf, shard=shards.get(leaf.path.removeprefix("state.")))
        for leaf in manifest.leaves
    )
    return replace(manifest, leaves=leaves, world_size=4)


def with_shards(data: bytes, rows: Any) -> bytes:
    """The manifest with other rows for its shards, and a right hash."""
    body = json.dumps(json.loads(data.partition(b"\n")[2]) | {"shards": rows}).encode()
    head = {"outlast": 1, "length": len(body), "xxh3_128": digest_of(body)}
    return json.dumps(head).encode() + b"\n" + body


def test_one_process_is_a_group_of_its_own() -> None:
    for environ in ({}, {"WORLD_SIZE": "1"}, {"WORLD_SIZE": ""}):
        assert current_group(environ) == SingleProcess(rank=0, size=1)
    with pytest.raises(CheckpointError, match="WORLD_SIZE is 8"):
        current_group({"WORLD_SIZE": "8"})


def test_a_checkpoint_of_one_process_has_no_shards(manifest: CheckpointManifest) -> None:
    assert manifest.world_size == 1
    assert all(leaf.shard is None for leaf in manifest.leaves)
    assert b"shards" not in encode(manifest)


def test_world_size_and_offsets_are_read_back(manifest: CheckpointManifest) -> None:
    written = sharded(manifest, x=Shard(global_shape=(8, 3), offsets=(6, 0)))

    found = decode(manifest.name, encode(written), world_size=4)

    assert found == written


def test_a_checkpoint_of_several_ranks_is_refused_by_one_process(
    manifest: CheckpointManifest,
) -> None:
    data = encode(sharded(manifest))

    with pytest.raises(CheckpointCorrupt, match="saved by 4 ranks instead of 1"):
        decode(manifest.name, data)


def test_shards_in_a_checkpoint_of_one_process_are_refused(manifest: CheckpointManifest) -> None:
    data = with_shards(encode(manifest), [[0, [8, 3], [6, 0]]])

    with pytest.raises(CheckpointCorrupt, match="shards of arrays, but was saved by one rank"):
        decode(manifest.name, data)


@pytest.mark.parametrize(
    "rows",
    [
        None,
        {},
        [[0, [8, 3]]],
        [["0", [8, 3], [0, 0]]],
        [[10**6, [8, 3], [0, 0]]],
        [[-1, [8, 3], [0, 0]]],
        [[0, [8, 3], [7, 0]]],
        [[0, [8, 3], [-1, 0]]],
        [[0, [8, 3], [0.0, 0]]],
        [[0, [8], [0]]],
        [[0, "83", "00"]],
        [[0, [8, True], [0, 0]]],
        [[0, [1, 3], [0, 0]]],
        [[0, [2**62, 3], [0, 0]]],
        [[0, [8, 3], [0, 0]], [0, [8, 3], [2, 0]]],
    ],
    ids=str,
)
def test_impossible_shards_are_refused(manifest: CheckpointManifest, rows: Any) -> None:
    index = next(i for i, leaf in enumerate(manifest.leaves) if leaf.path == "state.x")
    if isinstance(rows, list):
        rows = [
            [index if row[0] == 0 and type(row[0]) is int else row[0], *row[1:]] for row in rows
        ]

    with pytest.raises(CheckpointCorrupt, match="is invalid"):
        decode(manifest.name, with_shards(encode(sharded(manifest)), rows), world_size=4)
