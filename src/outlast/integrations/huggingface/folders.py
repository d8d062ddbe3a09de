"""Folders of files as arrays, so that a checkpoint contains them, and back."""

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from outlast._base.files import replacing
from outlast.checkpoint.errors import CheckpointCorrupt


def read_folder(folder: Path) -> dict[str, Any]:
    """All files of a folder by their names, as arrays of bytes."""
    return {
        path.relative_to(folder).as_posix(): np.fromfile(path, np.uint8)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write_folder(folder: Path, files: dict[str, Any]) -> None:
    """Write files that another process has read, except for those that are the same already.

    If killed: each file is complete or as it was before.
    """
    for name, content in files.items():
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts:
            raise CheckpointCorrupt(f"The checkpoint has a file outside its folder: {name!r}.")
        path = folder.joinpath(*parts)
        if path.is_file() and np.array_equal(np.fromfile(path, np.uint8), content):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(content.data)
