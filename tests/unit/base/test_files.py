"""A file is replaced whole, or not at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outlast._base.files import replacing, write_below, write_file
from outlast.errors import OutlastError
from tests.patience import PATIENCE_SECONDS

KILLED_HALFWAY = """
import os, signal, sys
from pathlib import Path
from outlast._base.files import replacing

with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_killed_halfway_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    done = subprocess.run([sys.executable, "-c", KILLED_HALFWAY, path])

    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    write_file(path, b"new")
    assert path.read_text() == "new"


def test_an_exclusive_file_never_replaces_another(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (tmp_path / "taken").write_text("old")
    (tmp_path / "link").symlink_to(outside)

    assert write_below(tmp_path, "a/new", b"new", exclusive=True).read_text() == "new"
    with pytest.raises(FileExistsError):
        write_below(tmp_path, "taken", b"new", exclusive=True)
    with pytest.raises(OutlastError, match="is a symbolic link"):
        write_below(tmp_path, "link", b"new", exclusive=True)

    assert (tmp_path / "taken").read_text() == "old"
    assert not outside.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "link", "taken"]


def test_an_exclusive_file_that_cannot_be_written_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)

    with pytest.raises(OSError, match="No space left"):
        write_below(tmp_path, "new", b"new", exclusive=True)

    assert list(tmp_path.iterdir()) == []


def test_a_block_that_fails_leaves_nothing_beside_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_stays_and_a_new_file_has_that_of_the_process(tmp_path: Path) -> None:
    private, fresh = tmp_path / "private", tmp_path / "fresh"
    private.write_text("old")
    private.chmod(0o600)
    before = os.umask(0o027)
    try:
        for path in (private, fresh):
            write_file(path, b"new")
    finally:
        os.umask(before)

    assert private.stat().st_mode & 0o777 == 0o600
    assert fresh.stat().st_mode & 0o777 == 0o640


def test_a_link_keeps_pointing_to_what_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)

    write_file(link, b"new")

    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        write_file(pipe, b"said")

        assert reader.communicate(timeout=PATIENCE_SECONDS)[0] == b"said"
    assert pipe.is_fifo()


def test_a_private_file_is_private_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.touch(mode=0o600)

    with replacing(path) as file:
        modes = [one.stat().st_mode & 0o077 for one in tmp_path.iterdir()]
        file.write(b"new")

    assert modes == [0, 0]


def test_a_mode_is_for_new_files_and_never_opens_a_private_one(tmp_path: Path) -> None:
    private, fresh = tmp_path / "private", tmp_path / "fresh"
    private.touch(mode=0o600)

    for path in (private, fresh):
        write_file(path, b"new", mode=0o755)

    assert private.stat().st_mode & 0o777 == 0o700
    assert fresh.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("linked", ["setup", "setup/pool.sh"])
def test_no_link_below_an_output_folder_is_followed(tmp_path: Path, linked: str) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    (out / linked).parent.mkdir(parents=True)
    elsewhere.mkdir()
    target = elsewhere / "pool.sh"
    target.write_text("mine")
    (out / linked).symlink_to(elsewhere if linked == "setup" else target)

    with pytest.raises(OutlastError, match="symbolic link"):
        write_below(out, "setup/pool.sh", b"new", mode=0o755)

    assert target.read_text() == "mine"
    assert target.stat().st_mode & 0o111 == 0
    assert list(elsewhere.iterdir()) == [target]


def test_a_file_is_written_below_a_folder_that_is_itself_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")

    for text in (b"old", b"new"):
        assert write_below(tmp_path / "out", "a/b.txt", text) == tmp_path / "out" / "a" / "b.txt"

    assert [one.name for one in (tmp_path / "real" / "a").iterdir()] == ["b.txt"]
    assert (tmp_path / "real" / "a" / "b.txt").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["../b", "/b", "a/../../b", ""])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutlastError, match="outside"):
        write_below(tmp_path / "out", name, b"new")
