"""The private folder in which the processes below `outlast exec` leave their notes."""

from __future__ import annotations

import os

# Type checkers know this name without an import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class NotesFolder:
    """A folder for notes, as long as the block. `path` is None if there is no place for it.

    If killed: the folder stays, with a few bytes per process.
    """

    def __init__(self) -> None:
        self.path = _make_folder()

    def __enter__(self) -> NotesFolder:
        return self

    def __exit__(self, *_: object) -> None:
        if self.path is None:
            return
        try:
            for name in os.listdir(self.path):  # noqa: PTH208
                _remove(f"{self.path}/{name}")
            os.rmdir(self.path)  # noqa: PTH106
        except OSError:
            pass


def _make_folder() -> str | None:
    for place in _places():
        path = f"{place}/outlast-exec-{os.urandom(8).hex()}"
        try:
            os.mkdir(path, 0o700)  # noqa: PTH102
        except OSError:
            continue
        return path
    return None


def _remove(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except OSError:
        pass


def _places() -> Iterator[str]:
    if given := os.environ.get("TMPDIR"):
        yield os.path.abspath(given)  # noqa: PTH100
    # In memory: a full or slow disk cannot lose or delay a note. Writable in read-only containers.
    yield "/dev/shm"
    yield "/tmp"
