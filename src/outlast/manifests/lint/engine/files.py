"""Find and read the files to lint, and replace those that were fixed.

Files named on the command line are always read, as is standard input for `-`. Below a folder, only
files are read that may contain an object or a node pool, judging by their suffix and a word that
all of these contain. Hidden files, hidden folders and links to folders are skipped. A link to
a file is read, but never written through. Files that only tests read are marked, because many of
them are wrong on purpose.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from outlast._base.files import write_below, write_file
from outlast.manifests.lint.errors import LintError

STDIN = "-"
STDIN_NAME = "<stdin>"
BYTES_MAX = 32 * 1024**2
"""No manifest is this large; a larger file is data that happens to end in .json."""

MANIFEST_ENDINGS = (".yaml", ".yml", ".json")
SCRIPT_ENDINGS = (".sh", ".bash")
TERRAFORM_ENDINGS = (".tf",)
TEMPLATE_ENDINGS = (".tftpl",)
JSONNET_ENDINGS = (".jsonnet", ".libsonnet")

_SKIPPED_FOLDERS = frozenset(("node_modules", "__pycache__", "site-packages", "venv"))
_TEST_DATA_FOLDERS = frozenset(("testdata", "test-data", "test_data"))
_TEST_FOLDERS = frozenset(("test", "tests"))
_DATA_FOLDERS = frozenset(("data", "fixtures"))
_WRONG_NAME = re.compile(r"(?:^|[_.-])(?:bad|broken|invalid|malformed)(?:$|[_.-])")
_MANIFEST_WORDS = (b"kind", b"nodePools", b"machineType")
_SCRIPT_WORDS = (b"gcloud",)
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """The bytes of a file. `folder` is the one it was found below, None if it was named itself.

    `is_link`: it is a symbolic link in that folder, which must not be written through.
    """

    name: str
    path: Path | None
    data: bytes
    folder: Path | None = None
    is_link: bool = False

    @property
    def is_named(self) -> bool:
        return self.folder is None

    @property
    def is_test_data(self) -> bool:
        """Whether it is data of tests, below the folder that was named.

        It is in a folder for such data, or in one for tests and its name says that it is wrong.
        """
        if self.path is None or self.folder is None:
            return False
        folders = self.path.relative_to(self.folder).parts[:-1]
        if not _TEST_DATA_FOLDERS.isdisjoint(folders):
            return True
        if _TEST_FOLDERS.isdisjoint(folders):
            return False
        return not _DATA_FOLDERS.isdisjoint(folders) or bool(_WRONG_NAME.search(self.path.stem))


def collect(
    paths: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    read_stdin: Callable[[], bytes] | None = None,
) -> Iterator[InputFile]:
    """Every file once: in the order given, the files below a folder sorted by name."""
    seen: set[Path] = set()
    candidates = [one for given in paths for one in _candidates(given)]
    # Links come last, so that a target in the same folder is found under its own name.
    for one in sorted(candidates, key=lambda one: one.is_link):
        if one.path is None:
            yield replace(one, data=(read_stdin or _read_stdin)())
            continue
        real = one.path.resolve()
        if real in seen or any(_matches(one.path, pattern) for pattern in exclude):
            continue
        seen.add(real)
        data = _read(one.path, is_named=one.is_named)
        if data is not None:
            yield replace(one, data=data)


def kustomizations_next_to(paths: Iterable[Path]) -> Iterator[InputFile]:
    """The Kustomizations next to these files, which may declare one of them a patch."""
    for folder in sorted({path.parent for path in paths}):
        for name in _KUSTOMIZATIONS:
            path = folder / name
            if path.is_file() and path.stat().st_size <= BYTES_MAX:
                yield InputFile(name=str(path), path=path, data=path.read_bytes())


def settings_of_pools(paths: Iterable[Path]) -> Iterator[InputFile]:
    """The readable files among those with kubelet settings that a script names."""
    for path in sorted(paths):
        # A script may name anything, and the file need not be on this machine.
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= BYTES_MAX:
                yield InputFile(name=str(path), path=path, data=path.read_bytes())


def is_kustomization(path: Path | None) -> bool:
    return path is not None and path.name in _KUSTOMIZATIONS


def replace_file(
    path: Path, data: bytes, *, expected: bytes | None = None, folder: Path | None = None
) -> None:
    """Replace the content of a file and keep its mode. The target of a link is replaced.

    With `expected`, refuses if the file no longer has that content. With `folder`, refuses links
    below it. If killed: the file has its old content or all of the new one; a hidden file whose
    name ends in `.new` may be left next to it.
    """
    if expected is not None and path.read_bytes() != expected:
        raise LintError(
            f"{str(path)!r} changed during the lint, so it was not fixed.",
            hint="Run the command again.",
        )
    if folder is None:
        write_file(path, data)
    else:
        write_below(folder, path.relative_to(folder).as_posix(), data)


def _candidates(given: str) -> Iterator[InputFile]:
    """The files at a path, not read yet."""
    if given == STDIN:
        yield InputFile(name=STDIN_NAME, path=None, data=b"")
        return
    path = Path(given)
    if not path.exists():
        raise LintError(
            f"There is no file or folder {given!r}.",
            hint="Check the path, or pass - for standard input.",
        )
    if not path.is_dir():
        yield InputFile(name=path.as_posix(), path=path, data=b"")
        return
    for below in _walk(path):
        is_link = below.is_symlink()
        yield InputFile(name=below.as_posix(), path=below, data=b"", folder=path, is_link=is_link)


def _walk(root: Path) -> Iterator[Path]:
    endings = (
        *MANIFEST_ENDINGS,
        *SCRIPT_ENDINGS,
        *TERRAFORM_ENDINGS,
        *TEMPLATE_ENDINGS,
        *JSONNET_ENDINGS,
    )
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if name[0] != "."
            and name not in _SKIPPED_FOLDERS
            and not (name == "vendor" and _is_of_go(Path(folder, name)))
        )
        for name in sorted(name for name in names if name[0] != "."):
            if name.endswith(endings) or name in _KUSTOMIZATIONS:
                yield Path(folder, name)


def _is_of_go(vendor: Path) -> bool:
    """Whether a folder has the sources of Go modules, with the manifests of their projects."""
    return any((vendor / name).exists() for name in ("modules.txt", "github.com", "k8s.io"))


def _read(path: Path, *, is_named: bool) -> bytes | None:
    if not is_named and not path.is_file():
        return None
    if path.is_file() and path.stat().st_size > BYTES_MAX:
        if is_named:
            raise LintError(
                f"{str(path)!r} has {path.stat().st_size:,} bytes; the limit is {BYTES_MAX:,}.",
                hint="Split it into several files.",
            )
        return None
    data = path.read_bytes()
    if not is_named and not _may_matter(path, data):
        return None
    return data


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
            f"Standard input has more than {BYTES_MAX:,} bytes.",
            hint="Split it into several files.",
        )
    return data
