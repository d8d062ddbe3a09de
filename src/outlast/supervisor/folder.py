"""The private folder in which the processes below `outlast exec` leave their notes."""

import contextlib
import os
from collections.abc import Iterator


class NotesFolder:
    """A folder for notes, as long as the block. `path` is None if there is no place for it.

    If killed: the folder stays, with a few bytes per process.
    """

    def __init__(self) -> None:
        self.path = _make_folder()

    def __enter__(self) -> "NotesFolder":
        return self

    def __exit__(self, *_: object) -> None:
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    os.unlink(f"{self.path}/{name}")  # noqa: PTH108
            os.rmdir(self.path)  # noqa: PTH106


def _make_folder() -> str | None:
    for place in _places():
        path = f"{place}/outlast-exec-{os.urandom(8).hex()}"
        with contextlib.suppress(OSError):
            os.mkdir(path, 0o700)  # noqa: PTH102
            return path
    return None


def _places() -> Iterator[str]:
    if given := os.environ.get("TMPDIR"):
        yield os.path.abspath(given)  # noqa: PTH100
    # In memory: a full or slow disk cannot lose or delay a note. Writable in read-only containers.
    yield "/dev/shm"
    yield "/tmp"
