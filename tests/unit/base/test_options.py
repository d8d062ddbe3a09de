"""Options that are declared once show in signatures and help, and unknown ones are refused."""

import inspect
from typing import Annotated, TypedDict, Unpack

import pytest

import outlast
from outlast._base.options import settings_of, takes_options
from outlast._base.settings import flag, setting

LOUD = setting("loud", flag, False, meaning="Whether to shout.", hint="Give 1 or 0.")


class Options(TypedDict, total=False):
    loud: Annotated[bool | None, LOUD]
    names: list[str]


class Speaker:
    @takes_options(Options)
    def __init__(self, url: str, *, times: int = 1, **options: Unpack[Options]) -> None:
        self.given = (url, times, options)


def test_options_are_passed_on() -> None:
    assert Speaker("a", times=2, loud=True).given == ("a", 2, {"loud": True})


def test_the_signature_and_help_list_the_options() -> None:
    assert str(inspect.signature(Speaker)) == (
        "(url: str, *, times: int = 1, loud: bool | None = None, names: list[str] = None) -> None"
    )
    assert "loud: Whether to shout." in (Speaker.__init__.__doc__ or "")


def test_an_unknown_option_is_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match=r"Speaker\(\) got an unexpected keyword argument 'laud'"):
        Speaker("a", laud=True)  # type: ignore[call-arg]


def test_fields_without_a_setting_have_none() -> None:
    assert settings_of(Options) == {"loud": LOUD}


def test_a_run_and_a_checkpointer_take_the_same_options_for_checkpoints() -> None:
    run, checkpointer = (
        inspect.signature(kind).parameters for kind in (outlast.Run, outlast.Checkpointer)
    )

    assert run.keys() - checkpointer.keys() == {"grace_seconds", "exit_code"}
    assert checkpointer.keys() - run.keys() == {"final_seconds"}
    with pytest.raises(TypeError, match=r"Run\(\) got an unexpected keyword argument 'every_step'"):
        outlast.Run("memory://x", {}, every_step=1)  # type: ignore[call-arg]


def test_a_worker_refuses_an_unknown_option_and_lists_its_own_in_help() -> None:
    with pytest.raises(TypeError, match=r"Worker\(\) got an unexpected keyword argument 'lease'"):
        outlast.Worker("memory://x", "memory://x", lease=1)  # type: ignore[call-arg]

    assert "failures_max: After this many failures" in (outlast.Worker.__init__.__doc__ or "")
