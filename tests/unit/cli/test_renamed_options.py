"""The former name of an option is refused with the present one, never misread."""

import pytest

from outlast.cli.app import make_app, run
from outlast.cli.commands import COMMANDS

RENAMED = [(one.name, old, new) for one in COMMANDS for old, new in one.renamed.items()]
Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("command", "old", "new"), RENAMED)
@pytest.mark.parametrize("form", ["{} 0.5", "{}=0.5"])
def test_the_former_name_is_refused_with_the_present_one(
    command: str, old: str, new: str, form: str, capsys: Captured
) -> None:
    assert run([command, "x", *form.format(old).split(), "--", "true"]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"error: {old} has been renamed to {new}." in printed.err
    assert f"hint:  Use: outlast {command} {new}" in printed.err


@pytest.mark.parametrize(("command", "old", "new"), RENAMED)
def test_the_present_name_exists_and_the_former_one_does_not(
    command: str, old: str, new: str
) -> None:
    known = {
        name
        for argument in make_app(command)[command].assemble_argument_collection()
        for name in argument.names
    }

    assert new in known
    assert old not in known


def test_the_options_that_were_renamed_are_these() -> None:
    assert {f"{command} {old}" for command, old, _ in RENAMED} == {
        "drill --duplicates",
        "drill --no-baseline",
        "work --version",
        "simulate --save",
        "simulate --restart",
        "simulate --unannounced",
        "simulate --every",
    }


def test_an_option_of_the_drilled_command_is_not_ours(capsys: Captured) -> None:
    assert run(["drill", "--evictions", "0", "--", "python", "train.py", "--duplicates"]) == 2

    assert "--evictions is 0" in capsys.readouterr().err
