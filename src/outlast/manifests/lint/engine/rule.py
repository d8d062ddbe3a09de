"""What a rule is: a code, a severity, a manual and a generator of faults.

A decorator creates the rule and determines what it is called for. The rule is named after its
file, and its manual is the docstring of that file.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum, StrEnum
from typing import Any

from outlast.manifests.lint.engine.suppression import Ignore
from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.kubernetes.pod import Pod
from outlast.manifests.lint.kubernetes.review import LoadedFile, Review
from outlast.manifests.lint.view import Fault, KubernetesObject

_CODE = re.compile(r"OL[1-79]\d\d")
_SECTIONS = re.compile(r"^(Why|Instead): (.*?)(?=\n\n|\n(?:Why|Instead): |\Z)", re.DOTALL | re.M)
FileCheck = Callable[[LoadedFile, Review], Iterator[Fault]]
ObjectCheck = Callable[[KubernetesObject, Review], Iterator[Fault]]
PodCheck = Callable[[Pod, Review], Iterator[Fault]]
ReviewCheck = Callable[[Review], Iterator[Fault]]
IgnoreCheck = Callable[[Ignore, Review], Iterator[Fault]]
EVERYTHING = "ALL"


class Severity(IntEnum):
    """How severe a finding is. Values can be compared."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class RuleScope(StrEnum):
    """What a rule is called for."""

    FILE = "file"
    OBJECT = "object"
    POD = "pod"
    REVIEW = "review"
    IGNORE = "ignore"


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleManual:
    """The manual page of a rule: what the fault is, why it matters, what to do instead."""

    title: str
    why: str
    instead: str
    text: str

    @classmethod
    def parse(cls, docstring: str) -> "RuleManual":
        title, _, rest = docstring.strip().partition("\n")
        sections = {name: _sentences(text) for name, text in _SECTIONS.findall(rest)}
        if not title.endswith(".") or set(sections) != {"Why", "Instead"}:
            raise ValueError(
                "A rule's docstring needs a title that ends with a period, and paragraphs that "
                f"start with 'Why: ' and 'Instead: '. Got {title!r}."
            )
        return cls(
            title=title,
            why=sections["Why"],
            instead=sections["Instead"],
            text=docstring.strip(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule. `on_patches`: it also applies to patches, which are only part of an object."""

    code: str
    name: str
    severity: Severity
    scope: RuleScope
    manual: RuleManual
    check: Callable[..., Iterator[Fault]]
    on_patches: bool = False

    def __post_init__(self) -> None:
        if not _CODE.fullmatch(self.code):
            raise ValueError(
                f"Expected a code such as OL101 (first digit 1-7 or 9), got {self.code!r}."
            )

    def __str__(self) -> str:
        return f"{self.code} {self.name}"


def file_rule(code: str, severity: Severity) -> Callable[[FileCheck], Rule]:
    """A rule that is called for each file."""
    return lambda check: _made(check, code, severity, RuleScope.FILE)


def object_rule(
    code: str, severity: Severity, *, on_patches: bool = False
) -> Callable[[ObjectCheck], Rule]:
    """A rule that is called for each object."""
    return lambda check: _made(check, code, severity, RuleScope.OBJECT, on_patches=on_patches)


def pod_rule(
    code: str, severity: Severity, *, on_patches: bool = False
) -> Callable[[PodCheck], Rule]:
    """A rule that is called for each Pod and each Pod template."""
    return lambda check: _made(check, code, severity, RuleScope.POD, on_patches=on_patches)


def review_rule(code: str, severity: Severity) -> Callable[[ReviewCheck], Rule]:
    """A rule that is called once, with everything."""
    return lambda check: _made(check, code, severity, RuleScope.REVIEW)


def ignore_rule(code: str, severity: Severity) -> Callable[[IgnoreCheck], Rule]:
    """A rule that is called for each ignore, after all other rules have run."""
    return lambda check: _made(check, code, severity, RuleScope.IGNORE)


def _sentences(text: str) -> str:
    joined = " ".join(text.split())
    return joined[:1].upper() + joined[1:]


def _made(
    check: Any, code: str, severity: Severity, scope: RuleScope, *, on_patches: bool = False
) -> Rule:
    return Rule(
        code=code,
        name=check.__module__.rpartition(".")[2].replace("_", "-"),
        severity=severity,
        scope=scope,
        manual=RuleManual.parse(check.__globals__["__doc__"] or ""),
        check=check,
        on_patches=on_patches,
    )


def chosen(
    rules: Sequence[Rule], *, select: Iterable[str] = (), ignore: Iterable[str] = ()
) -> tuple[Rule, ...]:
    """The rules that `select` names (all if it is empty), without those that `ignore` names.

    Rules are named by code, by the start of a code, or by name.
    """
    wanted = _named(rules, select) or set(rules)
    unwanted = _named(rules, ignore)
    return tuple(rule for rule in rules if rule in wanted and rule not in unwanted)


def find_rule(rules: Sequence[Rule], word: str) -> Rule:
    """The rule with this code or name."""
    for rule in rules:
        if word.upper() == rule.code or word.lower() == rule.name:
            return rule
    raise _unknown(rules, word)


def _named(rules: Sequence[Rule], words: Iterable[str]) -> set[Rule]:
    found: set[Rule] = set()
    for word in (part.strip() for text in words for part in text.split(",")):
        if not word:
            continue
        matching = {rule for rule in rules if _matches(rule, word)}
        if not matching:
            raise _unknown(rules, word)
        found |= matching
    return found


def _matches(rule: Rule, word: str) -> bool:
    upper = word.upper()
    if upper == EVERYTHING or word.lower() == rule.name:
        return True
    return upper.startswith("OL") and rule.code.startswith(upper)


def _unknown(rules: Sequence[Rule], word: str) -> LintError:
    names = [text for rule in rules for text in (rule.code, rule.name)]
    near = get_close_matches(word, names, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return LintError(f"There is no rule {word!r}.", hint=f"{hint}Run `outlast rules` for a list.")
