"""The files that overlays refer to. Nothing outside the allowed folders is read."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from outlast.manifests.lint.engine.files import BYTES_MAX, InputFile, is_kustomization
from outlast.manifests.lint.kubernetes.review import LoadedFile
from outlast.manifests.lint.kustomize.errors import CannotBuild
from outlast.manifests.lint.tree import BuiltMap, copied
from outlast.yamltext.nodes import Map
from outlast.yamltext.reading import read
from outlast.yamltext.source import SourceText

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_REMOTE = ("https://", "http://", "ssh://", "git::", "git@", "file://", "oci://", "s3::", "gcs::")


class KustomizeFiles:
    """Reads each file once. `folders` are those that were linted, with everything below."""

    def __init__(
        self,
        files: Iterable[LoadedFile],
        load: Callable[[InputFile], LoadedFile],
        folders: Iterable[Path],
    ) -> None:
        self._load = load
        self._known = {
            file.source.path.resolve(): file for file in files if file.source.path is not None
        }
        self._folders = {folder.resolve() for folder in folders}
        self._here = Path.cwd().resolve()
        self._repositories: dict[Path, Path | None] = {}
        self.read_here: list[LoadedFile] = []
        """Files outside of those that were linted."""

    def find(self, text: str, folder: Path) -> Path:
        """The file or folder that a Kustomization in `folder` names."""
        if is_remote(text):
            raise CannotBuild(f"{text!r} is not on this machine")
        path = folder / text
        try:
            real = path.resolve()
            exists = real.exists()
        except (OSError, RuntimeError, ValueError) as error:
            raise CannotBuild(f"{text!r} cannot be read: {error}") from error
        if not self._is_allowed(real, folder.resolve()):
            raise CannotBuild(
                f"{text!r} is outside of the linted folders and the repository; lint a folder that "
                "contains both"
            )
        if not exists:
            # A remote URL without a scheme starts with a host.
            if "." in text.split("/")[0].strip(".") and "/" in text and not text.startswith("."):
                raise CannotBuild(f"{text!r} is not on this machine")
            raise CannotBuild(f"there is no file or folder {text!r}")
        return real

    def file(self, path: Path) -> LoadedFile:
        """The content of a file that `find` has found."""
        if path not in self._known:
            try:
                if path.stat().st_size > BYTES_MAX:
                    raise CannotBuild(f"{path.name!r} is larger than {BYTES_MAX:,} bytes")
                data = path.read_bytes()
            except OSError as error:
                raise CannotBuild(f"{path.name!r} cannot be read: {error.strerror}") from error
            shown = _shown(path)
            self._known[path] = self._load(InputFile(name=shown, path=path, data=data))
            self.read_here.append(self._known[path])
        return self._known[path]

    def kustomization(self, folder: Path) -> LoadedFile:
        """The Kustomization of a folder."""
        for name in _NAMES:
            if (folder / name).is_file():
                return self.file((folder / name).resolve())
        raise CannotBuild(f"{folder.name!r} contains no kustomization.yaml")

    def _is_allowed(self, path: Path, folder: Path) -> bool:
        roots = {*self._folders, self._here} if folder.is_relative_to(self._here) else self._folders
        repository = self._repository(folder)
        return any(path.is_relative_to(root) for root in roots) or (
            repository is not None and path.is_relative_to(repository)
        )

    def _repository(self, folder: Path) -> Path | None:
        if folder not in self._repositories:
            self._repositories[folder] = next(
                (one for one in (folder, *folder.parents) if (one / ".git").exists()), None
            )
        return self._repositories[folder]


def is_remote(text: str) -> bool:
    return text.startswith(_REMOTE) or "?ref=" in text or "//" in text


def _shown(path: Path) -> str:
    """The path as findings show it: relative if it is below the working folder."""
    here = Path.cwd().resolve()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()


def inline_documents(text: str, source: SourceText, span: tuple[int, int, int, int]) -> list[Any]:
    """The documents in a text inside a Kustomization, with their positions in its file."""
    content = read(text)
    if content.broken:
        raise CannotBuild(f"an inline patch cannot be read: {content.broken[0].reason}")
    shift = _shift(text, source.text, span[2], span[3])
    return [copied(document, source, shift) for document in content.documents]


def file_documents(file: LoadedFile) -> list[Any]:
    """Copies of the documents of a file."""
    if file.reading.broken:
        reason = file.reading.broken[0].reason
        raise CannotBuild(f"{file.source.name!r} cannot be read: {reason}")
    return [copied(document, file.source) for document in file.reading.documents]


def _shift(value: str, text: str, start: int, end: int) -> Callable[[int], int]:
    """Where an offset of a literal block is in its file; the start for other notations."""
    header, newline, body = text[start:end].partition("\n")
    first = body.lstrip("\n")
    indent = len(first) - len(first.lstrip(" "))
    if not header.startswith("|") or not newline:
        return lambda offset: start
    raw_starts = [start + len(header) + 1]
    for line in body.split("\n"):
        raw_starts.append(raw_starts[-1] + len(line) + 1)
    value_starts = [0]
    for line in value.split("\n"):
        value_starts.append(value_starts[-1] + len(line) + 1)

    def moved(offset: int) -> int:
        from bisect import bisect_right

        line = min(bisect_right(value_starts, offset) - 1, len(raw_starts) - 1)
        return min(raw_starts[line] + indent + offset - value_starts[line], end)

    return moved


def kustomization_of(file: LoadedFile) -> BuiltMap:
    if isinstance(file.kustomization, Map):
        found = copied(file.kustomization, file.source)
        assert isinstance(found, BuiltMap)
        return found
    raise CannotBuild(f"{file.source.name!r} contains no Kustomization")


__all__ = [
    "KustomizeFiles",
    "file_documents",
    "inline_documents",
    "is_kustomization",
    "is_remote",
    "kustomization_of",
]
