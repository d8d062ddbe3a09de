"""Manifests whose hash is right and whose content cannot be."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.format.envelope import digest_of
from outlast.checkpoint.runs.catalog import manifest_names
from outlast.storage import open_store
from outlast.storage.memory import MemoryStore
from tests.unit.checkpoint.stores import NEVER, memory_url

Body = dict[str, Any]
Change = Callable[[Body], None]

MIB = 1024**2
ROW = np.dtype([("a", "<f4"), ("b", "<i8", (2,))])


def state_at(step: int) -> dict[str, Any]:
    """Leaves of every kind: large, small, empty, structured; and plain values of every kind."""
    return {
        "large": np.full(5 * MIB // 8, step, np.float64),
        "small": np.arange(10, dtype=np.int32) + step,
        "tiny": np.full((), step, np.float16),
        "empty": np.empty((0, 3)),
        "rows": np.full(3, step, ROW),
        "step": step,
        "plain": {
            "tuple": (1, ("x", None)),
            "set": {1, 2},
            "frozen": frozenset({"a"}),
            "int": 2**70,
            "nan": float("inf"),
            "complex": 1 + 2j,
            "bytes": b"abc",
            "bytearray": bytearray(b"abc"),
            "scalar": np.float32(2.5),
            (1, "key"): [True, 0.5],
        },
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other)) and one.dtype == other.dtype
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def saved_run() -> dict[str, bytes]:
    """The objects of a run with checkpoints of the steps 1 and 2."""
    url = memory_url()
    state = state_at(0)
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        for step in (1, 2):
            state.update(state_at(step))
            checkpointer.save(step)
            checkpointer.wait()
    store = open_store(url)
    return {entry.name: store.read(entry.name) for entry in store.list()}


def newest_of(objects: dict[str, bytes]) -> str:
    return manifest_names(store_of(objects))[0]


def store_of(objects: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for name, data in objects.items():
        store.create(name, [data])
    return store


def url_of(objects: dict[str, bytes]) -> str:
    """The address of a new store that holds these objects."""
    url = memory_url()
    store = open_store(url)
    for name, data in objects.items():
        store.create(name, [data])
    return url


def body_of(data: bytes) -> Body:
    body: Body = json.loads(data.partition(b"\n")[2])
    return body


def headed(body: bytes, **others: object) -> bytes:
    """A body behind a first line that vouches for it."""
    head = {"outlast": 1, "length": len(body), "xxh3_128": digest_of(body), **others}
    return json.dumps(head).encode() + b"\n" + body


def changed(data: bytes, change: Change) -> bytes:
    body = body_of(data)
    change(body)
    return headed(json.dumps(body).encode())


def put(key: str, value: object) -> Change:
    return lambda body: body.__setitem__(key, value)


def drop(key: str) -> Change:
    return lambda body: body.__delitem__(key)


def leaf(path: str, column: int, value: object) -> Change:
    """Change one column of a leaf: 0 path, 1 library, 2 dtype, 3 shape, 4 start, 5 length."""

    def change(body: Body) -> None:
        [row] = [row for row in body["leaves"] if row[0] == f"state.{path}"]
        row[column] = value(row) if callable(value) else value

    return change


def chunk(column: int, value: object, which: int = 0) -> Change:
    """Change one column of a chunk: 0 start, 1 length, 2 digest, 3 copies."""

    def change(body: Body) -> None:
        row = body["chunks"][which]
        row[column] = value(row) if callable(value) else value

    return change


def node(value: object, key: str = "step") -> Change:
    """Replace the node of a value of the state."""

    def change(body: Body) -> None:
        [state] = [item for name, item in body["root"]["d"] if name == "state"]
        for pair in state["d"]:
            if pair[0] == key:
                pair[1] = value

    return change


def nested(levels: int) -> object:
    inner: object = 1
    for _ in range(levels):
        inner = {"l": [inner]}
    return inner


def deep_tuple(levels: int) -> object:
    inner: object = 1
    for _ in range(levels):
        inner = {"t": [inner]}
    return inner


def both(*changes: Change) -> Change:
    def change(body: Body) -> None:
        for one in changes:
            one(body)

    return change


def split_large(body: Body) -> None:
    """Leave the second half of a large chunk to nobody."""
    row = max(body["chunks"], key=lambda row: row[1])
    row[1] //= 2


def overlap(body: Body) -> None:
    one, two = sorted(row for row in body["chunks"] if row[1] >= MIB)
    two[0] = one[0] + MIB


def overlap_places(body: Body) -> None:
    rows = {row[0]: row for row in body["leaves"]}
    rows["state.rows"][4] = rows["state.small"][4]


def double_chunk(body: Body) -> None:
    body["chunks"].append(list(body["chunks"][0]))


def stray_chunk(body: Body) -> None:
    row = list(body["chunks"][0])
    row[0] = 2**40
    body["chunks"].append(row)


def other_digest_length(body: Body) -> None:
    one, two = sorted(body["chunks"], key=lambda row: row[1])[-2:]
    if one[1] == two[1]:
        one = min(body["chunks"], key=lambda row: row[1])
    one[2] = two[2]


def double_key(body: Body) -> None:
    body["root"]["d"].append(list(body["root"]["d"][0]))


def forget_leaf(body: Body) -> None:
    """Take a leaf out of the tree, but leave it among the leaves."""
    node(None, "small")(body)


def huge(row: list[Any]) -> list[int]:
    return [2**62, 2**62]


CHANGES: dict[str, Change] = {
    # The numbers of the checkpoint
    "step missing": drop("step"),
    "step bool": put("step", True),
    "step float": put("step", 2.0),
    "step text": put("step", "2"),
    "step null": put("step", None),
    "step negative": put("step", -2),
    "step huge": put("step", 10**12),
    "step of another name": put("step", 3),
    "attempt missing": drop("attempt"),
    "attempt bool": put("attempt", True),
    "attempt float": put("attempt", 1.0),
    "attempt huge": put("attempt", 10**6),
    "attempt list": put("attempt", [1]),
    "number negative": put("number", -1),
    "number float": put("number", 0.0),
    "number of another name": put("number", 7),
    "new_bytes missing": drop("new_bytes"),
    "new_bytes negative": put("new_bytes", -1),
    "new_bytes float": put("new_bytes", 1e300),
    "new_bytes above all bytes": put("new_bytes", 2**50),
    "world_size missing": drop("world_size"),
    "world_size 2": put("world_size", 2),
    "world_size bool": put("world_size", True),
    "world_size text": put("world_size", "1"),
    # Identity and time
    "save_id missing": drop("save_id"),
    "save_id number": put("save_id", 5),
    "save_id long": put("save_id", "a" * 1000),
    "parent number": put("parent", 5),
    "parent path": put("parent", "../../etc/passwd"),
    "parent a pack": put("parent", f"packs/000001-{'0' * 32}.pack"),
    "created missing": drop("created"),
    "created number": put("created", 1750000000),
    "created without zone": put("created", "2026-01-01T00:00:00"),
    "created no date": put("created", "yesterday"),
    "created year 1": put("created", "0001-01-01T00:00:00+23:00"),
    "created year 9999": put("created", "9999-12-31T23:59:59-23:00"),
    # Packs
    "packs missing": drop("packs"),
    "packs null": put("packs", None),
    "packs a text": put("packs", "packs"),
    "packs a dict": lambda body: body.update(packs=dict.fromkeys(body["packs"], 1)),
    "pack leads out": lambda body: body["packs"].__setitem__(0, "packs/../../x.pack"),
    "pack absolute": lambda body: body["packs"].__setitem__(0, "/etc/passwd"),
    "pack a number": lambda body: body["packs"].__setitem__(0, 5),
    "pack twice": lambda body: body["packs"].append(body["packs"][0]),
    "pack unused": lambda body: body["packs"].append(f"packs/000001-{'0' * 32}.pack"),
    # Chunks
    "chunks missing": drop("chunks"),
    "chunks empty": put("chunks", []),
    "chunks a dict": put("chunks", {"a": 1}),
    "chunk missing": lambda body: body["chunks"].pop(),
    "first chunk missing": lambda body: body["chunks"].pop(0),
    "chunk twice": double_chunk,
    "chunk of no leaf": stray_chunk,
    "chunk a text": lambda body: body["chunks"].append("abcd"),
    "chunk too short a row": lambda body: body["chunks"][0].pop(),
    "chunk too long a row": lambda body: body["chunks"][0].append(1),
    "chunk overlaps": overlap,
    "chunk halved": split_large,
    "chunk length zero": chunk(1, 0),
    "chunk length negative": chunk(1, -4096),
    "chunk length bool": chunk(1, True),
    "chunk length float": chunk(1, lambda row: float(row[1])),
    "chunk length text": chunk(1, "4096"),
    "chunk length null": chunk(1, None),
    "chunk length huge": chunk(1, 2**70),
    "chunk length larger than a chunk": chunk(1, 2**40, -1),
    "chunk start negative": chunk(0, -4096),
    "chunk start huge": chunk(0, 2**80),
    "chunk longer than its leaves": chunk(1, lambda row: row[1] + 64, -1),
    "chunk earlier than its leaves": both(
        chunk(0, lambda row: row[0] - 64, -2), chunk(1, lambda row: row[1] + 64, -2)
    ),
    "chunk start moved": chunk(0, lambda row: row[0] + 64),
    "digest short": chunk(2, "ab"),
    "digest upper case": chunk(2, lambda row: row[2].upper() + "A" * (row[2].isdigit())),
    "digest number": chunk(2, 5),
    "digest null": chunk(2, None),
    "digest of two lengths": other_digest_length,
    "copies empty": chunk(3, []),
    "copies null": chunk(3, None),
    "copies a text": chunk(3, "ab"),
    "copies twice": chunk(3, lambda row: row[3] * 2),
    "copy of three": chunk(3, [[0, 0, 0]]),
    "copy a number": chunk(3, [0]),
    "copy pack negative": chunk(3, [[-1, 0]]),
    "copy pack out of range": chunk(3, [[10**6, 0]]),
    "copy pack bool": chunk(3, lambda row: [[bool(row[3][0][0]), row[3][0][1]]]),
    "copy offset negative": chunk(3, lambda row: [[row[3][0][0], -4096]]),
    "copy offset unaligned": chunk(3, lambda row: [[row[3][0][0], 1]]),
    "copy offset float": chunk(3, lambda row: [[row[3][0][0], 0.0]]),
    "copy offset huge": chunk(3, lambda row: [[row[3][0][0], 2**70]]),
    # Leaves
    "leaves missing": drop("leaves"),
    "leaves empty": put("leaves", []),
    "leaves null": put("leaves", None),
    "leaf missing": lambda body: body["leaves"].pop(),
    "leaf a text": lambda body: body["leaves"].__setitem__(0, "abcdef"),
    "leaf too short a row": lambda body: body["leaves"][0].pop(),
    "leaf too long a row": lambda body: body["leaves"][0].append(0),
    "leaf path number": leaf("small", 0, 5),
    "leaf library unknown": leaf("small", 1, "tensorflow"),
    "leaf library number": leaf("small", 1, 1),
    "leaf library of another": leaf("small", 1, "torch"),
    "leaf dtype unknown": leaf("small", 2, "<x4"),
    "leaf dtype object": leaf("small", 2, "|O"),
    "leaf dtype larger": leaf("small", 2, "<i8"),
    "leaf dtype smaller": leaf("small", 2, "<i2"),
    "leaf dtype number": leaf("small", 2, 4),
    "leaf dtype not as written": leaf("small", 2, "int32"),
    "leaf dtype structured object": leaf("small", 2, "[('a', '|O')]"),
    "leaf dtype code": leaf("small", 2, "[__import__('os').abort()]"),
    "leaf dtype nested": leaf("small", 2, "[" * 5000),
    "leaf dtype huge": leaf("small", 2, "|V99999999999999999999"),
    "leaf shape text": leaf("small", 3, "abc"),
    "leaf shape null": leaf("small", 3, None),
    "leaf shape negative": leaf("small", 3, [-10, -1]),
    "leaf shape minus one": leaf("small", 3, [-1]),
    "leaf shape bool": leaf("tiny", 3, [True]),
    "leaf shape float": leaf("small", 3, [10.0]),
    "leaf shape wrong": leaf("small", 3, [11]),
    "leaf shape huge": leaf("small", 3, huge),
    "leaf shape huge and empty": leaf("empty", 3, [0, 2**62, 2**62]),
    "leaf shape of many axes": leaf("tiny", 3, [1] * 10_000),
    "leaf start negative": leaf("small", 4, -64),
    "leaf start beyond": leaf("small", 4, 2**50),
    "leaf start huge": leaf("small", 4, 2**64),
    "leaf start shifted": leaf("small", 4, lambda row: row[4] + 1),
    "leaf start within the gap": leaf("tiny", 4, lambda row: row[4] + 32),
    "leaf start float": leaf("small", 4, 0.5),
    "leaf length negative": leaf("small", 5, -1),
    "leaf length shorter": leaf("small", 5, lambda row: row[5] - 4),
    "leaf length longer": leaf("large", 5, lambda row: row[5] + 8),
    "leaf length and shape longer": both(leaf("tiny", 5, 2**40), leaf("tiny", 3, [2**39])),
    "leaf length huge": leaf("large", 5, 2**62),
    "leaf length bool": leaf("tiny", 5, True),
    "leaves overlap": overlap_places,
    # The tree
    "root missing": drop("root"),
    "root null": put("root", None),
    "root a number": put("root", 5),
    "root a list": put("root", []),
    "root no node": put("root", {}),
    "root two kinds": lambda body: body["root"].update(l=[]),
    "root not a dict": lambda body: body.update(root={"l": [body["root"]]}),
    "root key twice": double_key,
    "node of unknown kind": node({"zz": 1}),
    "node without a kind": node({}),
    "node of two kinds": node({"i": "0x1", "f": "nan"}),
    "node a bare list": node([1, 2]),
    "node a large number": node(2**200),
    "node nested deeply": node(nested(250)),
    "node index negative": node({"a": -1}, "small"),
    "node index out of range": node({"a": 10**6}),
    "node index float": node({"a": 0.0}, "small"),
    "node index bool": node({"a": True}),
    "node index text": node({"a": "0"}, "small"),
    "leaf of no node": forget_leaf,
    "node dict of numbers": node({"d": 5}),
    "node dict of short pairs": node({"d": [["a"]]}),
    "node dict of texts": node({"d": ["ab"]}),
    "node dict with a list as key": node({"d": [[{"l": []}, 1]]}),
    "node dict with an array as key": node({"d": [[{"a": 0}, 1]]}),
    "node dict with equal keys": node({"d": [[1, 1], [True, 2]]}),
    "node list of text": node({"l": "abc"}),
    "node tuple of text": node({"t": "abc"}),
    "node set of lists": node({"s": [{"l": []}]}),
    "node set of arrays": node({"s": [{"a": 0}]}),
    "node int no hex": node({"i": "zz"}),
    "node int number": node({"i": 5}),
    "node float text": node({"f": "three"}),
    "node float finite": node({"f": "1.5"}),
    "node complex short": node({"c": ["0x0p+0"]}),
    "node complex text": node({"c": ["one", "two"]}),
    "node bytes no base64": node({"b": "***"}),
    "node bytes number": node({"ba": 5}),
    "node scalar short": node({"n": ["<f4"]}),
    "node scalar of other size": node({"n": ["<f8", "AAAA"]}),
    "node scalar object": node({"n": ["|O", "AAAAAAAAAAA="]}),
    "node scalar unknown": node({"n": ["nonsense", "AAAA"]}),
    "node pickle number": node({"p": 5}),
    "node pytree text": node({"j": "abc"}),
    "node pytree short": node({"j": ["C", None]}),
    "node pytree without a name": node({"j": [5, None, []]}),
    "node pytree of bare children": node({"jo": ["C", None, [1]]}),
    "node pytree with a list as key": node({"j": ["C", None, [[["a"], 1]]]}),
    "node pytree with a bool as key": node({"j": ["C", None, [[True, 1]]]}),
    "node pytree with an array as static": node({"j": ["C", {"a": 0}, []]}),
    "node pytree with a list as static": node({"j": ["C", {"l": []}, []]}),
    "node pytree with a list in its static": node({"j": ["C", {"t": [{"l": []}]}, []]}),
    "node constant of an array": node({"k": {"t": [{"a": 0}]}}),
    "node constant of a reference": node({"k": {"r": 0}}),
    "node constant nested deeply": node({"k": deep_tuple(250)}),
    "node set of constants": node({"s": [{"k": None}]}),
    "trait key a number": node({"y": [{"key": 5}, {"l": []}]}),
    "trait weak a number": node({"y": [{"weak": 1}, {"l": []}]}),
}

_DEEP = b"[" * 100_000 + b"]" * 100_000


def texts(data: bytes) -> dict[str, bytes]:
    """Bodies that only text can make: JSON that says a thing twice, or what is no JSON."""
    body = data.partition(b"\n")[2]
    return {
        "key twice": headed(body.replace(b'"step":', b'"step":1,"step":', 1)),
        "key twice in a node": headed(body.replace(b'{"a":', b'{"a":0,"a":', 1)),
        "not a number": headed(body.replace(b'"new_bytes":', b'"new_bytes":NaN,"x":', 1)),
        "infinity": headed(body.replace(b'"new_bytes":', b'"x":Infinity,"new_bytes":', 1)),
        "infinity by exponent": headed(body.replace(b'"new_bytes":', b'"x":1e999,"new_bytes":', 1)),
        "nested without end": headed(body.replace(b'"root":', b'"x":' + _DEEP + b',"root":', 1)),
        "number without end": headed(
            body.replace(b'"new_bytes":', b'"x":' + b"9" * 10_000 + b',"new_bytes":', 1)
        ),
        "body a list": headed(b"[]"),
        "body a number": headed(b"5"),
        "body null": headed(b"null"),
        "body empty": headed(b""),
        "body no text": headed(b"\xff\xfe{}"),
        "body and more": headed(body + b"{}"),
        "head a list": b"[]\n" + body,
        "head nested": _DEEP + b"\n" + body,
        "head version bool": headed(body, outlast=True),
        "head version float": headed(body, outlast=1.0),
        "head version list": headed(body, outlast=[1]),
        "head length float": headed(body, length=float(len(body))),
        "head length text": headed(body, length="5"),
        "head digest number": headed(body, xxh3_128=5),
        "head twice": b'{"outlast":2,' + headed(body)[1:],
        "no head": body,
        "nothing": b"",
    }


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A manifest with one to three things in its JSON changed, and a hash that is right again.

    The values of the random generators stay: what is a state of a generator only it can tell.
    """
    body: Any = body_of(data)
    pairs = body["root"]["d"]
    at = next(number for number, pair in enumerate(pairs) if pair[0] == "random")
    generators = pairs.pop(at)
    for _ in range(chance.choice((1, 1, 2, 3))):
        holder, key = chance.choice(list(_slots(body)))
        holder[key] = _other(holder[key], chance, body)
    pairs.insert(at, generators)
    return headed(json.dumps(body).encode())


def _slots(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value where something can be put. Long lists are only sampled."""
    items = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
    for key, item in items[:40]:
        yield node, key
        if isinstance(item, dict | list):
            yield from _slots(item)


def _other(value: Any, chance: random.Random, body: Any) -> Any:
    near = [value + 1, value - 1, -value, value * 2, value + 64] if type(value) is int else []
    odd = (None, True, False, 0, 1, -1, 0.5, 1e308, 2**31, 2**63, 2**64, 10**30, "", "x", "a" * 99)
    whole: tuple[Any, ...] = (
        [],
        {},
        [[]],
        {"a": 0},
        {"l": []},
        {"zz": 1},
        [1, 2],
        [0, 1, "x", []],
        "\ud800",
    )
    return chance.choice(
        (*near, *near, *odd, *whole, copy.deepcopy(chance.choice(list(body.values()))))
    )
