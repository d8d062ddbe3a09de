"""Tell `outlast exec` how this process ends, past a launcher that hides it.

torchrun exits with 1 no matter how its workers exit. So each process with a guard writes a note to
the folder that `outlast exec` names in OUTLAST_NOTES: a file `<local rank>-<restart>-<pid>`. Its
line has the number of local ranks and, once the process exits, the codes with which it exits if it
was interrupted. The byte after that line is the exit code.

Standard library only, and quick to import. Nothing here raises, and without OUTLAST_NOTES nothing
is written. If killed: the note has no exit code, which is how `outlast exec` recognizes a kill.
"""

import contextlib
import os
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from outlast.interruption.exec_settings import NOTES

# As long as a note with several codes can be. More is not a note.
NOTE_BYTES_MAX = 128

# Not compiled here: `outlast exec` must start at once, and needs them only at its end.
_NAME = r"(\d{1,6})-(\d{1,6})-(\d{1,10})"
_CONTENT = rb"(\d{1,6})((?: \d{1,3}){0,8})\n(.{0,2})"


class ExitNote(NamedTuple):
    """How one process ended. `exit_code` is None if it did not exit by itself."""

    rank: int
    restart: int
    pid: int
    world_size: int
    interrupted_codes: frozenset[int]
    exit_code: int | None


def parse_note(name: str, content: bytes) -> ExitNote | None:
    """The note in a file, or None if the file is not one."""
    names = re.fullmatch(_NAME, name, re.ASCII)
    contents = re.fullmatch(_CONTENT, content, re.DOTALL)
    if names is None or contents is None:
        return None
    world_size, codes, ending = contents.groups()
    return ExitNote(
        rank=int(names[1]),
        restart=int(names[2]),
        pid=int(names[3]),
        world_size=int(world_size),
        interrupted_codes=frozenset(int(code) for code in codes.split()),
        # The second byte is the real code; the first was expected before.
        exit_code=ending[-1] if ending else None,
    )


def rank_without_note(pid: int, environ: Mapping[str, str]) -> ExitNote:
    """What is known of a process that has not exited, from the variables of its launcher."""
    return ExitNote(
        rank=_number(environ, "LOCAL_RANK", 0),
        restart=_number(environ, "TORCHELASTIC_RESTART_COUNT", 0),
        pid=pid,
        world_size=_number(environ, "LOCAL_WORLD_SIZE", 1),
        interrupted_codes=frozenset(),
        exit_code=None,
    )


# Path and content of the note of this process, and of a parent that forked it.
_own: tuple[str, ExitNote] | None = None


def begin_note() -> None:
    """Note that this process has a guard. Later calls do nothing."""
    global _own
    if _note_of_this_process() is not None or not (folder := os.environ.get(NOTES.variable)):
        return
    note = rank_without_note(os.getpid(), os.environ)
    _own = (f"{folder}/{note.rank}-{note.restart}-{note.pid}", note)
    _write(*_own, codes=(), ending=b"")


def note_exit_now(code: int) -> None:
    """Note that the guard ends this process now, with this interrupted code."""
    if (own := _note_of_this_process()) is not None:
        _write(*own, codes=(code,), ending=bytes([code]))


def note_exit_later(interrupted_codes: Collection[int], *, expected: int | None) -> None:
    """Have the real exit code noted when this process ends. Called while the interpreter exits.

    `expected` is the code to assume if this process is ended before that, by a timer or a signal.
    """
    if (own := _note_of_this_process()) is None:
        return
    path, note = own
    ending = b"" if expected is None else bytes([expected])
    _write(path, note, codes=interrupted_codes, ending=ending)
    if not _append_exit_code_at_end(path):
        # Without the code, this would look like a kill.
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108


def _append_exit_code_at_end(path: str) -> bool:
    """Have the C library append the exit code as one byte. Returns false if it cannot.

    Only the C library knows the code: while atexit functions run, Python has already forgotten the
    `SystemExit`, and cannot tell whether it was caught.
    """
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import ctypes

        c_library = ctypes.CDLL(None)
        call_at_end = c_library.on_exit  # glibc only
        c_library.fopen.restype = ctypes.c_void_p
        stream = c_library.fopen(os.fsencode(path), b"ae")
        if stream:
            c_library.setbuf(ctypes.c_void_p(stream), None)
            # At the end, this calls fputc(exit code, stream).
            return bool(call_at_end(c_library.fputc, ctypes.c_void_p(stream)) == 0)
    return False


def _note_of_this_process() -> tuple[str, ExitNote] | None:
    """The note, unless a forked child inherited it from its parent."""
    return _own if _own is not None and _own[1].pid == os.getpid() else None


def _write(path: str, note: ExitNote, *, codes: Collection[int], ending: bytes) -> None:
    """Replace the note. If killed: the previous one stays, and is complete."""
    line = " ".join(map(str, (note.world_size, *sorted(codes))))
    new_path = f"{path}.{len(ending)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with contextlib.suppress(OSError):
        file = os.open(new_path, flags, 0o600)
        try:
            os.write(file, f"{line}\n".encode() + ending)
        finally:
            os.close(file)
        os.replace(new_path, path)  # noqa: PTH105


def _number(environ: Mapping[str, str], variable: str, default: int) -> int:
    text = environ.get(variable, "")
    return int(text) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else default
