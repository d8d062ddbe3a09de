"""The reference page of the rules, generated from their manuals and fixtures."""

from pathlib import Path

from outlast.manifests.lint.engine.rule import Rule
from outlast.manifests.rules import ALL_RULES
from tests.unit.manifests.rules.harness import FIXTURES

_PITFALLS = {
    "1": "Silent loss at preemption",
    "2": "Control plane on Spot",
    "3": "Unnoticed waiting",
    "4": "Storage gaps",
    "5": "Taints, selectors and labels",
    "6": "Oversized requests",
    "7": "Disruption budgets and expiry",
    "9": "Hygiene",
}
_LANGUAGES = {".yaml": "yaml", ".sh": "bash", ".tf": "hcl", ".json": "json"}


def rules_page() -> str:
    """The page docs/reference/rules.md."""
    parts = [
        "# Rules",
        "",
        "Every rule of `outlast lint`: what it flags, why it matters, what to do instead, and an",
        "example before and after. `outlast rules NAME` prints the same explanation in a terminal.",
        "[How to lint manifests](../how-to/lint-manifests.md) shows how to run the rules, and the",
        "[glossary](../glossary.md) explains the terms.",
        "",
        "| code | name | severity | problem |",
        "|---|---|---|---|",
        *(
            f"| {r.code} | [{r.name}](#{r.name}) | {r.severity.word} | {r.manual.title} |"
            for r in ALL_RULES
        ),
    ]
    pitfall = ""
    for rule in ALL_RULES:
        if rule.code[2] != pitfall:
            pitfall = rule.code[2]
            parts += ["", f"## {_PITFALLS[pitfall]}"]
        parts += _section(rule)
    return "\n".join([*parts, ""])


def _section(rule: Rule) -> list[str]:
    manual = rule.manual
    parts = ["", f"### {rule.name}", "", f"{rule.code}, {rule.severity.word}. {manual.title}", ""]
    parts += [f"**Why.** {manual.why}", "", f"**Instead.** {manual.instead}"]
    folder = sorted((FIXTURES / rule.name).iterdir())
    for title, stem in (("Flagged on the marked lines:", "flagged"), ("Clean:", "clean")):
        parts += [
            "",
            title,
            *(line for path in folder if path.stem == stem for line in _block(path)),
        ]
    shared = [path for path in folder if path.stem not in ("flagged", "clean")]
    for path in shared:
        parts += ["", f"`{path.name}`, used with both examples:", *_block(path)]
    return parts


def _block(path: Path) -> list[str]:
    return ["", f"```{_LANGUAGES[path.suffix]}", path.read_text().rstrip("\n"), "```"]
