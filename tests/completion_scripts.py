"""The scripts that complete `outlast` in a shell. `make docs` writes them from the command line.

They know the commands, the options of each, and the values of options that have a fixed choice.
Everything else completes to files. After the command, a script asks nothing of Python.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from cyclopts import App

from outlast.cli.app import make_app
from outlast.cli.commands import COMMANDS, Command


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletedOption:
    """An option of a command. Its `choices` are empty if it takes any value, or none."""

    name: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletedCommand:
    """A command, its options, and the words that its first argument may be."""

    name: str
    summary: str
    options: tuple[CompletedOption, ...]
    words: tuple[str, ...]


def completion_scripts() -> dict[str, Callable[[], str]]:
    """For each shell, the function that returns its script."""
    return {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}


def bash_script() -> str:
    lines = [
        "# Completes outlast in bash: source it, or put it into bash-completion's folder.",
        "_outlast() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        '    if [ "$before" = "=" ]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi',
        '    if [ "$word" = "=" ]; then before="${COMP_WORDS[COMP_CWORD-1]}"; word=""; fi',
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f"        words={quote(' '.join(_first_words()))}",
        "    else",
        '        case "${COMP_WORDS[1]} $before" in',
        *_choices('            "{command} {option}") words={words} ;;'),
        "            *)",
        '                case "${COMP_WORDS[1]} $word" in',
        *_options('                    "{command} -"*) words={words} ;;'),
        *_words('                    "{command} "*) words={words} ;;'),
        "                esac ;;",
        "        esac",
        "    fi",
        '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")',
        "}",
        "complete -o bashdefault -o default -F _outlast outlast",
    ]
    return "\n".join([*lines, ""])


def zsh_script() -> str:
    lines = [
        "#compdef outlast",
        "# Completes outlast in zsh: put it into a folder of fpath as _outlast, or source it.",
        "_outlast() {",
        "    if (( CURRENT == 2 )); then",
        f"        compadd -- {' '.join(_first_words())}",
        "        return",
        "    fi",
        '    case "$words[2] $words[CURRENT-1]" in',
        *_choices('        "{command} {option}") compadd -- {plain}; return ;;'),
        "    esac",
        '    case "$words[2] $words[CURRENT]" in',
        *_options('        "{command} -"*) compadd -- {plain}; return ;;'),
        *_words('        "{command} "*) compadd -- {plain}; return ;;'),
        "    esac",
        "    _files",
        "}",
        "# A file of fpath is run as a function when it is first needed.",
        'if (( ${#funcstack} )); then _outlast "$@"; else compdef _outlast outlast; fi',
    ]
    return "\n".join([*lines, ""])


def fish_script() -> str:
    lines = ["# Completes outlast in fish: source it, or put it into fish's completions folder."]
    for command in _commands():
        lines.append(
            "complete -c outlast -n __fish_use_subcommand -f "
            f"-a {command.name} -d {quote(command.summary)}"
        )
        inside = f"complete -c outlast -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{inside} -f -a {quote(' '.join(command.words))}"] if command.words else []
        for option in command.options:
            value = " -r" if option.takes_value else ""
            choices = f" -x -a {quote(' '.join(option.choices))}" if option.choices else value
            lines.append(f"{inside} -l {option.name.removeprefix('--')}{choices}")
    return "\n".join([*lines, ""])


def _first_words() -> list[str]:
    return [*(command.name for command in _commands()), "--help", "--version"]


def _choices(line: str) -> Iterator[str]:
    for command in _commands():
        for option in command.options:
            if option.choices:
                yield _filled(line, command.name, option.choices, option.name)


def _options(line: str) -> Iterator[str]:
    for command in _commands():
        yield _filled(line, command.name, [option.name for option in command.options])


def _words(line: str) -> Iterator[str]:
    for command in _commands():
        if command.words:
            yield _filled(line, command.name, command.words)


def _filled(line: str, command: str, words: Sequence[str], option: str = "") -> str:
    plain = " ".join(words)
    return line.format(command=command, option=option, plain=plain, words=quote(plain))


def _commands() -> list[CompletedCommand]:
    app = make_app()
    return [_command(command, app[command.name]) for command in COMMANDS]


def _command(command: Command, app: App) -> CompletedCommand:
    shown = [one for one in app.assemble_argument_collection() if one.show]
    options = [one for one in shown if one.names[0].startswith("--")]
    others = [one for one in shown if one not in options]
    return CompletedCommand(
        name=command.name,
        summary=command.summary(),
        options=(
            *(
                CompletedOption(
                    name=one.names[0],
                    takes_value=one.hint is not bool,
                    choices=tuple(one.get_choices() or ()),
                )
                for one in options
            ),
            CompletedOption(name="--help", takes_value=False),
        ),
        words=tuple(others[0].get_choices() or ()) if others else (),
    )
