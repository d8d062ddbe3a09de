"""The shell script that a container runs, as in `sh -c "..."`, split into commands.

Pure, and only as far as rules need it: what runs, in which order, and in which context. Control
words (`if`, `do`, `!`) are removed from the command that they precede.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from outlast.manifests.conventions import SHELLS
from outlast.manifests.lint.pools.shell import ShellWord, commands
from outlast.manifests.lint.view import ObjectView
from outlast.yamltext.nodes import Path

SETUP_COMMANDS = frozenset(
    """
    . : [ [[ alias apk apt apt-get awk basename break case cat cd chmod chown command continue
    cp curl date dd declare df dirname done du echo env esac exit export false fi find fio for free
    function fuse2fs gcloud getent git grep gsutil gunzip gzip head hostname huggingface-cli id
    in iperf iperf3 ldconfig let ln local ls mkdir mkfs.ext4 mount mountpoint mv nproc nslookup
    nvidia-smi ping pip pip3 printenv printf ps pwd read readonly return rm rsync sed seq service
    set shift shopt sleep sort source stat stress stress-ng sysbench sysctl tail tar tee test top
    touch true type ulimit umask uname unset unzip wait wget which whoami xargs yum zcat }
    """.split()
)
"""Commands that prepare, show or measure something, and have nothing to save."""

# Benchmarks of networks and GPUs: nccl-tests, perftest and the OSU benchmarks.
_BENCHMARK = re.compile(r"\w+_perf(?:_mpi)?|ib_(?:read|send|write)_(?:bw|lat)|osu_\w+")

# What such a command starts may have something to save.
_RUN_ANOTHER = frozenset((".", "command", "env", "exec", "find", "source", "xargs"))

_LEADS = frozenset(("if", "then", "else", "elif", "do", "while", "until", "time", "!", "{"))
_LOOPS = frozenset(("while", "until", "for", "do"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
# `2>&1` does not start a background command.
_REDIRECTION = re.compile(r"[<>]&[\w-]*|&>>?")
_PROGRAM = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|mpirun|java|node")
_SLEEP = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellCall:
    """A simple command in a script: the program with its arguments.

    `start` is the offset of the program's name, `end` the end of its last word. `is_led`: preceded
    by a control word. `is_given`: preceded by an assignment for this command only.
    """

    words: tuple[str, ...]
    start: int
    end: int
    is_led: bool
    is_given: bool

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]

    @property
    def is_benchmark(self) -> bool:
        """Whether it runs a benchmark of the machines, itself or through a launcher."""
        return any(_BENCHMARK.fullmatch(word.rpartition("/")[2]) for word in self.words)


@dataclass(frozen=True, kw_only=True)
class ShellScript:
    """The script given to a shell. `at` is its path in the view with the command."""

    shell: str
    text: str
    at: Path

    @cached_property
    def calls(self) -> tuple[ShellCall, ...]:
        return tuple(_calls(self.text))

    @cached_property
    def has_loop(self) -> bool:
        return any(word.text in _LOOPS for words in _commands(self.text) for word in words)

    @property
    def waits_forever(self) -> bool:
        """Whether it runs no program and ends by doing nothing, so that people can log in."""
        if not self.calls or any(_PROGRAM.fullmatch(call.program) for call in self.calls):
            return False
        return _is_idle(self.calls[-1].words)

    def after(self, call: ShellCall) -> str:
        """The text after a command, without comments."""
        return re.sub(r"(?:^|(?<=\s))#[^\n]*", "", self.text[call.end :]).strip()

    def before(self, call: ShellCall) -> str:
        return self.text[: call.start].rstrip()


def script_in(view: ObjectView, *keys: Path) -> ShellScript | None:
    """The script that the words at these paths pass to a shell, None if they do not."""
    return script_of(placed_words(view, *keys))


def waits_forever(container: ObjectView) -> bool:
    """Whether a container runs no program and does nothing, so that people can log in."""
    words = placed_words(container, ("command",), ("args",))
    script = script_of(words)
    return script.waits_forever if script else _is_idle([word for _, word in words])


def only_shows_or_measures(container: ObjectView) -> bool:
    """Whether the command of a container is one that has nothing to save."""
    script = script_in(container, ("command",), ("args",))
    if script is not None and any(call.is_benchmark for call in script.calls):
        return True
    words = placed_words(container, ("command",))
    program = words[0][1].rpartition("/")[2] if words else ""
    return program in SETUP_COMMANDS and program not in _RUN_ANOTHER


def _is_idle(words: Sequence[str]) -> bool:
    match [word.rpartition("/")[2] for word in words]:
        case ["sleep", "infinity" | "inf"] | ["tail", *_, "null"]:
            return True
    return False


def placed_words(view: ObjectView, *keys: Path) -> list[tuple[Path, str]]:
    """The words at these paths, each with its own path."""
    return [
        ((*key, index), word)
        for key in keys
        for index, word in enumerate(view.listed(*key))
        if isinstance(word, str)
    ]


def script_of(words: Sequence[tuple[Path, str]]) -> ShellScript | None:
    """The script that a command passes to a shell, None if it does not. Words have their paths."""
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
        return ShellScript(shell=shell, text=word, at=at) if is_script else None
    return None


def sleep_seconds(words: Sequence[str]) -> float | None:
    """How long `sleep 10` or `sleep 2m 5s` takes, None for other commands."""
    if len(words) < 2 or words[0].rpartition("/")[2] != "sleep":
        return None
    total = 0.0
    for word in words[1:]:
        match = _SLEEP.fullmatch(word)
        if match is None or len(word) > 12:
            return None
        total += float(match[1]) * _UNITS[match[2]]
    return total


def _calls(text: str) -> Iterator[ShellCall]:
    for words in _commands(text):
        index = 0
        while index < len(words) and (
            words[index].text in _LEADS or _ASSIGNMENT.match(words[index].text)
        ):
            index += 1
        if index < len(words) and words[index].text:
            lead, own = [word.text for word in words[:index]], words[index:]
            yield ShellCall(
                words=tuple(word.text for word in own),
                start=own[0].start,
                end=own[-1].end,
                is_led=any(word in _LEADS for word in lead),
                is_given=any(word not in _LEADS for word in lead),
            )


def _commands(text: str) -> Iterator[list[ShellWord]]:
    return commands(_REDIRECTION.sub(lambda match: " " * len(match[0]), text))
