"""What a rule is: a code, a severity, a manual and a generator of faults.

A rule is made by the decorator that says what it looks at. Its name is that of its file, and its
manual is the docstring of that file.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from outlast.manifests.lint.file import File
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.suppression import Ignore
from outlast.manifests.lint.view import Fault, Manifest

_CODE = re.compile(r"OL[1-79]\d\d")
_SECTIONS = re.compile(r"^(Why|Instead): (.*?)(?=\n\n|\n(?:Why|Instead): |\Z)", re.DOTALL | re.M)


class Severity(IntEnum):
    """How bad a finding is. Values compare."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Scope(StrEnum):
    """What a rule looks at, one after the other."""

    FILE = "file"
    OBJECT = "object"
    POD = "pod"
    REVIEW = "review"
    IGNORE = "ignore"


@dataclass(frozen=True, kw_only=True, slots=True)
class Manual:
    """The page of a rule: what the fault is, why it hurts, what to do instead."""

    title: str
    why: str
    instead: str
    text: str

    @classmethod
    def parse(cls, docstring: str) -> "Manual":
        title, _, rest = docstring.strip().partition("\n")
        sections = {name: _sentences(text) for name, text in _SECTIONS.findall(rest)}
        if not title.endswith(".") or set(sections) != {"Why", "Instead"}:
            raise ValueError(
                "A rule's file opens with a title that ends in a full stop, and paragraphs that "
                f"start with 'Why: ' and 'Instead: '; this one starts {title!r}."
            )
        return cls(
            title=title,
            why=sections["Why"],
            instead=sections["Instead"],
            text=docstring.strip(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule. `on_patches`: it makes sense for a part of an object, too."""

    code: str
    name: str
    severity: Severity
    scope: Scope
    manual: Manual
    check: Callable[..., Iterator[Fault]]
    on_patches: bool = False

    def __post_init__(self) -> None:
        if not _CODE.fullmatch(self.code):
            raise ValueError(f"The code {self.code!r} is not OL and three digits, first 1-7 or 9.")

    def __str__(self) -> str:
        return f"{self.code} {self.name}"


FileCheck = Callable[[File, Review], Iterator[Fault]]
ObjectCheck = Callable[[Manifest, Review], Iterator[Fault]]
PodCheck = Callable[[Pod, Review], Iterator[Fault]]
ReviewCheck = Callable[[Review], Iterator[Fault]]
IgnoreCheck = Callable[[Ignore, Review], Iterator[Fault]]


def file_rule(code: str, severity: Severity) -> Callable[[FileCheck], Rule]:
    """A rule that looks at each file as it was read."""
    return lambda check: _made(check, code, severity, Scope.FILE)


def object_rule(
    code: str, severity: Severity, *, on_patches: bool = False
) -> Callable[[ObjectCheck], Rule]:
    """A rule that looks at each object."""
    return lambda check: _made(check, code, severity, Scope.OBJECT, on_patches=on_patches)


def pod_rule(
    code: str, severity: Severity, *, on_patches: bool = False
) -> Callable[[PodCheck], Rule]:
    """A rule that looks at each Pod and each template of Pods."""
    return lambda check: _made(check, code, severity, Scope.POD, on_patches=on_patches)


def review_rule(code: str, severity: Severity) -> Callable[[ReviewCheck], Rule]:
    """A rule that looks once, at everything together."""
    return lambda check: _made(check, code, severity, Scope.REVIEW)


def ignore_rule(code: str, severity: Severity) -> Callable[[IgnoreCheck], Rule]:
    """A rule that looks at each ignore, after all others have run."""
    return lambda check: _made(check, code, severity, Scope.IGNORE)


def _sentences(text: str) -> str:
    joined = " ".join(text.split())
    return joined[:1].upper() + joined[1:]


def _made(
    check: Any, code: str, severity: Severity, scope: Scope, *, on_patches: bool = False
) -> Rule:
    return Rule(
        code=code,
        name=check.__module__.rpartition(".")[2].replace("_", "-"),
        severity=severity,
        scope=scope,
        manual=Manual.parse(check.__globals__["__doc__"] or ""),
        check=check,
        on_patches=on_patches,
    )
