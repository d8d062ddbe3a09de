"""What the commands load that have to start at once: pinned by name, because time cannot be."""

import subprocess
import sys

import pytest

# What a command that is run waits for, and what is loaded while it already runs.
BEFORE_THE_COMMAND = {
    "outlast",
    "outlast._base",
    "outlast._base.settings",
    "outlast.cli",
    "outlast.cli.entry",
    "outlast.cli.run",
    "outlast.cli.run.exec",
    "outlast.errors",
    "outlast.interruption",
    "outlast.interruption.exec_settings",
    "outlast.supervisor",
    "outlast.supervisor.folder",
    "outlast.supervisor.posix_signals",
    "outlast.supervisor.supervised",
    "outlast.supervisor.supervision",
}
BESIDE_THE_COMMAND = {
    "outlast.interruption.exit_codes",
    "outlast.supervisor.processes",
    "outlast.supervisor.running",
    "outlast.supervisor.terminal",
}
BUILT_IN = {"__future__", "_ctypes", "_signal", "_struct", "time"}

RUN = """
import os, sys
known = set(sys.modules)
sys.argv = ["outlast", *{arguments}]

def spawn(*args, original=os.posix_spawnp, **kwargs):
    print(*sorted(set(sys.modules) - known), file=sys.stderr)
    import outlast.supervisor.running
    # However slow this machine is, the command ends before the rest is loaded.
    outlast.supervisor.running._LOAD_AFTER_SECONDS = 3600.0
    return original(*args, **kwargs)

os.posix_spawnp = spawn
from outlast.cli.entry import main
assert main() == 0
print(*sorted(set(sys.modules) - known), file=sys.stderr)
"""


def modules_loaded_by(*arguments: str) -> list[set[str]]:
    """The modules at the start of a command, if there is one, and at the end."""
    command = [sys.executable, "-I", "-c", RUN.format(arguments=list(arguments))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [set(line.split()) for line in done.stderr.splitlines()]


def test_exec_loads_next_to_nothing() -> None:
    at_start, at_end = modules_loaded_by("exec", "--distrust-zero", "--", "true")

    assert at_start - BUILT_IN == BEFORE_THE_COMMAND
    assert at_end - BUILT_IN == BEFORE_THE_COMMAND | BESIDE_THE_COMMAND


def test_the_version_loads_next_to_nothing() -> None:
    [loaded] = modules_loaded_by("--version")

    own = {"outlast", "outlast._base", "outlast._base.version", "outlast.cli", "outlast.cli.entry"}
    assert loaded - BUILT_IN == own


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_loads_next_to_nothing(shell: str) -> None:
    [loaded] = modules_loaded_by("completion", shell)

    assert loaded - BUILT_IN == {"outlast", "outlast.cli", "outlast.cli.entry"}


def test_a_long_command_has_everything_loaded_that_its_end_needs() -> None:
    code = """
import os, sys
sys.argv = ["outlast", "exec", "--", "sh", "-c", "read line; exit 3"]
reading, writing = os.pipe()
os.dup2(reading, 0)

import outlast.supervisor.running as running
load = running._load_the_rest

def load_and_let_it_end():
    load()
    known.update(sys.modules)
    os.write(writing, b"end\\n")

known = set()
running._load_the_rest = load_and_let_it_end
from outlast.cli.entry import main
assert main() == 3
print(*sorted(set(sys.modules) - known))
"""
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
