"""`outlast rules [RULE]`: list the rules of `outlast lint`, or print the manual page of one."""

from enum import StrEnum

from outlast.cli.printing import say, say_json
from outlast.manifests.lint.engine.rule import Rule, find_rule
from outlast.manifests.rules import ALL_RULES


class RulesFormat(StrEnum):
    """How to print the rules."""

    TEXT = "text"
    JSON = "json"


def rules(rule: str | None = None, /, *, format: RulesFormat = RulesFormat.TEXT) -> None:
    """List the rules of `outlast lint`, or print the manual page of one.

    Parameters
    ----------
    rule: str
        Code or name of a rule, such as OL101 or no-grace.
    format: RulesFormat
        Output format.
    """
    found = ALL_RULES if rule is None else (find_rule(ALL_RULES, rule),)
    if format is RulesFormat.JSON:
        say_json({"rules": [_as_json(one) for one in found]}, indent=2)
    elif rule is None:
        width = max(len(one.name) for one in found)
        for one in found:
            say(f"{one.code}  {one.severity.word:7}  {one.name:{width}}  {one.manual.title}")
    else:
        (one,) = found
        say(f"{one} ({one.severity.word})\n\n{one.manual.text}")


def _as_json(rule: Rule) -> dict[str, str]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.word,
        "title": rule.manual.title,
        "why": rule.manual.why,
        "instead": rule.manual.instead,
    }
