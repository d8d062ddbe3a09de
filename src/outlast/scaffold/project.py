"""Write a new project from the templates next to this file. Never overwrites a file.

The name of a template ends in `.template`. In its text, `@NAME@` is replaced by the name of the
project and `@VERSION@` by the version of Outlast. Hidden files have the prefix `dot-`, because some
tools skip hidden files.
"""

import contextlib
import re
from collections.abc import Iterator
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from outlast._base.files import refuse_links_below, write_below
from outlast._base.version import __version__
from outlast.errors import OutlastError

NAME_CHARACTERS_MAX = 40
"""As in a workload file: the limit for names of node pools."""


class ProjectKind(StrEnum):
    """The kind of a new project."""

    TRAINING = "training"
    BATCH = "batch"


class Framework(StrEnum):
    """The framework of a new training project."""

    NUMPY = "numpy"
    TORCH = "torch"
    JAX = "jax"
    HUGGINGFACE = "huggingface"
    LIGHTNING = "lightning"


class ScaffoldRefused(OutlastError, ValueError):
    """A new project cannot be written to this folder or with this name."""


def write_project(
    kind: ProjectKind, folder: Path, name: str, framework: Framework | None = None
) -> list[Path]:
    """Write the files of a new project into a folder. Returns their paths.

    Only a training has a framework, which is NumPy if it is None.
    Raises `ScaffoldRefused` if the name is not valid in a cluster or if a file exists already, and
    `OutlastError` if the folder contains a symbolic link in place of a file or folder to write.
    Then nothing is written. If killed: some files are missing, and the next attempt reports those
    that exist.
    """
    check_name(name)
    if framework is not None and kind is not ProjectKind.TRAINING:
        raise ScaffoldRefused(
            f"A {kind} project has no framework, but {framework.value!r} was given.",
            hint="Remove --framework, or use: outlast scaffold training",
        )
    replacements = {"@NAME@": name, "@VERSION@": __version__}
    found = templates(kind, framework)
    texts = {path: _filled_in(text, replacements) for path, text in sorted(found)}
    _refuse_existing(folder, list(texts))
    refuse_links_below(folder, texts)
    written: list[Path] = []
    try:
        for path, text in texts.items():
            # Exclusively, in case another program has created the file in the meantime.
            written.append(write_below(folder, path, text.encode(), exclusive=True))
    except BaseException as error:
        for target in written:
            with contextlib.suppress(OSError):
                target.unlink()
        if isinstance(error, OSError):
            raise _not_written(folder, error) from error
        raise
    return written


def check_name(name: str) -> None:
    """Refuse a name that is not valid for a Job, a label and a node pool."""
    is_label = re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name, re.ASCII) is not None
    if not is_label or len(name) > NAME_CHARACTERS_MAX:
        raise ScaffoldRefused(
            f"{name!r:.100} is not a valid workload name.",
            hint=f"Set --name to at most {NAME_CHARACTERS_MAX} lowercase letters, digits and '-',"
            " starting with a letter.",
        )


def templates(kind: ProjectKind, framework: Framework | None = None) -> Iterator[tuple[str, str]]:
    """The path and text of each file of a project. A framework replaces some of them."""
    root = files("outlast.scaffold") / "templates"
    texts = dict(_walk(root / kind.value, ""))
    if framework not in (None, Framework.NUMPY):
        texts |= _walk(root / "frameworks" / framework.value, "")
    yield from texts.items()


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, str]]:
    for one in folder.iterdir():
        path = above + re.sub(r"^dot-", ".", one.name)
        if one.is_dir():
            yield from _walk(one, f"{path}/")
        elif path.endswith(".template"):
            yield path.removesuffix(".template"), one.read_text(encoding="utf-8")


def _filled_in(text: str, replacements: dict[str, str]) -> str:
    return re.sub("|".join(replacements), lambda found: replacements[found[0]], text)


def _refuse_existing(folder: Path, paths: list[str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise ScaffoldRefused(
            f"{str(folder)!r} is a file, not a folder.", hint="Choose another folder."
        )
    # A broken link exists, too.
    found = [path for path in paths if (folder / path).exists() or (folder / path).is_symlink()]
    if found:
        raise ScaffoldRefused(
            f"{str(folder)!r} already contains {', '.join(map(repr, found))}.",
            hint="Nothing was written. Choose another folder.",
        )


def _not_written(folder: Path, error: OSError) -> ScaffoldRefused:
    return ScaffoldRefused(
        f"Could not write to {str(folder)!r}: {error.strerror}.",
        hint="Nothing was kept. Choose another folder.",
    )
