"""Files that take the place of others whole, or not at all."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` once the block has ended well, and is gone otherwise.

    Without a `mode` it has that of the file before it. What a link points to is replaced, and a
    device or a pipe is written to as it is.

    If killed: `path` is as it was before, or the new file is there whole; a hidden file whose name
    ends in `.new` may stay beside it.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    if mode is None and target.exists():
        mode = stat.S_IMODE(target.stat().st_mode)
    # A name of its own, because several processes may write the same file.
    aside = target.with_name(f".outlast-{os.urandom(8).hex()}.new")
    try:
        with aside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            aside.chmod(mode)
        aside.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` into the place of `path`, as `replacing` does."""
    with replacing(path, mode=mode) as file:
        file.write(data)
