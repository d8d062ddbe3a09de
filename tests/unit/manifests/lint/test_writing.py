"""A file is replaced whole, or stays as it was."""

from pathlib import Path

import pytest

from outlast.errors import OutlastError
from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.files import replace_file
from outlast.manifests.lint.engine.report import LintReport
from outlast.manifests.lint.errors import LintError
from outlast.manifests.linting import examine_and_fix, gather, write_fixes


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

    with pytest.raises(LintError, match="changed during the lint, so it was not fixed"):
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


FIXABLE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {attempt: 3}}\n"


def fix(*paths: Path) -> LintReport:
    """Lint with fixes that are written, as `outlast lint --fix` does."""
    report, files = examine_and_fix(gather(paths, LintOptions()))
    write_fixes(files)
    return report


def test_a_link_below_a_folder_is_linted_but_never_written_through(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside.yaml", tmp_path / "manifests"
    folder.mkdir()
    outside.write_text(FIXABLE)
    (folder / "link.yaml").symlink_to(outside)

    report = fix(folder)

    assert outside.read_text() == FIXABLE
    assert [one.code for one in report] == ["OL503"]
    assert "link.yaml: not fixed, because it is a symbolic link." in report.notices[0]
    assert report.fixed == 0


def test_a_link_named_on_the_command_line_is_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target.yaml", tmp_path / "link.yaml"
    target.write_text(FIXABLE)
    link.symlink_to(target)

    fix(link)

    assert 'attempt: "3"' in target.read_text()
    assert link.is_symlink()


def test_a_folder_given_as_a_link_is_fixed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.yaml").write_text(FIXABLE)
    (tmp_path / "link").symlink_to("real")

    fix(tmp_path / "link")

    assert 'attempt: "3"' in (tmp_path / "real/a.yaml").read_text()


def test_a_link_does_not_keep_its_target_from_being_fixed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "two/target.yaml").write_text(FIXABLE)
    (tmp_path / "one/link.yaml").symlink_to("../two/target.yaml")

    report = fix(tmp_path / "one", tmp_path / "two")

    assert 'attempt: "3"' in (tmp_path / "two/target.yaml").read_text()
    assert report.notices == ()


@pytest.mark.parametrize("swapped", ["a.yaml", "sub"], ids=["file", "folder"])
def test_a_link_that_appears_before_the_write_is_refused(tmp_path: Path, swapped: str) -> None:
    folder, elsewhere = tmp_path / "manifests", tmp_path / "elsewhere"
    for path in (folder / "sub", elsewhere):
        path.mkdir(parents=True)
        (path / "a.yaml").write_text(FIXABLE)
    (folder / "a.yaml").write_text(FIXABLE)
    kept = folder / "sub/a.yaml" if swapped == "a.yaml" else folder / "a.yaml"
    kept.unlink()
    _, files = examine_and_fix(gather([folder], LintOptions()))
    (folder / swapped).rename(tmp_path / "moved")
    (folder / swapped).symlink_to(elsewhere / "a.yaml" if swapped == "a.yaml" else elsewhere)

    with pytest.raises(OutlastError, match="is a symbolic link"):
        write_fixes(files)

    assert (elsewhere / "a.yaml").read_text() == FIXABLE
