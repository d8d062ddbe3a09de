from pathlib import Path

import pytest

from outlast.drills.run import folder_watch as module
from outlast.drills.run.folder_watch import FolderWatch, SaveDetector, watch_folder
from outlast.drills.run.records import Save


@pytest.fixture(params=["by the kernel", "by looking"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> FolderWatch:
    if request.param == "by looking":
        return module._Scan(tmp_path)
    return watch_folder(tmp_path)


def test_new_and_growing_files_are_seen_once(watched: FolderWatch, tmp_path: Path) -> None:
    assert watched.changes() == []
    (tmp_path / "new").write_text("1")
    assert watched.changes() == ["new"]
    with (tmp_path / "new").open("a") as file:
        file.write("more")
    assert watched.changes() == ["new"]
    assert watched.changes() == []
    watched.close()


def test_files_in_new_folders_are_seen(watched: FolderWatch, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("1")
    first = watched.changes()
    (tmp_path / "a" / "b" / "later").write_text("1")

    assert set(first) | set(watched.changes()) >= {"a/b/file", "a/b/later"}
    watched.close()


def test_a_rename_into_place_is_seen(watched: FolderWatch, tmp_path: Path) -> None:
    (tmp_path / "aside").write_text("1")
    watched.changes()

    (tmp_path / "aside").rename(tmp_path / "model.pt")

    assert watched.changes() == ["model.pt"]
    watched.close()


def test_saves_are_told_apart_by_the_quiet_between_them(tmp_path: Path) -> None:
    evicted_at: list[str] = []
    changes = SaveDetector(tmp_path, evicted_at.append, began=100.0)

    for at, name in ((100.0, "a"), (100.1, "a"), (100.2, "b"), (101.0, "c")):
        with (tmp_path / name).open("a") as file:
            file.write("x")
        assert changes.look(now=at)

    assert evicted_at == ["a", "c"]
    assert [save.at_seconds for save in changes.saves] == [0.0, 1.0]
    assert [save.until_seconds for save in changes.saves] == pytest.approx([0.2, 1.0])
    assert changes.recent(now=101.05) == ("c", "b", "a")
    assert changes.recent(now=101.5) == ("c",)
    changes.close()


def test_beyond_the_limit_no_save_is_noted_and_none_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.drills.run.folder_watch._SAVES_MAX", 1)
    changes = SaveDetector(tmp_path, lambda _: None, began=0.0)

    for at in (0.0, 0.1, 5.0, 5.1):
        (tmp_path / "a").write_text("x")
        assert changes.look(now=at)

    assert changes.saves == [Save(at_seconds=0.0, path="a", lasted_seconds=0.1)]
    changes.close()


def test_a_journal_is_a_sign_of_life_but_no_save(tmp_path: Path) -> None:
    (tmp_path / "run" / "journal").mkdir(parents=True)
    changes = SaveDetector(tmp_path, lambda _: None, began=0.0)

    (tmp_path / "run" / "journal" / "000001-000001.jsonl").touch()

    assert not changes.look(now=1.0)
    assert changes.found_any
    assert changes.saves == []
    changes.close()
