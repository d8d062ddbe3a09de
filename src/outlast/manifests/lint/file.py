"""A file as it was read: its objects, its node pools, and what is wrong with its text."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from outlast.manifests.lint.nodes import Map
from outlast.manifests.lint.pools.model import Capacity
from outlast.manifests.lint.reading import Broken, Repeated
from outlast.manifests.lint.source import Place, Source
from outlast.manifests.lint.view import Fault, Manifest


class Format(StrEnum):
    """What a file is written in."""

    MANIFEST = "manifest"
    SCRIPT = "script"
    TERRAFORM = "terraform"


@dataclass(frozen=True, kw_only=True)
class File:
    """One file. `documents` are all that were read, objects or not.

    `kustomization` is what a Kustomization in it says. `notice` tells a person what in it
    was left out, and why.
    """

    source: Source
    format: Format = Format.MANIFEST
    documents: list[Any] = field(default_factory=list)
    manifests: tuple[Manifest, ...] = ()
    broken: tuple[Broken, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    capacity: Capacity = field(default_factory=Capacity)
    kustomization: Map | None = None
    notice: str | None = None

    def fault(self, message: str, *, start: int, end: int, hint: str | None = None) -> Fault:
        place = Place(source=self.source, start=start, end=end)
        return Fault(message=message, place=place, hint=hint)
