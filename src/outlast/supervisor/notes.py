"""The exit code of a launcher's workers, from the notes that they leave for `outlast exec`.

Notes are written by the command, so they are data: bounded in number and size, and strictly parsed.
"""

import os
from collections.abc import Collection
from typing import NamedTuple

from outlast.interruption.exit_codes import FINISHED
from outlast.interruption.exit_notes import (
    NOTE_BYTES_MAX,
    ExitNote,
    parse_note,
    rank_without_note,
)
from outlast.supervisor.processes import descendants, is_running, variables_of

_NOTES_MAX = 4096
_RANK = "LOCAL_RANK"


def read_notes(folder: str | None) -> list[ExitNote]:
    """All notes in a folder; none if there are more than any command needs."""
    if folder is None:
        return []
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
    if len(names) > _NOTES_MAX:
        return []
    notes = (parse_note(name, _content(f"{folder}/{name}")) for name in names)
    return [note for note in notes if note is not None]


class AtNotice(NamedTuple):
    """What a notice to `outlast exec` met: ranks that were running, and those that had crashed.

    `cut_off_code` is the exit code of a rank that the notice ended, but that reports none.
    """

    cut_off_code: int
    running: Collection[ExitNote] = ()
    crashed: Collection[int] = ()


def look_around(notes: Collection[ExitNote], cut_off_code: int) -> AtNotice:
    """What the notice meets. Called when it arrives, before it is forwarded."""
    unfinished = (note.pid for note in notes if note.exit_code is None)
    return AtNotice(
        cut_off_code=cut_off_code,
        running=_running_ranks(),
        crashed=frozenset(pid for pid in unfinished if not is_running(pid)),
    )


def _running_ranks() -> list[ExitNote]:
    """The processes that a launcher below has started as ranks, with a guard or without."""
    if _RANK in os.environ:
        # This process is a rank itself, and its variables reach everything below.
        return []
    parents = descendants()
    variables = {pid: variables_of(pid) for pid in parents}
    ranks = {pid for pid, found in variables.items() if _RANK in found}
    return [rank_without_note(pid, variables[pid]) for pid in ranks if parents[pid] not in ranks]


def agreed_code(notes: Collection[ExitNote], notice: AtNotice | None) -> int | None:
    """The code with which the local ranks were interrupted; None if one failed, or they disagree.

    Only the newest restart counts. Without a notice to `outlast exec`, every local rank must have
    left a note with its exit code. After one, a rank without a code was cut off by it, unless it
    had crashed before. Never 0: a launcher that failed has not finished.
    """
    if notice is not None:
        known = {note.pid for note in notes}
        notes = [*notes, *(rank for rank in notice.running if rank.pid not in known)]
    newest = max((note.restart for note in notes), default=0)
    notes = [note for note in notes if note.restart == newest]
    codes = set()
    for note in notes:
        if note.exit_code is None:
            if notice is None or note.pid in notice.crashed:
                return None
            codes.add(notice.cut_off_code)
        elif note.exit_code in note.interrupted_codes:
            codes.add(note.exit_code)
        elif note.exit_code != FINISHED:
            return None
    if notice is None and not _is_complete(notes):
        return None
    # Outside a Pod, a rank that stops cleanly exits with 0, and one that is cut off does not.
    codes.discard(FINISHED)
    return codes.pop() if len(codes) == 1 else None


def _is_complete(notes: Collection[ExitNote]) -> bool:
    """Whether all ranks of this machine have left a note."""
    world_size = max((note.world_size for note in notes), default=1)
    ranks = {note.rank for note in notes}
    return all(rank in ranks for rank in range(world_size))


def _content(path: str) -> bytes:
    """What the file holds; nothing if it is not a plain file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, NOTE_BYTES_MAX + 1)
    except OSError:
        return b""
    finally:
        os.close(file)
