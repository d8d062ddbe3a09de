"""The rendered files: as one stream for a pipe, or written into a folder."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from outlast._base.files import refuse_links_below, write_below
from outlast.errors import OutlastError
from outlast.yamltext.writing import Value, to_yaml

SETUP = "setup"
"""The folder for files that are not manifests, which `kubectl apply -f DIR` ignores."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedFile:
    """A rendered file. `path` is relative, with at most one folder."""

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
    """All files as one stream of YAML documents for `kubectl apply -f -`.

    Files that are not manifests come first, as comments.
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
    """Write the files into a folder and return their paths. Files of the same name are replaced.

    Refuses if the folder has files from rendering another tier: `kubectl apply -f` would apply them
    too. Each file is written completely or not at all. If killed, some files are old and some new,
    and a hidden file that ends in `.new` may be left, which kubectl ignores; run it again.
    """
    files = list(files)
    # Check all of them first, so that nothing is written if one is refused.
    refuse_links_below(folder, (file.path for file in files))
    _refuse_leftovers(files, folder)
    return [
        write_below(
            folder,
            file.path,
            file.text.encode(),
            mode=0o755 if file.is_executable else 0o644,
        )
        for file in files
    ]


def _refuse_leftovers(files: list[RenderedFile], folder: Path) -> None:
    expected = {file.path for file in files}
    there = [*folder.glob("*.yaml"), *(folder / SETUP).glob("*")]
    rendered = re.compile(r"(\d\d-.*\.yaml)|(setup/(node-pool|system-config|access)\..*)")
    names = sorted(path.relative_to(folder).as_posix() for path in there)
    leftovers = [name for name in names if name not in expected and rendered.fullmatch(name)]
    if leftovers:
        raise OutlastError(
            f"{str(folder)!r} contains files from another rendering: {', '.join(leftovers[:5])}.",
            hint="Delete them or render into another folder: `kubectl apply` would apply them too.",
        )
