"""A file is replaced whole, or stays as it was."""

from pathlib import Path

import pytest

from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.writing import replace_file


def test_a_file_gets_its_new_content_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o600)

    replace_file(path, b"new", expected=b"old")

    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_target_of_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to("target")

    replace_file(link, b"new")

    assert link.is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_file_that_somebody_else_changed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"theirs")

    with pytest.raises(LintError, match="has changed while it was looked at"):
        replace_file(path, b"new", expected=b"old")

    assert path.read_bytes() == b"theirs"


def test_a_write_that_fails_leaves_the_old_content_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")

    assert [one.name for one in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == b"old"


def test_a_new_file_can_be_written(tmp_path: Path) -> None:
    replace_file(tmp_path / "new", b"x")

    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644
