"""An object that cannot be read costs one copy or one checkpoint; a failed store, the resume."""

import errno
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import NothingVerifies
from outlast.checkpoint.format.manifest import CheckpointManifest
from outlast.checkpoint.runs.catalog import manifest_names
from outlast.journal import Resumed, read_journal
from outlast.storage import StoreUnavailable, open_store
from tests.commands import command
from tests.unit.checkpoint.stores import manifest_of
from tests.unit.storage.test_hostile import THINGS, unreadable

checkpoints = command("checkpoints")

ROOT = Path(__file__).parents[3]
NEVER = 10**9


def state_at(step: int) -> dict[str, Any]:
    return {"frozen": np.arange(200_000.0), "x": np.full(300_000, step, float), "step": step}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three checkpoints that share a part, of which there are two copies."""
    url = tmp_path_factory.mktemp("origin") / "run"
    state = state_at(0)
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        for step in (1, 2, 3):
            state.update(state_at(step))
            checkpointer.save(step)
    return url


@pytest.fixture
def url(tmp_path: Path, origin: Path) -> Path:
    return Path(shutil.copytree(origin, tmp_path / "run"))


def newest(url: Path) -> CheckpointManifest:
    store = open_store(url)
    return manifest_of(store, manifest_names(store)[0])


def own_pack(url: Path) -> str:
    """The pack with what is only in the newest checkpoint."""
    [pack] = {c.copies[0].pack for c in newest(url).chunks if len(c.copies) == 1}
    return pack


def shared_pack(url: Path) -> str:
    """The pack that the shared part is read from first."""
    [pack] = {c.copies[0].pack for c in newest(url).chunks if len(c.copies) == 2}
    return pack


def replace(path: Path, thing: str) -> None:
    path.unlink()
    THINGS[thing][0](path)


def resumed(url: Path) -> tuple[int, dict[str, Any], list[str]]:
    """The step, the state, and what was passed over."""
    state = {"frozen": np.zeros(200_000), "x": np.zeros(300_000), "step": 0}
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        step = checkpointer.resume()
    events = read_journal(open_store(url))[-1].events
    [event] = [event for event in events if isinstance(event, Resumed)]
    return step, state, [passed.checkpoint for passed in event.passed_over]


def is_right(state: dict[str, Any], step: int) -> bool:
    return all(np.array_equal(state[key], value) for key, value in state_at(step).items())


@pytest.mark.parametrize("thing", THINGS)
def test_a_pack_that_is_no_file_costs_one_checkpoint(
    url: Path, thing: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, pack = newest(url).name, own_pack(url)
    replace(url / pack, thing)

    step, state, passed_over = resumed(url)

    assert (step, passed_over) == (2, [name])
    assert is_right(state, 2)
    [record] = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert pack in record.getMessage()
    assert THINGS[thing][1] in record.getMessage()


@pytest.mark.parametrize("thing", THINGS)
def test_a_shared_pack_that_is_no_file_is_read_from_its_second_copy(
    url: Path, thing: str, caplog: pytest.LogCaptureFixture
) -> None:
    replace(url / shared_pack(url), thing)

    step, state, passed_over = resumed(url)

    assert (step, passed_over) == (3, [])
    assert is_right(state, 3)
    assert "from second copies" in caplog.text


@pytest.mark.parametrize("thing", THINGS)
def test_a_manifest_that_is_no_file_is_passed_over_and_not_missed(url: Path, thing: str) -> None:
    name = newest(url).name
    replace(url / name, thing)

    step, state, passed_over = resumed(url)

    assert (step, passed_over) == (2, [name])
    assert is_right(state, 2)


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("folder", ["attempts", "journal"])
def test_what_stands_among_attempts_and_segments_keeps_no_run_from_resuming(
    url: Path, folder: str, thing: str
) -> None:
    for path in sorted((url / folder).iterdir()):
        replace(path, thing)

    step, state, passed_over = resumed(url)

    assert (step, passed_over) == (3, [])
    assert is_right(state, 3)


@pytest.mark.parametrize("folder", ["attempts", "journal", "manifests", "packs"])
def test_a_folder_of_a_run_that_is_a_link_stops_the_resume(
    tmp_path: Path, url: Path, folder: str
) -> None:
    outside = tmp_path / "outside"
    (url / folder).rename(outside)
    (url / folder).symlink_to(outside)
    before = sorted(outside.iterdir())
    state = state_at(0)

    if folder == "journal":
        # What cannot be written down keeps no run from going on.
        assert Checkpointer(url, state).resume() == 3
    else:
        with pytest.raises(StoreUnavailable, match=f"'{folder}' is a symbolic link, not a folder"):
            Checkpointer(url, state).resume()

    assert sorted(outside.iterdir()) == before


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES], ids=["EIO", "EACCES"])
@pytest.mark.parametrize(
    ("which", "step"),
    [(own_pack, 2), (shared_pack, 3), (lambda url: newest(url).name, 2)],
    ids=["own pack", "shared pack", "manifest"],
)
def test_an_error_of_one_object_costs_only_that_object(
    url: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    which: Callable[[Path], str],
    step: int,
) -> None:
    bad = which(url)
    unreadable(monkeypatch, number, lambda path: bad in path)

    found, state, _ = resumed(url)

    assert found == step
    assert is_right(state, step)


def test_a_store_that_fails_as_a_whole_stops_the_resume(
    url: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable(monkeypatch, errno.EIO, lambda path: str(url) in path)

    with pytest.raises(StoreUnavailable, match="Input/output error"):
        Checkpointer(url, state_at(0)).resume()


def test_when_no_checkpoint_can_be_read_it_says_so_and_does_not_start_from_zero(
    url: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable(monkeypatch, errno.EIO, lambda path: "/manifests/" in path)

    with pytest.raises(NothingVerifies, match="Input/output error"):
        Checkpointer(url, state_at(0)).resume()


def test_commands_name_what_cannot_be_read(
    url: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, pack = newest(url).name, shared_pack(url)
    replace(url / name, "pipe")
    replace(url / pack, "loop")

    assert checkpoints(str(url)) == 1
    assert checkpoints(str(url), verify=True) == 1
    assert checkpoints(str(url), export=(2, tmp_path / "two.safetensors")) == 0

    err = capsys.readouterr().err
    assert f"{name!r}" in err
    assert "a named pipe" in err
    assert f"{pack!r}" in err


@pytest.fixture(scope="module")
def bad_sectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("preload") / "bad_sectors.so"
    source = ROOT / "tests/faults/bad_sectors.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


PROGRAM = """
import sys
import numpy as np
import outlast
from tests.unit.checkpoint.stores import manifest_of
state = {"frozen": np.zeros(200_000), "x": np.zeros(300_000), "step": 0}
with outlast.Checkpointer(sys.argv[1], state, every_steps=10**9) as checkpointer:
    print(checkpointer.resume(), state["step"], state["x"].sum(), state["frozen"].sum())
"""


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("which", "step"), [(own_pack, 2), (shared_pack, 3)], ids=["own pack", "shared pack"]
)
def test_a_process_whose_disk_has_bad_sectors_resumes(
    url: Path, bad_sectors: Path, which: Callable[[Path], str], step: int
) -> None:
    bad = which(url)
    environ = {**os.environ, "LD_PRELOAD": str(bad_sectors), "BAD_SECTORS": bad}
    command = [sys.executable, "-c", PROGRAM, str(url)]

    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    expected = f"{step} {step} {state_at(step)['x'].sum()} {state_at(step)['frozen'].sum()}"
    assert done.stdout.strip() == expected
    assert bad in done.stderr
    assert ("Input/output error" in done.stderr) == (step == 2)
