"""Choose rules by code, by the start of a code, or by name."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.rule import Rule

EVERYTHING = "ALL"


def chosen(
    rules: Sequence[Rule], *, select: Iterable[str] = (), ignore: Iterable[str] = ()
) -> tuple[Rule, ...]:
    """The rules that `select` names, all of them if it names none, without those of `ignore`."""
    wanted = _named(rules, select) or set(rules)
    unwanted = _named(rules, ignore)
    return tuple(rule for rule in rules if rule in wanted and rule not in unwanted)


def find_rule(rules: Sequence[Rule], word: str) -> Rule:
    """The one rule of a code or a name."""
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
    return LintError(f"There is no rule {word!r}.", hint=f"{hint}See `outlast rules`.")
