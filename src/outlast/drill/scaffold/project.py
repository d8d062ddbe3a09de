"""A new project from the templates beside this file. Never writes over a file.

A template's name ends in `.template`, and `@NAME@` in it stands for the project's name. What is
hidden in a project has `dot-` in front here, because some tools pass hidden files over.
"""

import contextlib
import re
from collections.abc import Iterator
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from outlast.errors import OutlastError

NAME_CHARACTERS_MAX = 40
"""As in a workload file: node pools allow no more."""


class Kind(StrEnum):
    """What a new project does."""

    TRAINING = "training"
    BATCH = "batch"


class ScaffoldRefused(OutlastError, ValueError):
    """A new project cannot be written there, or under that name."""


def write_project(kind: Kind, folder: Path, name: str) -> list[Path]:
    """Write the files of a new project into a folder and give their paths.

    Raises `ScaffoldRefused` for a name that a cluster would refuse, or if one of the files is
    there already; then nothing is written. If killed: some files are missing, and the next try
    names those that are there.
    """
    check_name(name)
    texts = {path: text.replace("@NAME@", name) for path, text in sorted(templates(kind))}
    _refuse_existing(folder, list(texts))
    written: list[Path] = []
    try:
        for path, text in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            # Exclusively, should another program have been quicker.
            with target.open("x", encoding="utf-8") as file:
                written.append(target)
                file.write(text)
    except BaseException:
        for target in written:
            with contextlib.suppress(OSError):
                target.unlink()
        raise
    return written


def check_name(name: str) -> None:
    """Refuse a name that no Job, label or node pool may have."""
    is_label = re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name, re.ASCII) is not None
    if not is_label or len(name) > NAME_CHARACTERS_MAX:
        raise ScaffoldRefused(
            f"{name!r:.100} cannot be the name of a workload.",
            hint=f"Give --name up to {NAME_CHARACTERS_MAX} small letters, digits and '-', a letter"
            " first.",
        )


def templates(kind: Kind) -> Iterator[tuple[str, str]]:
    """The path of each file in the project, and its text."""
    root = files("outlast.drill.scaffold") / "templates" / kind.value
    yield from _walk(root, "")


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, str]]:
    for one in folder.iterdir():
        path = above + re.sub(r"^dot-", ".", one.name)
        if one.is_dir():
            yield from _walk(one, f"{path}/")
        elif path.endswith(".template"):
            yield path.removesuffix(".template"), one.read_text(encoding="utf-8")


def _refuse_existing(folder: Path, paths: list[str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise ScaffoldRefused(f"{str(folder)!r} is no folder.", hint="Name a new one.")
    # A link that leads nowhere is there too.
    found = [path for path in paths if (folder / path).exists() or (folder / path).is_symlink()]
    if found:
        raise ScaffoldRefused(
            f"In {str(folder)!r} there is {', '.join(map(repr, found))} already.",
            hint="Nothing was written. Name another folder.",
        )
