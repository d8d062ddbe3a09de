"""Check the tables of a manifest: every byte of every array is in exactly one chunk.

Quick: 100,000 chunks take a fraction of a second. Raises `InvalidManifest`. Pure.
"""

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from outlast.checkpoint.format.dtype_sizes import item_bytes
from outlast.checkpoint.format.layout import ALIGNMENT_BYTES, BLOCK_BYTES, CHUNK_BYTES
from outlast.checkpoint.format.validation import (
    AXES_MAX,
    BYTES_MAX,
    DIGEST,
    InvalidManifest,
    checked_int,
    short,
)

# Far above what is written, and small enough that a few threads can hold one each.
CHUNK_BYTES_MAX = 16 * CHUNK_BYTES
COPIES_MAX = 16

_Spans = npt.NDArray[np.int64]
"""One row for each span: its start and its end."""


def check_leaves(rows: object) -> _Spans:
    """Check `[path, library, dtype, shape, start, length]` of every leaf; returns their places.

    Two leaves may have one path: `{"a.b": x, "a": {"b": y}}` is a state like any other.
    """
    paths, libraries, dtypes, shapes, starts, lengths = _columns(rows, 6, "leaf")
    for texts, what in ((paths, "path"), (libraries, "library"), (dtypes, "dtype")):
        _check_types(texts, str, f"the {what} of a leaf")
    _check_types(shapes, list, "the shape of a leaf")
    places = _spans(starts, lengths, "leaf")
    sizes: dict[tuple[str, str], int] = {}
    for path, library, dtype, shape, length in zip(
        paths, libraries, dtypes, shapes, lengths, strict=True
    ):
        if (library, dtype) not in sizes:
            sizes[library, dtype] = item_bytes(library, dtype)
        if _array_bytes(shape, sizes[library, dtype]) != length:
            raise InvalidManifest(
                f"{short(path)} has {length} bytes, which is not the size of a {library} array of "
                f"{short(dtype)} with the shape {short(shape)}"
            )
    _check_disjoint(places[places[:, 0] < places[:, 1]], "leaves")
    return places


def check_chunks(rows: object, packs: int) -> _Spans:
    """Check `[start, length, digest, [[pack, offset], ...]]` of all chunks; returns their spans."""
    starts, lengths, digests, copies = _columns(rows, 4, "chunk")
    spans = _spans(starts, lengths, "chunk")
    if lengths and not 0 < min(lengths) <= max(lengths) <= CHUNK_BYTES_MAX:
        raise InvalidManifest(f"the chunks have between {min(lengths)} and {max(lengths)} bytes")
    _check_disjoint(spans, "chunks")
    _check_types(digests, str, "the hash of a chunk")
    if not all(map(DIGEST.fullmatch, digests)):
        raise InvalidManifest("the hash of a chunk is not 32 hexadecimal digits")
    length_of = dict(zip(digests, lengths, strict=True))
    if tuple(map(length_of.get, digests)) != lengths:
        raise InvalidManifest("two chunks of different lengths have the same hash")
    _check_copies(copies, packs)
    return spans


def check_cover(places: _Spans, chunks: _Spans) -> None:
    """Check that every byte of every leaf is in a chunk, and that chunks hold only short gaps."""
    places = _sorted(places[places[:, 0] < places[:, 1]])
    chunks = _sorted(chunks)
    if not len(places) or not len(chunks):
        if len(places) or len(chunks):
            raise InvalidManifest("it has leaves without chunks, or chunks without leaves")
        return
    # Adjacent chunks form a run, and a leaf must be within one.
    is_first, is_last = _edges(np.cumsum(chunks[:, 0] > np.append(-1, chunks[:-1, 1])))
    runs_start, runs_end = chunks[is_first, 0], chunks[is_last, 1]
    run = np.searchsorted(runs_start, places[:, 0], side="right") - 1
    if run[0] < 0 or (places[:, 1] > runs_end[run]).any():
        raise InvalidManifest("some bytes of a leaf are not in any chunk")
    # What a run holds before, after and between its leaves. A leaf in a wrong place makes a gap.
    is_first, is_last = _edges(run)
    gaps = np.concatenate(
        [
            (places[1:, 0] - places[:-1, 1])[run[1:] == run[:-1]] // ALIGNMENT_BYTES,
            places[is_first, 0] - runs_start[run[is_first]],
            runs_end[run[is_last]] - places[is_last, 1],
            places[:, 0] % ALIGNMENT_BYTES,
        ]
    )
    if gaps.any():
        raise InvalidManifest("its leaves and chunks do not follow the layout")
    # The first leaf that ends after the chunk has begun must begin before the chunk has ended.
    leaf = np.searchsorted(places[:, 1], chunks[:, 0], side="right")
    if leaf[-1] == len(places) or (places[leaf, 0] >= chunks[:, 1]).any():
        raise InvalidManifest("a chunk contains no bytes of any leaf")


def check_shards(rows: object, leaves: list[Any]) -> None:
    """Check `[leaf index, kind, global shape, offsets]` of every shard: it is inside its array."""
    indices, kinds, shapes, offsets = _columns(rows, 4, "shard")
    for index in indices:
        checked_int(index, "the leaf of a shard", most=len(leaves) - 1)
    if len(set(indices)) != len(indices):
        raise InvalidManifest("a leaf is listed as a shard twice")
    for index, kind, shape, starts in zip(indices, kinds, shapes, offsets, strict=True):
        own = leaves[index][3]
        if kind not in ("box", "flat") or type(shape) is not list or type(starts) is not list:
            raise InvalidManifest(f"a shard is {short([kind, shape, starts])}")
        elements = _array_bytes(shape, 1)
        whole = [elements] if kind == "flat" else shape
        if not len(whole) == len(starts) == len(own):
            raise InvalidManifest(f"a shard has the shape {short(shape)} or offset {short(starts)}")
        for size, start, length in zip(whole, starts, own, strict=True):
            checked_int(start, "the offset of a shard", most=size - length)


def _columns(rows: object, width: int, what: str) -> Sequence[tuple[Any, ...]]:
    """The columns of a table. Each row must be a list of this many values."""
    if type(rows) is not list:
        raise InvalidManifest(f"its table of {what} rows is {short(rows)}")
    if not rows:
        return [()] * width
    if set(map(type, rows)) != {list} or set(map(len, rows)) != {width}:
        raise InvalidManifest(f"a {what} row does not have {width} values")
    return [tuple(map(itemgetter(column), rows)) for column in range(width)]


def _check_types(column: Sequence[Any], kind: type, what: str) -> None:
    if column and set(map(type, column)) != {kind}:
        odd = next(value for value in column if type(value) is not kind)
        raise InvalidManifest(f"{what} is {short(odd)}")


def _check_numbers(column: Sequence[Any], what: str) -> None:
    _check_types(column, int, what)
    if column and not 0 <= min(column) <= max(column) <= BYTES_MAX:
        raise InvalidManifest(f"{what} is out of range")


def _spans(starts: Sequence[Any], lengths: Sequence[Any], what: str) -> _Spans:
    _check_numbers(starts, f"the start of a {what}")
    _check_numbers(lengths, f"the length of a {what}")
    start = np.array(starts, np.int64)
    return np.stack([start, start + np.array(lengths, np.int64)], axis=1)


def _sorted(spans: _Spans) -> _Spans:
    return spans[np.argsort(spans[:, 0])]


def _check_disjoint(spans: _Spans, what: str) -> None:
    spans = _sorted(spans)
    if (spans[1:, 0] < spans[:-1, 1]).any():
        raise InvalidManifest(f"two {what} overlap")


def _edges(numbers: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Where each row of equal numbers begins, and where it ends."""
    changes = numbers[1:] != numbers[:-1]
    return np.append(True, changes), np.append(changes, True)


def _check_copies(copies: Sequence[Any], packs: int) -> None:
    _check_types(copies, list, "the list of the copies of a chunk")
    if copies and not 1 <= min(map(len, copies)) <= max(map(len, copies)) <= COPIES_MAX:
        raise InvalidManifest(f"a chunk has no copy, or more than {COPIES_MAX}")
    numbers, offsets = _columns(list(chain.from_iterable(copies)), 2, "copy")
    _check_numbers(numbers, "the pack of a copy")
    _check_numbers(offsets, "the offset of a copy")
    if set(numbers) != set(range(packs)):
        raise InvalidManifest("a copy is in a pack that is not listed, or a listed pack is unused")
    if (np.array(offsets, np.int64) % BLOCK_BYTES).any():
        raise InvalidManifest("the offset of a copy is not the start of a block")
    if any(
        several[number] in several[:number]
        for several in copies
        for number in range(1, len(several))
    ):
        raise InvalidManifest("a chunk lists the same copy twice")


def _array_bytes(shape: list[Any], item_bytes: int) -> int:
    if len(shape) > AXES_MAX:
        raise InvalidManifest(f"a leaf has {len(shape)} axes")
    # Even an empty array must not have axes that no memory could hold.
    total = nonzero = item_bytes
    for size in shape:
        total *= checked_int(size, "an axis of a leaf", most=BYTES_MAX)
        nonzero *= max(1, size)
        if nonzero > BYTES_MAX:
            raise InvalidManifest(f"the shape of a leaf is {short(shape)}")
    return total
