import os
import signal
from pathlib import Path

import pytest

from outlast.drills.errors import DrillError
from outlast.drills.run.folders import JobFolder, command_exists, drill_folder
from tests.patience import eventually


def test_the_folder_of_a_drill_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    with drill_folder(None) as folder:
        locked = folder / "locked"
        locked.mkdir()
        (locked / "file").touch()
        locked.chmod(0o500)

    assert not folder.exists()


def test_the_folder_goes_after_an_error_too() -> None:
    with pytest.raises(RuntimeError), drill_folder(None) as folder:
        raise RuntimeError

    assert not folder.exists()


def test_a_folder_to_keep_stays_and_must_be_new(tmp_path: Path) -> None:
    with drill_folder(tmp_path / "kept") as folder:
        (folder / "file").touch()

    assert (tmp_path / "kept" / "file").exists()
    with pytest.raises(DrillError, match="is not empty"), drill_folder(tmp_path / "kept"):
        pass


def test_each_run_gets_a_fresh_copy_of_the_working_folder(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "data").write_text("1")
    (tmp_path / "root").mkdir()

    first = JobFolder(tmp_path / "root", "baseline", source)
    path = first.folder
    (first.folder / "data").write_text("changed")
    first.set_aside()
    second = JobFolder(tmp_path / "root", "evicted", source)

    assert second.folder == path
    assert (second.folder / "data").read_text() == "1"
    assert (first.path("data")).read_text() == "changed"
    assert (source / "data").read_text() == "1"


def test_a_working_folder_that_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DrillError, match="is not a folder"):
        JobFolder(tmp_path, "one", tmp_path / "none")
    with pytest.raises(DrillError, match="it contains the folder of the drill"):
        JobFolder(tmp_path, "two", tmp_path)


def test_dir_stands_for_the_folder_of_the_run(tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path, "baseline", None)

    assert job_folder.command(["tool", "--out={dir}/x"]) == ("tool", f"--out={job_folder.folder}/x")
    assert job_folder.path("{dir}/model.pt") == job_folder.folder / "model.pt"
    assert job_folder.path("model.pt") == job_folder.folder / "model.pt"


def test_the_script_of_the_user_is_found_from_the_folder_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "other.py", "out"):
        (tmp_path / name).touch()
    job_folder = JobFolder(tmp_path, "baseline", None)

    found = job_folder.command(["python", "-u", "train.py", "out", "other.py"])

    assert found == ("python", "-u", str(tmp_path / "train.py"), "out", "other.py")


def test_a_long_script_in_an_argument_is_not_taken_for_a_file(tmp_path: Path) -> None:
    script = "print(1)\n" * 1000

    found = JobFolder(tmp_path, "baseline", None).command(["python", "-c", script])

    assert found == ("python", "-c", script)


def test_a_script_that_was_copied_is_run_from_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").touch()
    (tmp_path / "root").mkdir()
    monkeypatch.chdir(source)
    job_folder = JobFolder(tmp_path / "root", "baseline", source)

    assert job_folder.command(["python", "train.py"]) == ("python", "train.py")


def test_expected_files_are_removed_wherever_they_are(tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path, "baseline", None)
    outside = tmp_path / "outside.bin"
    outside.touch()
    (job_folder.folder / "out").mkdir()
    (job_folder.folder / "out" / "file").touch()

    job_folder.remove_expected([str(outside), "out", "none.txt"])

    assert not outside.exists()
    assert not (job_folder.folder / "out").exists()


def test_a_folder_outside_is_never_removed(tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path, "baseline", None)
    (tmp_path / "precious").mkdir()

    with pytest.raises(DrillError, match="is a folder outside"):
        job_folder.remove_expected([str(tmp_path / "precious")])

    assert (tmp_path / "precious").exists()


def test_what_the_next_run_overwrites_is_kept(tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path, "baseline", None)
    outside = tmp_path / "outside.bin"
    outside.write_text("calm")

    job_folder.keep_outside(["inside.bin", str(outside)])
    outside.write_text("disturbed")

    assert job_folder.artifact(1, str(outside)).read_text() == "calm"
    assert job_folder.artifact(0, "inside.bin") == job_folder.folder / "inside.bin"


def test_a_reset_that_fails_stops_the_drill_with_what_it_said(tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path, "baseline", None)

    job_folder.reset("touch {dir}/clean", os.environ)
    assert (job_folder.folder / "clean").exists()
    with pytest.raises(DrillError, match="failed with exit code 3: no such queue"):
        job_folder.reset("echo no such queue; exit 3", os.environ)


def test_a_command_is_looked_for_where_it_will_run(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n")

    assert command_exists("sh", tmp_path, os.environ)
    assert not command_exists("no-such-command", tmp_path, os.environ)
    assert not command_exists("./run.sh", tmp_path, os.environ)
    script.chmod(0o755)
    assert command_exists("./run.sh", tmp_path, os.environ)


@pytest.mark.parametrize("name", ["../../precious", "link", "link/below"])
def test_a_folder_elsewhere_is_refused_however_it_is_named(name: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "below").mkdir(parents=True)
    (tmp_path / "root").mkdir()
    job_folder = JobFolder(tmp_path / "root", "baseline", None)

    if name == "link":
        job_folder.remove_expected([name])
        (job_folder.folder / "link").symlink_to(precious)
        with pytest.raises(DrillError, match="outside the folder of the run"):
            job_folder.keep_outside([name])
    else:
        (job_folder.folder / "link").symlink_to(precious)
        with pytest.raises(DrillError, match="outside the folder of the run"):
            job_folder.remove_expected([name])

    assert (precious / "below").is_dir()


@pytest.mark.parametrize("name", ["../outside.json", "link/outside.json", "{dir}/../outside.json"])
def test_a_file_elsewhere_is_kept_aside_however_it_is_named(name: str, tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path, "baseline", None)
    (job_folder.folder / "link").symlink_to(tmp_path)
    outside = tmp_path / "outside.json"
    outside.write_text("1")

    job_folder.keep_outside([name])
    outside.write_text("2")

    assert job_folder.artifact(0, name).read_text() == "1"


def test_the_folder_of_the_run_itself_is_not_a_result(tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path, "baseline", None)

    with pytest.raises(DrillError, match="entire folder of the run"):
        job_folder.remove_expected(["."])


def test_what_a_database_keeps_beside_it_goes_with_it(tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path, "baseline", None)
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"jobs.db{suffix}").touch()

    job_folder.remove_expected(["../jobs.db"])

    assert not list(tmp_path.glob("jobs.db*"))


def test_a_shell_line_waits_for_nobody_in_the_background(tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path, "baseline", None)

    code, printed = job_folder.shell("sleep 3600 & echo $!", os.environ)

    assert code == 0
    os.kill(int(printed), signal.SIGKILL)


def test_a_shell_line_is_killed_with_all_it_started_when_its_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.drills.run.folders._SHELL_SECONDS_MAX", 2.0)
    job_folder = JobFolder(tmp_path, "baseline", None)

    with pytest.raises(DrillError, match="did not end within"):
        job_folder.shell("sleep 3600 & echo $! > pid; wait", os.environ)

    child = int((job_folder.folder / "pid").read_text())
    eventually(lambda: not _is_running(child), "the child has ended")


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_link_in_the_working_folder_leads_to_no_removal_elsewhere(tmp_path: Path) -> None:
    elsewhere, source = tmp_path / "elsewhere", tmp_path / "source"
    elsewhere.mkdir()
    (elsewhere / "result.csv").write_text("mine")
    source.mkdir()
    (source / "out").symlink_to(elsewhere)
    (tmp_path / "root").mkdir()
    job_folder = JobFolder(tmp_path / "root", "baseline", source)

    for expected in ("out/result.csv", "{dir}/out/result.csv", "a/../out/result.csv"):
        with pytest.raises(DrillError, match="symbolic link"):
            job_folder.remove_expected([expected])

    assert (elsewhere / "result.csv").read_text() == "mine"


@pytest.mark.parametrize("expected", ["sub/../file", "sub/../../elsewhere/file"])
def test_a_path_that_goes_up_from_a_link_is_refused(tmp_path: Path, expected: str) -> None:
    below, source = tmp_path / "elsewhere" / "below", tmp_path / "source"
    below.mkdir(parents=True)
    precious = tmp_path / "elsewhere" / "file"
    precious.write_text("mine")
    source.mkdir()
    (source / "sub").symlink_to(below)
    (tmp_path / "root").mkdir()
    job_folder = JobFolder(tmp_path / "root", "baseline", source)

    with pytest.raises(DrillError, match="follows a symbolic link and then"):
        job_folder.remove_expected([expected])

    assert precious.read_text() == "mine"


def test_a_link_within_the_working_folder_is_followed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "real").mkdir(parents=True)
    (source / "out").symlink_to("real")
    (source / "real" / "result.csv").touch()
    (tmp_path / "root").mkdir()
    job_folder = JobFolder(tmp_path / "root", "baseline", source)

    job_folder.remove_expected(["out/result.csv"])

    assert not (job_folder.folder / "real" / "result.csv").exists()


@pytest.mark.parametrize(("share", "others"), [("none", 0o077), ("group", 0o007)])
def test_a_drill_that_is_kept_is_private_unless_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: str, others: int
) -> None:
    monkeypatch.setenv("OUTLAST_SHARE", share)
    before = os.umask(0)
    try:
        with drill_folder(tmp_path / "kept") as folder:
            JobFolder(folder, "baseline", None)
    finally:
        os.umask(before)

    for made in (folder, *folder.iterdir()):
        assert made.stat().st_mode & 0o777 == 0o777 & ~others
