"""Damage of every kind to every kind of file of a run, and what must hold then."""

import contextlib
import os
import random
import re
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.restoring.inspection import compare, find, summaries
from outlast.checkpoint.runs.catalog import has_committed, manifest_names
from outlast.errors import OutlastError
from outlast.storage.local.store import LocalStore
from tests.unit.checkpoint.crafted import headed, mutated

STEPS = (1, 2, 3)
NEVER = 10**9

CASE_SECONDS_MAX = 120.0
# Below the size of the largest files made here, so that reading one completely fails at once.
CASE_MEMORY_BYTES_MAX = 4 * 1024**3


def state_at(step: int) -> dict[str, Any]:
    return {
        "frozen": np.arange(9000.0),
        "large": np.full(9000, step, float),
        "small": np.full(7, step, np.int32),
        "step": step,
    }


def make_run(url: Path) -> None:
    """A run with three checkpoints."""
    state = state_at(0)
    with Checkpointer(url, state, every_steps=NEVER) as saving:
        saving.resume()
        for step in STEPS:
            state.update(state_at(step))
            saving.save(step)


def endure(origin: Path, folder: Path, seed: int) -> None:
    """Damage a copy of the run, look into it and resume it. Raises `AssertionError` if fooled."""
    chance = random.Random(seed)
    run, outside = folder / f"run-{seed}", folder / f"outside-{seed}"
    shutil.copytree(origin, run)
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    before = _snapshot(outside)
    rewritten = [_damage(run, outside, chance) for _ in range(chance.choice((1, 1, 2, 4)))]
    try:
        with bounded(CASE_SECONDS_MAX, CASE_MEMORY_BYTES_MAX):
            _look(run)
            _resume(run, plain_too=not any(rewritten))
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    assert _snapshot(outside) == before, f"seed {seed}: changed what is outside"
    # A journal that failed may still be trying to write.
    shutil.rmtree(run, ignore_errors=True)
    shutil.rmtree(outside)


@contextlib.contextmanager
def bounded(seconds_max: float, memory_bytes_max: int) -> Iterator[None]:
    """Raise `TimeoutError` after some time, and `MemoryError` beyond so much more memory."""

    def too_late(*_: object) -> None:
        raise TimeoutError(f"It took longer than {seconds_max:g} s.")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, too_late)
    started = time.monotonic()
    # The timer may belong to the timeout of the whole test, which goes on afterwards.
    outer_seconds, _ = signal.setitimer(signal.ITIMER_REAL, seconds_max)
    limit = pages * resource.getpagesize() + memory_bytes_max
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)
        left = outer_seconds - (time.monotonic() - started)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, left) if outer_seconds else 0)


def _damage(run: Path, outside: Path, chance: random.Random) -> bool:
    """Damage one file or folder; whether it was a manifest that got a right hash again."""
    kind = chance.choice(("manifests", "manifests", "packs", "attempts", "journal", "folder"))
    if kind == "folder":
        # Also the marks that show that the run has saved.
        path = chance.choice(sorted(run.iterdir()))
        is_file = _is_small_file(path)
        chance.choice(_WAYS if is_file else (_replace,))(path, outside, chance)
        return False
    files = sorted(path for path in (run / kind).glob("*") if _is_small_file(path))
    if not files or (run / kind).is_symlink():
        return False
    path = chance.choice(files)
    if kind == "manifests" and not path.name.endswith("~sealed") and chance.random() < 0.5:
        try:
            path.write_bytes(mutated(path.read_bytes(), chance))
        except (ValueError, LookupError, TypeError, AttributeError):
            return False  # it was garbled before
        return True
    if kind == "journal" and chance.random() < 0.5:
        _exaggerate(path, chance)
    else:
        chance.choice(_WAYS)(path, outside, chance)
    return False


def _is_small_file(path: Path) -> bool:
    return not path.is_symlink() and path.is_file() and path.stat().st_size < 2**24


def _flip(path: Path, outside: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 8)) if data else 0):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _cut(path: Path, outside: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size + 1))


def _garble(path: Path, outside: Path, chance: random.Random) -> None:
    data = chance.choice((b"", b"\n", b"[" * 9999, headed(b"{}"), chance.randbytes(300)))
    path.write_bytes(data)


def _exaggerate(path: Path, chance: random.Random) -> None:
    """Put something absurd in the place of some numbers."""
    absurd = (b"1e308", b"-1e308", b"-1", b"9" * 400, b"0", b"true", b"null", b"NaN", b'"Infinity"')
    data = re.sub(
        rb'(?<=":)[0-9][0-9.e+-]*',
        lambda match: chance.choice(absurd) if chance.random() < 0.3 else match[0],
        path.read_bytes(),
    )
    path.write_bytes(data)


def _extend(path: Path, outside: Path, chance: random.Random) -> None:
    os.truncate(path, path.stat().st_size + chance.choice((1, 64, 2**20, 2**33)))


def _swap(path: Path, outside: Path, chance: random.Random) -> None:
    """Put the bytes of another file of the run here."""
    others = sorted(other for other in path.parents[1].glob("*/*") if _is_small_file(other))
    path.write_bytes(chance.choice(others).read_bytes())


def _replace(path: Path, outside: Path, chance: random.Random) -> None:
    """Put a link, a pipe, a folder or nothing in the place of a file or folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    match chance.choice(("folder link", "file link", "loop", "pipe", "folder", "file", "nothing")):
        case "folder link":
            path.symlink_to(outside)
        case "file link":
            path.symlink_to(outside / "precious")
        case "loop":
            path.symlink_to(path)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "file":
            path.write_bytes(b"x")


_WAYS = (_flip, _flip, _cut, _garble, _extend, _replace, _swap)


def _look(run: Path) -> None:
    store = LocalStore(run)
    try:
        list(summaries(store, reads_all=True))
        found = find(store, STEPS[-1])
        compare(store, found, found)
    except OutlastError:
        pass


def _resume(run: Path, *, plain_too: bool) -> None:
    state = {key: value * 0 for key, value in state_at(1).items()}
    try:
        with Checkpointer(run, state, every_steps=NEVER) as resuming:
            step = resuming.resume()
    except OutlastError:
        return
    if step == 0:
        # Without its mark, a run that lost all its manifests may look like one that never saved.
        assert not manifest_names(LocalStore(run)), "the checkpoints were not seen"
        assert not has_committed(LocalStore(run)), "the loss of all checkpoints was not seen"
        return
    for key, value in state_at(step).items():
        if plain_too or isinstance(value, np.ndarray):
            assert np.array_equal(state[key], value), f"{key} is wrong after step {step}"


def _snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    paths = sorted(path for path in folder.rglob("*"))
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", path.stat().st_mode)
        for path in paths
    }
