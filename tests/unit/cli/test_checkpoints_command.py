"""`outlast checkpoints`: pruning checks everything before it claims anything."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import Fenced
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs import fence, history
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.cli.app import run
from outlast.cli.run import checkpoints
from outlast.journal.events import AttemptExited, utc_now
from outlast.storage import open_store
from tests.unit.checkpoint.stores import NEVER, resumed, saved


def blank() -> dict[str, Any]:
    return {"frozen": np.arange(30_000.0), "x": np.zeros(20_000)}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A run with three checkpoints whose process has come to its end."""
    url, state = str(tmp_path / "run"), blank()
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        for step in (1, 2, 3):
            state["x"] += 1
            checkpointer.save(step)
        checkpointer._session.record(AttemptExited(at=utc_now(), exit_code=75, step=3))
    return url


def steps_in(url: str) -> list[int]:
    store = open_store(url)
    return [read_manifest(store, name).step for name in manifest_names(store)]


def test_pruning_keeps_the_newest_whole(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checkpoints", url, "--prune", "--keep-last", "1"]) == 0

    assert "Deleted 2 checkpoints." in capsys.readouterr().err
    store = open_store(url)
    [name] = manifest_names(store)
    assert verify_checkpoint(store, read_manifest(store, name), lambda _: None) == []
    assert resumed(url, blank()) == 3


def test_pruning_twice_needs_no_force_and_the_second_time_claims_nothing(url: str) -> None:
    for _ in range(2):
        assert run(["checkpoints", url, "--prune", "--keep-last", "1"]) == 0

    assert fence.newest(open_store(url)) == 2


@pytest.mark.parametrize("flag", ["--prune", "--verify"])
def test_a_mistyped_path_is_an_error_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert run(["checkpoints", str(tmp_path / "rum"), flag]) == 2

    error = capsys.readouterr().err
    assert f"No run found in {tmp_path / 'rum'}." in error
    assert "hint:" in error
    assert list(tmp_path.iterdir()) == []


def test_listing_tells_a_folder_without_a_run_from_a_run_without_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Checkpointer(str(tmp_path / "run"), blank(), every_steps=NEVER) as checkpointer:
        checkpointer.resume()

    assert run(["checkpoints", str(tmp_path / "run")]) == 0
    assert f"No checkpoints in {tmp_path / 'run'}." in capsys.readouterr().out
    assert run(["checkpoints", str(tmp_path / "rum")]) == 2
    assert f"No run found in {tmp_path / 'rum'}." in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-1"])
def test_keeping_none_is_refused_before_anything_is_claimed(
    url: str, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    assert run(["checkpoints", url, "--prune", "--keep-last", number]) == 2

    assert f"--keep-last must be at least 1, got {number}." in capsys.readouterr().err
    assert fence.newest(open_store(url)) == 1
    assert len(steps_in(url)) == 3


def live(url: str) -> Checkpointer:
    checkpointer = Checkpointer(url, blank(), every_steps=NEVER)
    checkpointer.resume()
    return checkpointer


@pytest.mark.parametrize("has_written", [False, True], ids=["just started", "has a journal"])
def test_a_run_that_seems_alive_is_not_stopped_without_force(
    url: str, capsys: pytest.CaptureFixture[str], has_written: bool
) -> None:
    alive = live(url)
    started = alive._session._started
    assert started is not None
    if has_written:
        assert started.journal is not None
        assert started.journal.flush()

    assert run(["checkpoints", url, "--prune", "--keep-last", "1"]) == 2

    error = capsys.readouterr().err
    assert "Attempt 2" in error
    assert "may still be running" in error
    assert "--force" in error
    assert len(steps_in(url)) == 3
    alive.save(4)
    alive.wait()

    assert run(["checkpoints", url, "--prune", "--keep-last", "1", "--force"]) == 0
    alive.save(5)
    with pytest.raises(Fenced):
        alive.wait()


def test_a_run_that_has_been_silent_for_long_is_pruned_with_a_note(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    live(url).close()
    later = utc_now() + timedelta(hours=3)
    monkeypatch.setattr(checkpoints, "utc_now", lambda: later)

    assert run(["checkpoints", url, "--prune", "--keep-last", "1"]) == 0

    error = capsys.readouterr().err
    assert "Attempt 2 has not recorded an end" in error
    assert steps_in(url) == [3]


def test_a_newest_checkpoint_that_cannot_be_read_stops_the_pruning(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = manifest_names(open_store(url))[0]
    (Path(url) / newest).write_bytes(b"garbled")

    assert run(["checkpoints", url, "--prune", "--keep-last", "1"]) == 2

    assert newest in capsys.readouterr().err
    assert fence.newest(open_store(url)) == 1
    assert len(manifest_names(open_store(url))) == 3


def test_pruning_keeps_what_was_learned(url: str) -> None:
    store = open_store(url)
    before = history.read_history(store, 1)[1]

    assert run(["checkpoints", url, "--prune", "--keep-last", "1"]) == 0

    assert history.read_history(store, 2)[1].costs == before.costs
    assert json.loads(store.read(fence.name_of(2)))["purpose"] == "prune"


def test_a_run_that_has_not_saved_yet_is_left_alone(tmp_path: Path) -> None:
    live(str(tmp_path)).close()

    assert run(["checkpoints", str(tmp_path), "--prune", "--force"]) == 0

    assert fence.newest(open_store(tmp_path)) == 1


def test_pruning_a_damaged_run_never_takes_its_last_checkpoint(url: str) -> None:
    saved(url, blank(), step=4)

    assert run(["checkpoints", url, "--prune", "--keep-last", "1", "--force"]) == 0

    assert steps_in(url)[0] == 4


@pytest.mark.parametrize(
    "content",
    [b"[" * 200_000, b"[]", b'{"created": "9999-12-31T23:59:59-23:59"}', b'{"created": 5}'],
    ids=["deep", "list", "overflow", "number"],
)
def test_no_content_of_an_attempt_file_keeps_a_run_from_being_pruned(
    url: str, content: bytes
) -> None:
    (Path(url) / "attempts/000002.json").write_bytes(content)

    assert run(["checkpoints", url, "--prune", "--keep-last", "1"]) == 0

    assert steps_in(url) == [3]


@pytest.mark.parametrize(("share", "mode"), [("none", 0o600), ("group", 0o660)])
def test_an_export_is_as_private_as_the_run(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: str, mode: int
) -> None:
    monkeypatch.setenv("OUTLAST_SHARE", share)
    path = tmp_path / "export.safetensors"

    assert run(["checkpoints", url, "--export", "3", str(path)]) == 0

    assert path.stat().st_mode & 0o777 == mode
