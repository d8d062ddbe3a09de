"""Everything a user can read avoids words that sound odd or old-fashioned in technical English.

Checked are the strings and public docstrings of src/outlast, the templates of `outlast scaffold`,
the examples, the lint fixtures (the reference shows their comments) and the prose of all Markdown
pages. Not checked are code blocks, private docstrings, SQL and regular expressions.

Legitimate uses are listed in ALLOWED, each with its reason.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "outlast"

AVOIDED = {
    r"anew": "again",
    r"mend(?:s|ed|ing)?": "fix",
    r"for ever": "indefinitely, forever",
    r"surroundings": "name the service that is unavailable",
    r"(?:none|one|some) of ours|is(?: not)? ours": "say whose it is: Outlast's, another program's",
    r"so many(?! that)": "the number itself, or 'this many'",
    # "There is no checkpoint" is fine; "a Job is no server" is not.
    r"(?<!there )(?:is|are) no (?!\w+er than|longer|better|more|need)\w+": "'is not a ...'",
    r"stands|stood|stand (?:in|on|at|under|above|below|beside|here|there)": "is",
    r"lies|lie (?:in|on|at|under|beside|there|outside)": "is, is stored",
    r"told|tells|said": "reports, shows, states",
    r"behind": "after, in the background",
    # "The whole file" is fine; "the newest whole checkpoint" is not.
    r"(?<!the )(?<!its )(?<!your )(?<!their )(?<!this )whole": "complete, entire",
    r"the way": "how, on the path, during",
    r"h(?:o|e)ld(?:s|ing)? (?:a |the |your |this )?drills?": "run a drill",
    r"(?:leaves?|leaving)(?= (?:with (?:exit )?(?:code )?\d|in time|early|before|ahead))": "exit",
    r"(?:to|must|should|and|then|it|program|process|worker|command) leaves?(?=[.,;:])": "exit",
    r"strikes?|struck|striking|blows?|blew": "evict, eviction",
    r"as (?:it|they) stands?": "as it is, unchanged",
    r"(?:is|are|be|being|was|were) taken for": "is mistaken for, counts as",
    r"nobody|whatever|whoever|thereby|thereof|therein|whereby|whereof|lest|henceforth|hither": (
        "'no one', 'anything', or another sentence"
    ),
    r"one's own": "its own, your own",
    r"(?:be|is|are|was) had": "is available, obtained",
    r"expected is": "Expected X, got Y.",
    r"reckon(?:s|ed|ing)?": "expect, calculate",
    r"dearer|dearest": "more expensive",
    r"whilst|amongst|shall": "while, among, must",
    r"\w*(?:honour|colour|behaviour|favour|neighbour|labour)\w*": "American spelling: -or",
    r"(?:initial|serial|recogn|organ|summar|normal|local|optim|final|real)is(?:e|es|ed|ing)": (
        "American spelling: -ize"
    ),
    r"centre[sd]?|metres?|grey|misspelt|learnt|labell(?:ed|ing)": "American spelling",
}

ALLOWED = {
    r"(?:leav\w+|left)(?: \w+){0,5} behind": "an idiom for remaining files",
    r"behind (?:a|one|the) (?:\w+ )?(?:proxy|load balancer|firewall|Service|protocol|interface)": (
        "a term of networks and interfaces"
    ),
    r"behind schedule|falls? behind|queues? up behind": "idioms for being late or in line",
    r"whole (?:numbers?|seconds?|minutes?|hours?|days?)": "integers",
    r"as a whole": "an idiom for all parts together",
    r"(?:all|by|in) the way": "idioms for the full distance, a side remark, an obstacle",
    r"stands for": "explains an abbreviation",
    r"(?:was|were|is|are) told to (?:stop|exit|save)": "being asked to do something",
    r"told apart": "being distinguished",
}

_PROSE_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_AVOIDED = {re.compile(rf"\b(?:{word})\b", re.I): instead for word, instead in AVOIDED.items()}
_ALLOWED = re.compile(rf"\b(?:{'|'.join(ALLOWED)})\b", re.I)
_FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2$", re.M | re.S)
_CODE = re.compile(r"`[^`\n]*`|(?<=\])\([^)\s]*\)|<!--.*?-->", re.S)
_SQL = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|BEGIN|PRAGMA)\b")


class Text(NamedTuple):
    """Text for users, and the line of a file at which it starts."""

    file: Path
    line: int
    text: str


def groups() -> dict[str, list[Path]]:
    """The files to check, by package of the source or by kind."""
    found: dict[str, list[Path]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        found.setdefault(f"src/{file.relative_to(SOURCE).parts[0]}", []).append(file)
    found["templates"] = sorted(SOURCE.rglob("*.template"))
    found["examples"] = sorted(
        file for file in (ROOT / "examples").rglob("*") if file.suffix in (".py", ".yaml", ".md")
    )
    found["fixtures"] = sorted((ROOT / "tests" / "fixtures" / "rules").rglob("*.yaml"))
    for page in sorted((ROOT / "docs").rglob("*.md")):
        found.setdefault(str(page.parent.relative_to(ROOT)), []).append(page)
    found["pages"] = [ROOT / name for name in _PROSE_PAGES if (ROOT / name).exists()]
    return found


@pytest.mark.parametrize("group", groups())
def test_texts_for_users_avoid_odd_words(group: str) -> None:
    findings = [finding for file in groups()[group] for finding in odd_words(file)]

    assert not findings, f"{len(findings)} odd phrases:\n" + "\n".join(findings)


@pytest.mark.parametrize(
    ("sentence", "is_odd"),
    [
        ("The file is read anew.", True),
        ("A program that is none of ours holds the file.", True),
        ("A Job is no server.", True),
        ("There is no checkpoint in 'run'.", False),
        ("It is no longer needed.", False),
        ("A kill leaves no temporary files behind.", False),
        ("The newest whole checkpoint is step 4000.", True),
        ("It must be a whole number.", False),
        ("It reads the whole file.", False),
        ("The error is told to the worker.", True),
        ("It flushes behind the training.", True),
        ("Set HTTPS_PROXY behind a proxy.", False),
        ("The process leaves with 75.", True),
        ("This leaves 13 s for the save.", False),
        ("It honours the variable.", True),
    ],
)
def test_the_list_finds_odd_phrases_and_accepts_common_ones(sentence: str, is_odd: bool) -> None:
    assert bool(list(phrases(sentence))) == is_odd


def test_only_texts_for_users_are_checked(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Public anew."""\n'
        'import re\nP = re.compile("a regex anew")\nQ = "SELECT this anew"\n'
        'def _hidden():\n    """Private anew."""\n    raise ValueError(f"{P} is read\\n  anew.")\n'
    )
    page = tmp_path / "page.md"
    page.write_text("Read `this anew`.\n\n```text\nis read anew\n```\n\nThe prose is read\nanew.\n")

    lines = [finding.split(":")[1] for file in (module, page) for finding in odd_words(file)]

    assert lines == ["1", "8", "8"]


def odd_words(file: Path) -> Iterator[str]:
    """One line for each odd phrase in a file."""
    for text in texts_in(file):
        for phrase, instead, start in phrases(text.text):
            line = text.line + text.text[:start].count("\n")
            name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file.name
            yield f"{name}:{line}: {' '.join(phrase.split())!r}; consider {instead}"


def phrases(text: str) -> Iterator[tuple[str, str, int]]:
    """The odd phrases in a text, with what to use instead and where each starts."""
    spaced = re.sub(r"\s", " ", text)
    allowed = [match.span() for match in _ALLOWED.finditer(spaced)]
    for pattern, instead in _AVOIDED.items():
        for match in pattern.finditer(spaced):
            if not any(start <= match.start() < end for start, end in allowed):
                yield match[0], instead, match.start()


@cache
def texts_in(file: Path) -> list[Text]:
    content = file.read_text()
    if file.suffix == ".py":
        return list(_texts_in_code(file, ast.parse(content)))
    if file.suffix == ".md":
        content = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), content)
        content = _CODE.sub(lambda match: "`" + "\n" * match[0].count("\n"), content)
    return [Text(file, 1, _unindented(content))]


def _texts_in_code(file: Path, tree: ast.Module) -> Iterator[Text]:
    hidden = {id(node) for part in ast.walk(tree) for node in _hidden_in(part)}
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        # A string without a space is a name or a key.
        if " " in text.strip() and not _SQL.match(text):
            yield Text(file, node.lineno, _unindented(text))


def _hidden_in(node: ast.AST) -> Iterator[ast.AST]:
    """The strings below a node that users do not read."""
    match node:
        case ast.JoinedStr():
            yield from node.values
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))):
            yield from ast.walk(node)
        case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
            first = node.body[0]
            if node.name.startswith("_") and isinstance(first, ast.Expr):
                yield first.value


def _unindented(text: str) -> str:
    """The text with its line breaks, but without the indentation after them."""
    return re.sub(r"\n[ \t]+", "\n", text)
