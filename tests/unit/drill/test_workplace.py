import os
import signal
import time
from pathlib import Path

import pytest

from outlast.drill.errors import DrillError
from outlast.drill.workplace import Workplace, command_exists, drill_folder


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


def test_each_leg_gets_a_fresh_copy_of_the_working_folder(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "data").write_text("1")
    (tmp_path / "root").mkdir()

    first = Workplace(tmp_path / "root", "baseline", source)
    (first.folder / "data").write_text("changed")
    second = Workplace(tmp_path / "root", "disturbed", source)

    assert (second.folder / "data").read_text() == "1"
    assert (source / "data").read_text() == "1"


def test_a_working_folder_that_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DrillError, match="is no folder"):
        Workplace(tmp_path, "one", tmp_path / "none")
    with pytest.raises(DrillError, match="lies in the folder"):
        Workplace(tmp_path, "two", tmp_path)


def test_dir_stands_for_the_folder_of_the_leg(tmp_path: Path) -> None:
    place = Workplace(tmp_path, "baseline", None)

    assert place.command(["tool", "--out={dir}/x"]) == ("tool", f"--out={place.folder}/x")
    assert place.path("{dir}/model.pt") == place.folder / "model.pt"
    assert place.path("model.pt") == place.folder / "model.pt"


def test_the_script_of_the_user_is_found_from_the_folder_of_the_leg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "other.py", "out"):
        (tmp_path / name).touch()
    place = Workplace(tmp_path, "baseline", None)

    found = place.command(["python", "-u", "train.py", "out", "other.py"])

    assert found == ("python", "-u", str(tmp_path / "train.py"), "out", "other.py")


def test_a_script_that_was_copied_is_run_from_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").touch()
    (tmp_path / "root").mkdir()
    monkeypatch.chdir(source)
    place = Workplace(tmp_path / "root", "baseline", source)

    assert place.command(["python", "train.py"]) == ("python", "train.py")


def test_expected_files_are_removed_wherever_they_are(tmp_path: Path) -> None:
    place = Workplace(tmp_path, "baseline", None)
    outside = tmp_path / "outside.bin"
    outside.touch()
    (place.folder / "out").mkdir()
    (place.folder / "out" / "file").touch()

    place.remove_expected([str(outside), "out", "none.txt"])

    assert not outside.exists()
    assert not (place.folder / "out").exists()


def test_a_folder_outside_is_never_removed(tmp_path: Path) -> None:
    place = Workplace(tmp_path, "baseline", None)
    (tmp_path / "precious").mkdir()

    with pytest.raises(DrillError, match="is a folder outside"):
        place.remove_expected([str(tmp_path / "precious")])

    assert (tmp_path / "precious").exists()


def test_what_the_next_leg_writes_over_is_kept(tmp_path: Path) -> None:
    place = Workplace(tmp_path, "baseline", None)
    outside = tmp_path / "outside.bin"
    outside.write_text("calm")

    place.keep_outside(["inside.bin", str(outside)])
    outside.write_text("disturbed")

    assert place.artifact(1, str(outside)).read_text() == "calm"
    assert place.artifact(0, "inside.bin") == place.folder / "inside.bin"


def test_a_reset_that_fails_stops_the_drill_with_what_it_said(tmp_path: Path) -> None:
    place = Workplace(tmp_path, "baseline", None)

    place.reset("touch {dir}/clean", os.environ)
    assert (place.folder / "clean").exists()
    with pytest.raises(DrillError, match="failed with exit code 3: no such queue"):
        place.reset("echo no such queue; exit 3", os.environ)


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
    place = Workplace(tmp_path / "root", "baseline", None)

    if name == "link":
        place.remove_expected([name])
        (place.folder / "link").symlink_to(precious)
        with pytest.raises(DrillError, match="outside the folder of the leg"):
            place.keep_outside([name])
    else:
        (place.folder / "link").symlink_to(precious)
        with pytest.raises(DrillError, match="outside the folder of the leg"):
            place.remove_expected([name])

    assert (precious / "below").is_dir()


@pytest.mark.parametrize("name", ["../outside.json", "link/outside.json", "{dir}/../outside.json"])
def test_a_file_elsewhere_is_kept_aside_however_it_is_named(name: str, tmp_path: Path) -> None:
    place = Workplace(tmp_path, "baseline", None)
    (place.folder / "link").symlink_to(tmp_path)
    outside = tmp_path / "outside.json"
    outside.write_text("1")

    place.keep_outside([name])
    outside.write_text("2")

    assert place.artifact(0, name).read_text() == "1"


def test_the_folder_of_the_leg_itself_is_no_result(tmp_path: Path) -> None:
    place = Workplace(tmp_path, "baseline", None)

    with pytest.raises(DrillError, match="more than a result"):
        place.remove_expected(["."])


def test_what_a_database_keeps_beside_it_goes_with_it(tmp_path: Path) -> None:
    place = Workplace(tmp_path, "baseline", None)
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"jobs.db{suffix}").touch()

    place.remove_expected(["../jobs.db"])

    assert not list(tmp_path.glob("jobs.db*"))


def test_a_shell_line_waits_for_nobody_in_the_background(tmp_path: Path) -> None:
    place = Workplace(tmp_path, "baseline", None)
    started = time.monotonic()

    code, printed = place.shell("sleep 8 & echo $!", os.environ)

    assert (code, time.monotonic() - started < 6) == (0, True)
    os.kill(int(printed), signal.SIGKILL)


def test_a_shell_line_is_killed_with_all_it_started_when_its_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.drill.workplace._SHELL_SECONDS_MAX", 0.5)
    place = Workplace(tmp_path, "baseline", None)

    with pytest.raises(DrillError, match="did not end within"):
        place.shell("sleep 60 & echo $! > pid; wait", os.environ)

    child = int((place.folder / "pid").read_text())
    give_up_at = time.monotonic() + 10
    while _is_running(child):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
