"""What the protocol between ranks costs per key, array and chunk.

docs/explanation/ranks.md works out a large job from these. torch has to be installed for the
interpreter that measures: OUTLAST_BENCH_PYTHON, or else the one that runs this. Its `TCPStore` runs
in a process of its own, over loopback. The sizes are those of a real save by two ranks, which are
threads here; per array and per chunk, they are differences between two saves.
"""

import json
import logging
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import Row, table

ROOT = Path(__file__).parents[1]
ARRAYS = 4_548
RANKS = 512
LARGE_BYTES = 256 * 1024
_CALLS = 300
_SERVER = """
import sys, torch.distributed as dist
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


def report(calls: int = _CALLS) -> str:
    python = os.environ.get("OUTLAST_BENCH_PYTHON") or sys.executable
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [python, "-m", "bench.rank_costs", str(calls)],
        stdout=subprocess.PIPE,
        text=True,
        env=environ,
        check=True,
    )
    return done.stdout


def measured(calls: int) -> str:
    return table("What the ranks exchange and write", [*store_rows(calls), *size_rows()])


def store_rows(calls: int) -> Iterator[Row]:
    from outlast.ranks.torch_channel import TorchChannel

    with _server() as store:
        channel = TorchChannel(store, "bench")
        small, large = b"x" * 64, b"x" * LARGE_BYTES
        keys = [f"done/{rank}" for rank in range(RANKS)]
        facts = json.dumps({"step": 812, "length": 1_234_567, "digest": "0" * 32}).encode()
        for key in keys:
            channel.set(key, facts)
        numbers = iter(range(10**9))
        actions: dict[str, Callable[[], object]] = {
            "`set` of a small value, confirmed": lambda: channel.set("small", small),
            "`get` of it": lambda: channel.get("small"),
            "`claim`": lambda: channel.claim(f"claim/{next(numbers)}", small),
            "`set` of 256 KiB": lambda: channel.set("large", large),
            "`get` of 256 KiB": lambda: channel.get("large"),
            f"waiting for {RANKS} keys that are set": lambda: channel.wait(keys, 60.0),
        }
        for what, act in actions.items():
            yield Row(what, _shown(_seconds(act, calls)), "torch's TCPStore over loopback")
        reading = _seconds(lambda: [json.loads(channel.get(key) or b"") for key in keys], 15)
        yield Row(f"reading {RANKS} reports", _shown(reading), "torch's TCPStore over loopback")
        channel.close()


def size_rows() -> Iterator[Row]:
    from outlast.checkpoint.format.encoding import decode_part
    from outlast.checkpoint.saving.group_committing import _check_cover

    few, many = _saved(ARRAYS // 2), _saved(ARRAYS)
    arrays = ARRAYS - ARRAYS // 2
    hashes = _hashes_bytes(many.done) - _hashes_bytes(few.done)
    message = len(many.done) - len(few.done) - hashes
    yield Row("a first message, per divided array", f"{message / arrays:.0f} B", "")
    yield Row("the same, per replicated array that is compared", f"{hashes / arrays:.0f} B", "")
    later = len(many.later)
    yield Row("a later message", f"{later} B", "the same arrays")
    yield Row("a part, per array", f"{(len(many.part) - len(few.part)) / arrays:.0f} B", "")
    small, large = _saved(1, elements=2**24), _saved(1, elements=2**26)
    chunks = large.chunks - small.chunks
    grown = len(large.part) - len(small.part)
    yield Row("a part, per chunk of 4 MiB", f"{grown / chunks:.0f} B", f"{chunks} more chunks")
    yield from _root_rows()
    seconds = _seconds(lambda: decode_part(many.name, many.part, world_size=2), 15)
    yield Row(f"reading and validating a part with {ARRAYS:,} arrays", _shown(seconds), "")
    messages = [many.done] * RANKS
    parsing = _seconds(lambda: [json.loads(one) for one in messages], 3)
    against = f"{RANKS} messages of {ARRAYS:,} arrays each"
    yield Row("rank 0: parsing all first messages", _shown(parsing), against)
    rows = [json.loads(one)["rows"] for one in messages]
    for own in rows:
        for row in own:
            # Each rank has saved its share.
            row[2] = row[1] // RANKS
            row[1] = row[2] * RANKS
    yield Row("rank 0: checking them", _shown(_seconds(lambda: _check_cover(rows), 3)), against)


class _Saved(NamedTuple):
    """What rank 0 published at its first and second save, and its part of the second."""

    done: bytes
    later: bytes
    name: str
    part: bytes
    chunks: int


def _saved(arrays: int, *, elements: int = 128) -> _Saved:
    """A state that all ranks have alike, saved twice by two ranks."""
    import torch

    import outlast
    from outlast.checkpoint import session
    from outlast.checkpoint.checkpointer import Checkpointer
    from outlast.checkpoint.format.encoding import decode_part
    from outlast.checkpoint.ranks import RankGroup
    from outlast.ranks.memory import MemoryChannels
    from outlast.ranks.world import World
    from outlast.storage import open_store

    channels, local = MemoryChannels(), threading.local()
    url = f"memory://rank-costs-{arrays}-{elements}"

    def one(rank: int) -> None:
        local.group = RankGroup(World(rank=rank, size=2, library="torch"), channels.open())
        # Different bytes, so that no chunk is stored once for several.
        state: dict[str, Any] = {
            f"layers.{number // 9}.attention.projection_{number % 9}.weight": outlast.replicated(
                torch.arange(elements, dtype=torch.float32) % 1_000_003 + number
            )
            for number in range(arrays)
        }
        with Checkpointer(url, state, every_steps=10**9) as checkpointer:
            checkpointer.resume()
            for step in (1, 2):
                for tensor in state.values():
                    tensor += 1
                checkpointer.save(step)
                checkpointer.wait()

    # Each thread is a rank here.
    setattr(session, "current_group", lambda: getattr(local, "group", None))  # noqa: B010
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, range(2)))
    values = channels._store.values  # noqa: SLF001 - the messages themselves are measured
    store = open_store(url)
    name = sorted(info.name for info in store.list("parts/") if info.name.endswith("/00000.json"))[
        -1
    ]
    part = bytes(store.read(name))
    chunks = len(decode_part(name, part, world_size=2).chunks)
    return _Saved(values["done/0/0"], values["done/1/0"], name, part, chunks)


def _hashes_bytes(message: bytes) -> int:
    found = json.loads(message)
    return len(json.dumps(found.get("hashes", []), separators=(",", ":")))


def _root_rows() -> Iterator[Row]:
    from outlast.checkpoint.format.keys import PLAIN
    from outlast.checkpoint.format.root import PartEntry, RootManifest, encode_root

    def length(ranks: int, packs: int) -> int:
        names = (f"packs/000007-{number:032x}.pack" for number in range(packs))
        root = RootManifest(
            step=12_500,
            attempt=7,
            save=0,
            save_id="0" * 32,
            parent=None,
            created=datetime.now(UTC),
            parts=(PartEntry(length=1_234_567, digest="0" * 32),) * ranks,
            data_packs=tuple(names),
            size_bytes=10**13,
            new_bytes=10**13,
            hashing=PLAIN,
            run_id=None,
        )
        return len(encode_root(root))

    per_rank = (length(1024, 8) - length(512, 8)) / 512
    per_pack = (length(8, 1024) - length(8, 512)) / 512
    yield Row("the root, per rank", f"{per_rank:.0f} B", "")
    yield Row("the root, per pack", f"{per_pack:.0f} B", "")


@contextmanager
def _server() -> Iterator[Any]:
    from torch._C._distributed_c10d import TCPStore

    command = [sys.executable, "-c", _SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        yield TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
        process.kill()


def _seconds(act: Callable[[], object], times: int) -> float:
    """The median."""
    seen = []
    for _ in range(times):
        started = time.perf_counter()
        act()
        seen.append(time.perf_counter() - started)
    return statistics.median(seen)


def _shown(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2g} ms" if seconds < 0.1 else f"{seconds:.2g} s"


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(measured(int(sys.argv[1])))
