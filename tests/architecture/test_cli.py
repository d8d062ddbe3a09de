"""What all commands share: help, version, errors, exit codes, completion."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.cli.commands import COMMANDS, Command
from tests.generated import command_names


def outlast(
    *arguments: str, env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "outlast", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
    )


ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("command", command_names())
def test_every_command_has_help_with_examples(command: str) -> None:
    done = outlast(command, "--help")

    assert done.returncode == 0
    assert "examples:" in done.stdout.lower()
    assert f"outlast {command}" in done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_examples_fit_a_terminal_of_80_columns(command: Command) -> None:
    assert all(len(line) < 80 for line in command.epilogue.splitlines())


def test_help_is_wrapped_to_the_terminal_only() -> None:
    done = outlast("drill", "--help", env={"COLUMNS": "500"})

    assert "with evictions. Each run has a fresh folder; {dir} in" in done.stdout


def test_the_version_is_printed() -> None:
    import outlast as library

    assert outlast("--version").stdout == f"outlast {library.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words", "hint"),
    [
        (["setings"], "Unknown command 'setings'. Did you mean 'settings'?", "`outlast --help`"),
        (["settings", "--fromat", "json"], "Did you mean --format?", "outlast settings --help"),
        (["settings", "--format", "yaml"], '"text", "json"', "outlast settings --help"),
        (["--verson"], "Unknown option '--verson'.", "See `outlast --help`."),
        (["settings", "surplus"], "Unexpected argument 'surplus'.", "outlast settings --help"),
        (["completion"], "Missing argument: SHELL.", "outlast completion --help"),
        (["settings", "--format"], "--format needs a value.", "outlast settings --help"),
        (
            ["drill", "--evictions", "1.5", "--", "true"],
            "Invalid value for --evictions: Expected a whole number, got '1.5'.",
            "outlast drill --help",
        ),
        (
            ["drill", "--hostile", "half", "--", "true"],
            "Invalid value for --hostile: Expected a number, got 'half'.",
            "outlast drill --help",
        ),
        (["completion", "klingon"], "klingon", "outlast completion --help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_told_with_a_hint_and_exit_2(
    arguments: list[str], words: str, hint: str
) -> None:
    done = outlast(*arguments)

    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ") and words in first
    assert second.startswith("hint:  ") and hint in second


def test_without_a_command_the_help_is_shown() -> None:
    assert "Usage: outlast COMMAND" in outlast().stdout


def test_settings_show_the_value_in_force_and_its_source() -> None:
    done = outlast("settings", "--format", "json", env={"OUTLAST_GRACE_SECONDS": "105"})

    rows = {row["variable"]: row for row in json.loads(done.stdout)["settings"]}
    assert rows["OUTLAST_GRACE_SECONDS"]["value"] == "105"
    assert rows["OUTLAST_GRACE_SECONDS"]["source"] == "variable OUTLAST_GRACE_SECONDS"
    assert rows["OUTLAST_EXIT_CODE"]["source"] == "default"


def test_a_setting_that_cannot_work_is_refused() -> None:
    done = outlast("settings", env={"OUTLAST_GRACE_SECONDS": "1"})

    assert done.returncode == 2
    assert (
        "1 s (variable OUTLAST_GRACE_SECONDS) is shorter than the 2 s (default) reserved"
        in done.stderr
    )


def test_output_that_is_no_terminal_has_no_colour() -> None:
    for arguments in (["--help"], ["settings"], ["setings"]):
        done = outlast(*arguments)
        assert "\x1b[" not in done.stdout + done.stderr


def test_a_reader_that_has_seen_enough_gets_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "outlast", "settings"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)

    assert done.stderr == ""
    assert done.returncode == 128 + signal.SIGPIPE, "0 would state that a drill has passed"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("outlast settings >&-", 0),
        ("outlast settings > /dev/full", 3),
        ("outlast --help > /dev/full", 3),
        ("outlast setings 2>&-", 2),
        ("outlast exec 2>&-", 2),
        ("outlast exec -- nosuch 2>&-", 127),
        ("HOME=/proc outlast completion bash --install", 3),
    ],
)
def test_odd_surroundings_give_a_code_and_no_traceback(command: str, code: int) -> None:
    command = command.replace("outlast", f"{sys.executable} -m outlast", 1)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)

    assert done.returncode == code
    assert "Traceback" not in done.stderr


COMPLETIONS = {
    "bash": """
        source <(outlast completion bash)
        COMP_WORDS=(outlast set); COMP_CWORD=1; COMP_LINE='outlast set'; COMP_POINT=11
        "$(complete -p outlast | sed -E 's/.*-F ([^ ]+).*/\\1/')" outlast set outlast
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "fish": "outlast completion fish | source; complete -C 'outlast set'",
    "zsh": """
        autoload -Uz compinit && compinit -u -d "$HOME/.zcompdump"
        outlast completion zsh > "$HOME/_outlast"
        zsh -n "$HOME/_outlast" && grep -o 'settings' "$HOME/_outlast" | head -n 1
    """,
}


@pytest.mark.parametrize(
    "shell", [pytest.param(name, marks=pytest.mark.needs(name)) for name in COMPLETIONS]
)
def test_a_shell_completes_the_commands(shell: str, tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program = bin_folder / "outlast"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m outlast "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    done = subprocess.run(
        [shell, "-c", COMPLETIONS[shell]], capture_output=True, text=True, env=environ, cwd=tmp_path
    )

    assert "settings" in done.stdout, done.stderr


@pytest.mark.needs("bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("outlast drill --ev", ["--evictions", "--every"]),
        ("outlast drill --format j", ["json", "junit"]),
        ("outlast lint --format = sa", ["sarif"]),
        ("outlast scaffold tr", ["training"]),
        ("outlast lint k8s", []),
    ],
)
def test_bash_completes_options_and_their_values(words: str, found: list[str]) -> None:
    script = f"""
        source src/outlast/cli/operate/completions/outlast.bash
        COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _outlast
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=ROOT)

    assert done.stdout.split() == found, done.stderr
