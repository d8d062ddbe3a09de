"""Programs that start the ranks of a training: torchrun and `accelerate launch`.

Pure: finds a launcher in the words of a command and reads its options. Facts about both are as of
torch 2.13 and accelerate 1.15.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TORCHRUN = "torchrun"
ACCELERATE = "accelerate launch"
SHUTDOWN_SECONDS_DEFAULT = 30
"""How long a launcher waits for its ranks after SIGTERM before it kills them."""
SHUTDOWN_VARIABLE = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
OPTION_PREFIX = "PET_"
"""torchrun reads `--max-restarts` from the variable PET_MAX_RESTARTS, and all others likewise."""

_INTERPRETER = re.compile(r"python(3(\.\d+)?)?")
_MODULES = {
    "torch.distributed.run": TORCHRUN,
    "torch.distributed.launch": TORCHRUN,
    "accelerate.commands.launch": ACCELERATE,
}
# Programs that run the command given to them as arguments.
_WRAPPERS = frozenset(
    """
    conda dumb-init env exec ionice nice nohup nsys numactl outlast pdm pipenv poetry setsid stdbuf
    tini time timeout uv
    """.split()
)
_FLAGS = frozenset(("-m", "--module", "--standalone", "--no-python", "--run-path", "--use-env"))


@dataclass(frozen=True, kw_only=True, slots=True)
class LauncherOption:
    """An option of a launcher. `position` is that of the word with the value."""

    value: str
    position: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LauncherCall:
    """A launcher in a command. Positions count the words of the command.

    `is_supervised`: it runs under `outlast exec`. `options` are by name, such as `max-restarts`.
    """

    name: str
    position: int
    is_supervised: bool
    options: Mapping[str, LauncherOption]


def find_launcher(words: Sequence[str]) -> LauncherCall | None:
    """The launcher that a command starts, None if it starts another program."""
    for position, word in enumerate(words):
        found = _launcher_at(words, position)
        if found is not None:
            name, first_option = found
            return LauncherCall(
                name=name,
                position=position,
                is_supervised=len(supervision_of(words[:position])) > 0,
                options=_options(words, first_option),
            )
        if position == 0 and program_of(word) not in _WRAPPERS:
            return None
    return None


def supervision_of(words: Sequence[str]) -> Sequence[str]:
    """The words up to the command of `outlast exec`, empty if the command does not start with it.

    Other programs that run their arguments may come before it, such as a shell's `exec`.
    """
    for position, word in enumerate(words[:-1]):
        program = program_of(word)
        if program == "outlast" and words[position + 1] == "exec":
            start = position + 2
            has_options = words[start : start + 1] and words[start].startswith("-")
            if has_options and "--" in words[start:]:
                start = list(words).index("--", start) + 1
            return words[:start]
        if position == 0 and program not in _WRAPPERS:
            return ()
    return ()


def is_interpreter(word: str) -> bool:
    """Whether it is the Python interpreter, by name or by path."""
    return _INTERPRETER.fullmatch(program_of(word)) is not None


def program_of(word: str) -> str:
    return word.rpartition("/")[2]


def _launcher_at(words: Sequence[str], position: int) -> tuple[str, int] | None:
    """The launcher whose name starts at this word, and the position of its first option."""
    program, after = program_of(words[position]), tuple(words[position + 1 : position + 3])
    if program == TORCHRUN:
        return TORCHRUN, position + 1
    if program == "accelerate" and after[:1] == ("launch",):
        return ACCELERATE, position + 2
    if is_interpreter(words[position]) and len(after) == 2 and after[0] == "-m":
        name = _MODULES.get(after[1])
        return None if name is None else (name, position + 3)
    return None


def _options(words: Sequence[str], start: int) -> dict[str, LauncherOption]:
    """The options before the program. Of an option that is repeated, the last one counts."""
    found: dict[str, LauncherOption] = {}
    position = start
    while position < len(words) and words[position].startswith("-"):
        name, equals, value = words[position].partition("=")
        key = name.lstrip("-").replace("_", "-")
        following = words[position + 1] if position + 1 < len(words) else "-"
        has_value = not (
            equals
            or name.replace("_", "-") in _FLAGS
            or following.startswith("-")
            # A flag of accelerate, of which there are many, followed by the program.
            or following.endswith(".py")
        )
        position += has_value
        found[key] = LauncherOption(value=following if has_value else value, position=position)
        position += 1
    return found
