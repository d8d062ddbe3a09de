"""The folder in which the demo leaves what it has made, and nothing of anyone else's.

A file marks it as the demo's. What a user put beside it stays.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from outlast.drill.errors import DrillError

MARK = ".outlast-demo"
MADE = ("model.npz", "results.jsonl", "training.html", "scoring.html")


@contextlib.contextmanager
def demo_folder(folder: Path) -> Iterator[Path]:
    """A folder for one demo at a time, without what an earlier demo made there.

    Raises `DrillError` for a folder that is someone else's, or cannot be written to. If killed: the
    folder stays with what was made so far, and the next demo removes that.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
            raise DrillError(
                f"The folder {str(folder)!r} is not empty, and no earlier demo made it.",
                hint="Name another one with --out.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        mark = os.open(folder / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise DrillError(
            f"The folder {str(folder)!r} cannot be used: {error.strerror}.",
            hint="Name one that can be written to with --out.",
        ) from error
    try:
        _hold(mark, folder)
        for name in MADE:
            (folder / name).unlink(missing_ok=True)
        yield folder.resolve()
    finally:
        # A worker that was killed while it wrote may have left its file aside.
        for name in MADE:
            for aside in folder.glob(f".{name}*.new"):
                aside.unlink(missing_ok=True)
        os.close(mark)


def _hold(mark: int, folder: Path) -> None:
    """The kernel frees it when its holder dies."""
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DrillError(
            f"Another demo is at work in the folder {str(folder)!r}.",
            hint="Wait for it, or name another folder with --out.",
        ) from None
