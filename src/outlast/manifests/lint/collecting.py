"""Find the files to look at: named ones, those below folders, and standard input as `-`.

Named files are always read. Below a folder, only files are that may hold an object or a node pool:
by their ending and a word that none of these lacks. Hidden files and folders and links to folders
are left alone.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from outlast.manifests.lint.errors import LintError

STDIN = "-"
STDIN_NAME = "<stdin>"
BYTES_MAX = 32 * 1024**2
"""No manifest comes near; a larger file is data that happens to end in .json."""

MANIFEST_ENDINGS = (".yaml", ".yml", ".json")
SCRIPT_ENDINGS = (".sh", ".bash")
TERRAFORM_ENDINGS = (".tf",)

_SKIPPED_FOLDERS = frozenset(("node_modules", "__pycache__", "site-packages", "venv"))
_MANIFEST_WORDS = (b"kind", b"nodePools", b"machineType")
_SCRIPT_WORDS = (b"gcloud",)
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The bytes of a file. `is_named`: somebody asked for this one."""

    name: str
    path: Path | None
    data: bytes
    is_named: bool = True


def collect(
    paths: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    read_stdin: Callable[[], bytes] | None = None,
) -> Iterator[Found]:
    """Every file once, named ones first come first served, folders in order of their names."""
    seen: set[Path] = set()
    for given in paths:
        if given == STDIN:
            data = (read_stdin or _read_stdin)()
            yield Found(name=STDIN_NAME, path=None, data=data)
            continue
        for path, is_named in _files(Path(given)):
            real = path.resolve()
            if real in seen or any(_matches(path, pattern) for pattern in exclude):
                continue
            seen.add(real)
            found = _read(path, is_named=is_named)
            if found is not None:
                yield found


def kustomizations_beside(paths: Iterable[Path]) -> Iterator[Found]:
    """The Kustomizations in the folders of these files, which may say that one is a patch."""
    for folder in sorted({path.parent for path in paths}):
        for name in _KUSTOMIZATIONS:
            path = folder / name
            if path.is_file() and path.stat().st_size <= BYTES_MAX:
                yield Found(name=str(path), path=path, data=path.read_bytes())


def settings_of_pools(paths: Iterable[Path]) -> Iterator[Found]:
    """The files with kubelet settings that a script names, as far as they can be read."""
    for path in sorted(paths):
        # A script may name anything, and it need not lie here.
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= BYTES_MAX:
                yield Found(name=str(path), path=path, data=path.read_bytes())


def is_kustomization(path: Path | None) -> bool:
    return path is not None and path.name in _KUSTOMIZATIONS


def _files(path: Path) -> Iterator[tuple[Path, bool]]:
    if not path.exists():
        raise LintError(
            f"There is no file or folder {str(path)!r}.",
            hint="Check the path, or pass - for stdin.",
        )
    if not path.is_dir():
        yield path, True
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(n for n in folders if n[0] != "." and n not in _SKIPPED_FOLDERS)
        for name in sorted(name for name in names if name[0] != "."):
            if name.endswith((*MANIFEST_ENDINGS, *SCRIPT_ENDINGS, *TERRAFORM_ENDINGS)):
                yield Path(folder, name), False
            elif name in _KUSTOMIZATIONS:
                yield Path(folder, name), False


def _read(path: Path, *, is_named: bool) -> Found | None:
    if not is_named and not path.is_file():
        return None
    if path.is_file() and path.stat().st_size > BYTES_MAX:
        if is_named:
            raise LintError(
                f"{str(path)!r} has {path.stat().st_size:,} bytes; at most {BYTES_MAX:,} are read.",
                hint="Cut it into several files.",
            )
        return None
    data = path.read_bytes()
    if not is_named and not _may_matter(path, data):
        return None
    return Found(name=path.as_posix(), path=path, data=data, is_named=is_named)


def _may_matter(path: Path, data: bytes) -> bool:
    if path.suffix in TERRAFORM_ENDINGS or is_kustomization(path):
        return True
    words = _SCRIPT_WORDS if path.suffix in SCRIPT_ENDINGS else _MANIFEST_WORDS
    # In UTF-16 every other byte is zero, and the words would not be found.
    return any(word in data for word in words) or data[:2] in (b"\xff\xfe", b"\xfe\xff")


def _matches(path: Path, pattern: str) -> bool:
    text = path.as_posix()
    return (
        fnmatch(text, pattern)
        or fnmatch(text, f"*/{pattern}")
        or f"/{text}/".find(f"/{pattern.strip('/')}/") >= 0
    )


def _read_stdin() -> bytes:
    if sys.stdin is None:
        return b""
    data = sys.stdin.buffer.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise LintError(
            f"Standard input has more than {BYTES_MAX:,} bytes.", hint="Cut it into several files."
        )
    return data
