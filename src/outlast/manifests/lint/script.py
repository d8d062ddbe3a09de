"""The shell script that a container is started with: `sh -c "..."`, cut into its commands.

Pure, and only as far as rules need it: what runs, in which order, and what stands around it. Words
of control flow (`if`, `do`, `!`) are taken off the command that they introduce.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.pools.shell import Word, commands
from outlast.manifests.lint.view import View

SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh"))
_LEADS = frozenset(("if", "then", "else", "elif", "do", "while", "until", "time", "!", "{"))
_LOOPS = frozenset(("while", "until", "for", "do"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
# `2>&1` is no command in the background.
_REDIRECTION = re.compile(r"[<>]&[\w-]*|&>>?")
_SLEEP = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A simple command in a script: the program with its arguments.

    `start` is where the program's name stands, `end` where its last word ends. `is_led`: a word of
    control flow stands before it, `is_given`: an assignment for it alone does.
    """

    words: tuple[str, ...]
    start: int
    end: int
    is_led: bool
    is_given: bool

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Script:
    """The text given to a shell. `at` is its path in the view that holds the command."""

    shell: str
    text: str
    at: Path

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        return tuple(_calls(self.text))

    @cached_property
    def has_loop(self) -> bool:
        return any(word.text in _LOOPS for words in _commands(self.text) for word in words)

    def after(self, call: Call) -> str:
        """What follows a command, without comments."""
        return re.sub(r"(?:^|(?<=\s))#[^\n]*", "", self.text[call.end :]).strip()

    def before(self, call: Call) -> str:
        return self.text[: call.start].rstrip()


def script_in(view: View, *keys: Path) -> Script | None:
    """The script that the words at these paths of a view hand to a shell; None if they do not."""
    words = [
        ((*key, index), word)
        for key in keys
        for index, word in enumerate(view.listed(*key))
        if isinstance(word, str)
    ]
    if not words:
        return None
    shell = words[0][1].rpartition("/")[2]
    if shell not in SHELLS:
        return None
    rest = iter(words[1:])
    is_script = False
    for at, word in rest:
        if word[:1] in "-+" and len(word) > 1:
            if word.startswith("--"):
                continue
            is_script = is_script or "c" in word
            if word.endswith("o"):
                next(rest, None)
            continue
        return Script(shell=shell, text=word, at=at) if is_script else None
    return None


def sleep_seconds(words: Sequence[str]) -> float | None:
    """How long `sleep 10` or `sleep 2m 5s` takes; None for another command."""
    if len(words) < 2 or words[0].rpartition("/")[2] != "sleep":
        return None
    total = 0.0
    for word in words[1:]:
        match = _SLEEP.fullmatch(word)
        if match is None or len(word) > 12:
            return None
        total += float(match[1]) * _UNITS[match[2]]
    return total


def _calls(text: str) -> Iterator[Call]:
    for words in _commands(text):
        index = 0
        while index < len(words) and (
            words[index].text in _LEADS or _ASSIGNMENT.match(words[index].text)
        ):
            index += 1
        if index < len(words) and words[index].text:
            lead, own = [word.text for word in words[:index]], words[index:]
            yield Call(
                words=tuple(word.text for word in own),
                start=own[0].start,
                end=own[-1].end,
                is_led=any(word in _LEADS for word in lead),
                is_given=any(word not in _LEADS for word in lead),
            )


def _commands(text: str) -> Iterator[list[Word]]:
    return commands(_REDIRECTION.sub(lambda match: " " * len(match[0]), text))
