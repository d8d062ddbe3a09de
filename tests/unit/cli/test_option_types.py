"""Whole numbers and durations on the command line: exact, or refused."""

from datetime import timedelta
from typing import Any

import pytest
from cyclopts import App, CoercionError

from outlast.cli.option_types import Duration, PositiveDuration, PositiveDurations, WholeNumber


def parsed(*arguments: str) -> Any:
    app = App(result_action="return_value")

    @app.default
    def command(
        *,
        seed: WholeNumber = 0,
        nodes: WholeNumber | None = None,
        grace: Duration | None = None,
        every: PositiveDuration = timedelta(hours=1),
        interval: PositiveDurations = (),
    ) -> object:
        return seed, nodes, grace, every, interval

    return app(list(arguments), exit_on_error=False, print_error=False)


def test_defaults_are_kept() -> None:
    assert parsed() == (0, None, None, timedelta(hours=1), ())


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-1", -1), ("1_000", 1000), ("0x10", 16), ("9" * 30, int("9" * 30))],
)
def test_a_whole_number_is_taken_exactly(text: str, number: int) -> None:
    assert parsed("--seed", text, "--nodes", text)[:2] == (number, number)


@pytest.mark.parametrize("text", ["1.5", "2.0", "1e3", "", "seven", "nan"])
@pytest.mark.parametrize("flag", ["--seed", "--nodes"])
def test_what_is_no_whole_number_is_refused(flag: str, text: str) -> None:
    with pytest.raises(CoercionError, match="xpected a whole number"):
        parsed(flag, text)


def test_a_duration_has_a_unit_and_a_list_of_them_keeps_its_order() -> None:
    given = ["--grace", "0s", "--every", "800ms", "--interval", "2h", "--interval", "1.5m"]

    assert parsed(*given)[2:] == (
        timedelta(0),
        timedelta(milliseconds=800),
        (timedelta(hours=2), timedelta(seconds=90)),
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--grace", "5"], "--grace: '5' is not a duration"),
        (["--grace", "99999999999h"], "--grace: The duration is too long"),
        (["--every", "0s"], "--every: Expected a duration above 0, got '0s'"),
        (["--interval", "0m"], "^Invalid value for --interval: Expected a duration above 0"),
        (["--interval", "1s", "--interval", "0m"], "--interval: Expected a duration above 0"),
    ],
)
def test_any_other_duration_is_refused_with_its_option(given: list[str], words: str) -> None:
    with pytest.raises(CoercionError, match=words):
        parsed(*given)
