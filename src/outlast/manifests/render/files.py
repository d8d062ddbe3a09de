"""The rendered files: as one stream for a pipe, or written into a folder."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from outlast._base.files import write_file
from outlast.errors import OutlastError
from outlast.manifests.render.text import Value, to_yaml

SETUP = "setup"
"""The folder of what is no manifest, so that `kubectl apply -f DIR` passes it by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedFile:
    """A file of the rendering. `path` is relative, with at most one folder."""

    path: str
    text: str

    @property
    def is_manifest(self) -> bool:
        return "/" not in self.path

    @property
    def is_executable(self) -> bool:
        return self.path.endswith(".sh")


def manifest(path: str, body: Value, *, reason: str = "") -> RenderedFile:
    return RenderedFile(path=path, text=to_yaml(body, reason=reason))


def as_stream(files: Iterable[RenderedFile]) -> str:
    """All files as one stream of YAML documents that `kubectl apply -f -` takes.

    What is no manifest comes first, as comments.
    """
    files = list(files)
    parts = []
    for file in files:
        if not file.is_manifest:
            lines = [f"# | {line}".rstrip() for line in file.text.splitlines()]
            parts.append("\n".join([f"# file: {file.path}", *lines]) + "\n\n")
    parts += [f"---\n# file: {file.path}\n{file.text}" for file in files if file.is_manifest]
    return "".join(parts)


def write_files(files: Iterable[RenderedFile], folder: Path) -> list[Path]:
    """Write the files into a folder and say which. Earlier files of the same names are replaced.

    Each is complete or not there. If killed, some files are the old ones and some the new, and a
    hidden one that ends in `.new` may stay, which kubectl passes by; doing it again sets it right.
    Files that a rendering of another tier left are refused: `kubectl apply -f` would take them too.
    """
    files = list(files)
    _refuse_strangers(files, folder)
    written = []
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, file.text.encode(), mode=0o755 if file.is_executable else 0o644)
        written.append(path)
    return written


def _refuse_strangers(files: list[RenderedFile], folder: Path) -> None:
    expected = {file.path for file in files}
    there = [*folder.glob("*.yaml"), *(folder / SETUP).glob("*")]
    rendered = re.compile(r"(\d\d-.*\.yaml)|(setup/(node-pool|system-config|access)\..*)")
    names = sorted(path.relative_to(folder).as_posix() for path in there)
    strangers = [name for name in names if name not in expected and rendered.fullmatch(name)]
    if strangers:
        raise OutlastError(
            f"{str(folder)!r} holds files of another rendering: {', '.join(strangers[:5])}.",
            hint="Delete them, or render into another folder: `kubectl apply` would take them too.",
        )
