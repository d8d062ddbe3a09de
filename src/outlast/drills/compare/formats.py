"""Detect incomplete files of known formats. Reads them; changes nothing.

Nothing is unpickled. A file of an unknown format never counts as incomplete.
"""

import itertools
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

CHECKED_BYTES_MAX = 64 * 1024**2
"""Larger text files are not checked."""

_BESIDE_MAX = 20


def torn(path: Path) -> str | None:
    """Why the file is incomplete; None if it is not, or if that is unknown."""
    check = _CHECKS.get(path.suffix.lower())
    if check is None:
        return None
    try:
        if path.stat().st_size == 0:
            return "it is empty" if path.suffix.lower() not in _MAY_BE_EMPTY else None
        return check(path)
    except (FileNotFoundError, MemoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        return str(error) or type(error).__name__
    except (KeyError, IndexError, TypeError, AttributeError):
        return "its header is invalid"


def torn_among(folder: Path, recent: Sequence[str]) -> tuple[str, ...]:
    """Which of the files written last are incomplete.

    If older files with the same extension cannot be read either, the extension is only misleading.
    """
    return tuple(
        name
        for name in recent
        if torn(folder / name) is not None and not _is_usual(folder, name, recent)
    )


def _is_usual(folder: Path, name: str, recent: Sequence[str]) -> bool:
    path = folder / name
    known = {folder / one for one in recent}
    beside = itertools.islice(path.parent.glob(f"*{path.suffix}"), _BESIDE_MAX)
    return any(torn(one) is not None for one in beside if one not in known)


def _json(path: Path) -> str | None:
    if path.stat().st_size <= CHECKED_BYTES_MAX:
        json.loads(path.read_bytes())
    return None


def _json_lines(path: Path) -> str | None:
    """Only the last line can be incomplete, because lines are appended."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1024**2))
        last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    if last:
        json.loads(last)
    return None


def _zip(path: Path) -> str | None:
    """Checkpoints of PyTorch and NumPy are archives, whose table of contents is at the end."""
    import zipfile

    with path.open("rb") as file:
        if file.read(2) != b"PK":
            return None
    return None if zipfile.is_zipfile(path) else "its table of contents is missing"


def _numpy(path: Path) -> str | None:
    import numpy as np

    np.load(path, mmap_mode="r", allow_pickle=False)
    return None


def _safetensors(path: Path) -> str | None:
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))[0]
        if length > path.stat().st_size:
            return "its header is cut off"
        header = json.loads(file.read(length))
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    missing = 8 + length + max(ends, default=0) - path.stat().st_size
    return f"{missing} bytes are missing" if missing > 0 else None


def _pickle(path: Path) -> str | None:
    """A pickle ends with a period. It is not loaded."""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return None if file.read() == b"." else "it does not end like a pickle"


_CHECKS: Mapping[str, Callable[[Path], str | None]] = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".npz": _zip,
    ".npy": _numpy,
    ".zip": _zip,
    ".pt": _zip,
    ".pth": _zip,
    ".ckpt": _zip,
    ".safetensors": _safetensors,
    ".pkl": _pickle,
    ".pickle": _pickle,
}
_MAY_BE_EMPTY = frozenset({".jsonl", ".ndjson"})
