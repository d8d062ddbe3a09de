"""A file is replaced whole, or not at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outlast._base.files import replacing, write_file

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

        assert reader.communicate(timeout=10)[0] == b"said"
    assert pipe.is_fifo()
