"""Which code `outlast exec` uses, from the notes of the processes below it."""

import os
from pathlib import Path

import pytest

from outlast.interruption.exit_notes import ExitNote, begin_note, note_exit_now, parse_note
from outlast.supervisor.folder import NotesFolder
from outlast.supervisor.notes import AtNotice, agreed_code, read_notes


def note(
    rank: int,
    exit_code: int | None,
    *,
    restart: int = 0,
    world_size: int = 2,
    codes: tuple[int, ...] = (75,),
) -> ExitNote:
    return ExitNote(
        rank=rank,
        restart=restart,
        pid=100 * restart + rank,
        world_size=world_size,
        interrupted_codes=frozenset(codes),
        exit_code=exit_code,
    )


@pytest.mark.parametrize(
    ("notes", "without_notice", "after_notice"),
    [
        pytest.param([], None, None, id="no guard in the command"),
        pytest.param([note(0, 75), note(1, 75)], 75, 75, id="all interrupted"),
        pytest.param([note(0, 75)], None, 75, id="one of two left no note"),
        pytest.param([note(0, 75, world_size=1)], 75, 75, id="the only one"),
        pytest.param([note(0, 75), note(1, None)], None, 75, id="one killed"),
        pytest.param([note(0, None), note(1, None)], None, 75, id="all killed"),
        pytest.param([note(0, 1), note(1, 75)], None, None, id="one failed"),
        pytest.param([note(0, 1, codes=()), note(1, 75)], None, None, id="one failed before"),
        pytest.param([note(0, 0, codes=()), note(1, 75)], 75, 75, id="one had finished"),
        pytest.param([note(0, 0), note(1, 0)], None, None, id="all finished"),
        pytest.param(
            [note(0, 0, codes=(0, 75)), note(1, 0, codes=(0, 75))], None, None, id="outside a Pod"
        ),
        pytest.param(
            [note(0, 0, codes=(0, 75)), note(1, 75, codes=(0, 75))], 75, 75, id="one cut off"
        ),
        pytest.param([note(0, 75), note(1, 42, codes=(42,))], None, None, id="codes that differ"),
        pytest.param(
            [note(0, 130, codes=(130,)), note(1, 130, codes=(130,))], 130, 130, id="Ctrl-C"
        ),
        pytest.param(
            [note(0, 1), note(1, 75), note(0, 75, restart=1), note(1, 75, restart=1)],
            75,
            75,
            id="interrupted after a restart",
        ),
        pytest.param(
            [note(0, 75), note(1, 75), note(0, 1, restart=1), note(1, 75, restart=1)],
            None,
            None,
            id="failed after a restart",
        ),
        pytest.param(
            [note(0, 75), note(1, 75), note(0, 75, restart=1)],
            None,
            75,
            id="killed before its guard was open, after a restart",
        ),
    ],
)
def test_the_ranks_decide_the_code_together(
    notes: list[ExitNote], without_notice: int | None, after_notice: int | None
) -> None:
    assert agreed_code(notes, None) == without_notice
    assert agreed_code(notes, AtNotice(cut_off_code=75)) == after_notice


def test_a_process_that_died_before_the_notice_was_not_cut_off_by_it() -> None:
    killed = note(1, None)

    notice = AtNotice(cut_off_code=75, crashed=[killed.pid])

    assert agreed_code([note(0, 75), killed], notice) is None


@pytest.mark.parametrize(
    ("notes", "code"),
    [
        pytest.param([], 75, id="no guard was open yet"),
        pytest.param([note(0, 75)], 75, id="one guard was open"),
        pytest.param([note(0, 1)], None, id="one opened its guard, and failed"),
        pytest.param([note(0, 0), note(1, 0)], None, id="both opened their guards, and finished"),
    ],
)
def test_a_rank_that_the_notice_met_without_a_guard_was_cut_off(
    notes: list[ExitNote], code: int | None
) -> None:
    notice = AtNotice(cut_off_code=75, running=[note(0, None), note(1, None)])

    assert agreed_code(notes, notice) == code


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("0-0-7", b""),
        ("0-0-7", b"2"),
        ("0-0-7", b"-2\n"),
        ("0-0-7", b"two 75\nK"),
        ("0-0-7", b"2 75\nKKK"),
        ("0-0-7", b"2 7500\nK"),
        ("0-0-7", b"2 " * 1000),
        ("0-0-7", "\N{ARABIC-INDIC DIGIT TWO}\n".encode()),
        ("0-0", b"2 75\nK"),
        ("-1-0-7", b"2 75\nK"),
        ("0-0-7.1", b"2 75\nK"),
        ("0-0-99999999999", b"2 75\nK"),
        ("\N{ARABIC-INDIC DIGIT ZERO}-0-7", b"2 75\nK"),
    ],
)
def test_what_is_not_exactly_a_note_is_ignored(name: str, content: bytes) -> None:
    assert parse_note(name, content) is None


@pytest.mark.parametrize(
    ("content", "codes", "exit_code"),
    [
        (b"2\n", frozenset(), None),
        (b"2\n\x01", frozenset(), 1),
        (b"2 0 75\nK", frozenset({0, 75}), 75),
        (b"2 75\nK\x03", frozenset({75}), 3),
        (b"2 75\n\n", frozenset({75}), 10),
    ],
)
def test_a_note_has_the_last_code_that_was_written(
    content: bytes, codes: frozenset[int], exit_code: int | None
) -> None:
    expected = ExitNote(
        rank=1, restart=0, pid=7, world_size=2, interrupted_codes=codes, exit_code=exit_code
    )

    assert parse_note("1-0-7", content) == expected


def test_the_folder_is_private_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with NotesFolder() as notes:
        assert notes.path is not None
        assert Path(notes.path).stat().st_mode & 0o777 == 0o700
        monkeypatch.setenv("OUTLAST_NOTES", notes.path)
        monkeypatch.setenv("LOCAL_RANK", "1")
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
        begin_note()
        note_exit_now(75)

        (found,) = read_notes(notes.path)
        assert (found.rank, found.world_size, found.exit_code) == (1, 4, 75)
        assert found.pid == os.getpid()

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_costs_only_the_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.supervisor.folder._places", lambda: [str(tmp_path / "missing")])
    with NotesFolder() as notes:
        assert notes.path is None
        assert read_notes(notes.path) == []


def test_strange_files_in_the_folder_are_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with NotesFolder() as notes:
        assert notes.path is not None
        folder = Path(notes.path)
        os.mkfifo(folder / "0-0-1")
        (folder / "0-0-2").symlink_to("/dev/zero")
        (folder / "0-0-3").mkdir()
        (folder / "0-0-4").write_bytes(b"2 75\nK")

        assert [found.pid for found in read_notes(notes.path)] == [4]

        monkeypatch.setattr("outlast.supervisor.notes._NOTES_MAX", 3)
        assert read_notes(notes.path) == []
        (folder / "0-0-3").rmdir()
