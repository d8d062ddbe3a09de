"""Launchers of ranks in containers: torchrun and `accelerate launch`, directly or in a script."""

from collections.abc import Iterator
from dataclasses import dataclass

from outlast.manifests.launchers import (
    OPTION_PREFIX,
    LauncherCall,
    find_launcher,
    supervision_of,
)
from outlast.manifests.lint.kubernetes.pod import Container
from outlast.manifests.lint.kubernetes.script import placed_words, script_of
from outlast.yamltext.editing import Put
from outlast.yamltext.nodes import Path

_DIGITS_MAX = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class LauncherSetting:
    """A number that is set for a launcher: by an option in its command, or by a variable.

    `at` is its path in the container. `number` is None if the value is known only at run time.
    `word` is the text at that path, None in a script.
    """

    number: int | None
    at: Path
    word: str | None

    def put(self, number: int) -> Put | None:
        """The change that sets another number, None if it is part of a script."""
        if self.word is None:
            return None
        name, equals, _ = self.word.rpartition("=")
        return Put(self.at, f"{name}{equals}{number}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerLauncher:
    """A launcher that a container starts. `at` is the path of its name, or of the script.

    `words` is the command with the path of each word, empty in a script, whose text is `script`.
    `is_supervised`: it runs under `outlast exec`, or may: the image can define the first process.
    """

    container: Container
    call: LauncherCall
    at: Path
    words: tuple[tuple[Path, str], ...] = ()
    script: str = ""
    is_supervised: bool

    @property
    def name(self) -> str:
        return self.call.name

    def setting(self, option: str, *variables: str) -> LauncherSetting | None:
        """The number given by an option such as `max-restarts`, its variable or `variables`.

        None if it is not set.
        """
        given = self.call.options.get(option)
        if given is not None:
            at, word = self.words[given.position] if self.words else (self.at, None)
            return LauncherSetting(number=_number(given.value), at=at, word=word)
        names = (OPTION_PREFIX + option.upper().replace("-", "_"), *variables)
        for name in names:
            variable = self.container.variables.get(name)
            if variable is not None:
                text = variable.value
                return LauncherSetting(number=_number(text or ""), at=variable.at, word=text)
        if self.container.get("envFrom") is not None or any(n in self.script for n in names):
            return LauncherSetting(number=None, at=self.at, word=None)
        return None

    @property
    def is_elastic(self) -> bool:
        """Whether the number of nodes may change while it runs, as in `--nnodes 1:4`."""
        option = self.call.options.get("nnodes")
        variable = self.container.variables.get(OPTION_PREFIX + "NNODES")
        text = option.value if option is not None else variable and variable.value
        least, colon, most = (text or "").partition(":")
        return bool(colon) and least != most


def launchers_in(container: Container) -> Iterator[ContainerLauncher]:
    """The launchers that a container starts, as far as the manifest shows its command."""
    words = placed_words(container, ("command",), ("args",))
    head = supervision_of([word for _, word in words])
    # Without a command, these are arguments of the image's entry point.
    is_supervised = bool(head) or container.get("command") is None
    script = script_of(words[len(head) :])
    if script is None:
        call = find_launcher([word for _, word in words])
        if call is not None:
            at = words[call.position][0]
            yield ContainerLauncher(
                container=container,
                call=call,
                at=at,
                words=tuple(words),
                is_supervised=is_supervised or call.is_supervised,
            )
        return
    for shell_call in script.calls:
        call = find_launcher(shell_call.words)
        if call is not None:
            yield ContainerLauncher(
                container=container,
                call=call,
                at=script.at,
                script=script.text,
                is_supervised=is_supervised or call.is_supervised,
            )


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _DIGITS_MAX else None
