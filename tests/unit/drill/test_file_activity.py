import mmap
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.drills.run.file_activity import FileActivity, FileActivityRecorder, group_of

pytestmark = pytest.mark.skipif(
    not Path("/proc/sys/fs/inotify").exists(), reason="Only Linux reports what is read."
)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[FileActivityRecorder]:
    made = FileActivityRecorder(tmp_path)
    yield made
    made.close()


def ended(recorder: FileActivityRecorder) -> FileActivity:
    found = recorder.end()
    assert found is not None
    return found


def test_saves_are_counted_however_late_they_are_collected(
    recorder: FileActivityRecorder, tmp_path: Path
) -> None:
    recorder.begin(alone=True)
    for number in range(50):
        (tmp_path / "c.new").write_text(str(number))
        (tmp_path / "c.new").rename(tmp_path / "c")
        (tmp_path / "in-place").write_text(str(number))

    found = ended(recorder)

    assert found.written == {"c.new": 50, "c": 50, "in-place": 50}
    assert found.left == {"c", "in-place"}
    assert found.found == frozenset()


def test_what_an_earlier_attempt_left_is_found_and_its_reading_is_seen(
    recorder: FileActivityRecorder, tmp_path: Path
) -> None:
    recorder.begin(alone=True)
    for name in ("read", "mapped", "appended", "kept", "removed"):
        (tmp_path / name).write_text("1")
    ended(recorder)
    (tmp_path / "removed").read_text()

    recorder.begin(alone=True)
    (tmp_path / "read").read_text()
    with (
        (tmp_path / "mapped").open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ),
    ):
        pass
    with (tmp_path / "appended").open("ab") as grown:
        grown.write(b"2")
    (tmp_path / "removed").unlink()
    found = ended(recorder)

    assert found.found == {"read", "mapped", "appended", "kept", "removed"}
    assert found.read == {"read", "mapped"}
    assert found.touched == {"appended", "removed"}


def test_files_in_new_folders_count_but_caches_of_python_do_not(
    recorder: FileActivityRecorder, tmp_path: Path
) -> None:
    recorder.begin(alone=True)
    (tmp_path / "checkpoint-500").mkdir()
    (tmp_path / "checkpoint-500" / "model").write_text("1")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "train.pyc").write_text("1")

    assert set(ended(recorder).written) == {"checkpoint-500/model"}


def test_two_attempts_at_the_same_time_cannot_be_told_apart(
    recorder: FileActivityRecorder, tmp_path: Path
) -> None:
    recorder.begin(alone=True)
    recorder.begin(alone=False)

    assert recorder.end() is None
    assert recorder.end() is None

    recorder.begin(alone=True)
    assert recorder.end() is not None


def test_a_group_is_a_name_without_its_numbers() -> None:
    assert group_of("out/checkpoint-500/model-00001-of-00003.bin") == (
        "out/checkpoint-#/model-#-of-#.bin"
    )
