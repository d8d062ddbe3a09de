import traceback
from collections.abc import Callable
from enum import StrEnum

import pytest

from outlast._base.settings import (
    choice_of,
    count_of,
    flag,
    setting,
    text_of,
    whole_number_to,
)
from outlast.errors import SettingError


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("default", "shown"),
    [("", "none"), (None, "none"), (True, "1"), (10.0, "10"), (3, "3"), (Color.RED, "red")],
)
def test_the_variable_and_the_text_of_the_default_follow_from_the_rest(
    default: object, shown: str
) -> None:
    one = setting("some_name", lambda given: given, default, meaning="", hint="")

    assert (one.variable, one.default_text) == ("OUTLAST_SOME_NAME", shown)


def test_a_choice_is_taken_as_its_text_or_as_its_member() -> None:
    assert choice_of(Color)("red") is choice_of(Color)(Color.RED) is Color.RED


def test_text_is_taken_as_it_is() -> None:
    assert text_of("A URL")(" gs://bucket ") == " gs://bucket "


def test_what_is_refused_is_quoted_without_its_secret() -> None:
    def parse(given: object) -> str:
        raise ValueError(f"{given!r} is no good.")

    url_setting = setting("url", parse, "", meaning="A URL.", hint="Give another.")

    url = f"postgresql://u:{'Zq7xW9kPv3'}/x@host"

    with pytest.raises(SettingError) as caught:
        url_setting.read(url)

    shown = "".join(traceback.format_exception(caught.value))
    assert "The keyword url is 'postgresql://u:***@host'." in shown
    assert "Zq7xW9kPv3" not in shown


@pytest.mark.parametrize(("given", "count"), [(1, 1), ("1", 1), ("007", 7), (10**30, 10**30)])
def test_a_count_is_taken_as_a_number_or_its_digits(given: object, count: int) -> None:
    assert count_of("A whole number of steps")(given) == count


@pytest.mark.parametrize(
    ("given", "number"), [(0, 0), ("0", 0), (" 75 ", 75), (255, 255), ("255", 255)]
)
def test_both_bounds_of_a_whole_number_are_taken(given: object, number: int) -> None:
    assert whole_number_to(255, "An exit code")(given) == number


@pytest.mark.parametrize(
    ("parse", "wrong", "words"),
    [
        (text_of("A URL"), (5, b"gs://bucket", ["a"]), "Expected a URL."),
        (choice_of(Color), ("green", "", "RED", 1, None), "Expected 'red' or 'blue'."),
        (flag, ("yes", "", 2, None), "Expected 1, 0, true or false."),
        (
            count_of("A whole number of steps"),
            (0, -1, "0", "-1", "+1", "", " 1", "1.5", 1.5, True, "٣", "²", None),
            "Expected a whole number of steps, at least 1.",
        ),
        (
            whole_number_to(255, "An exit code"),
            (-1, 256, "-1", "256", "", "ok", 1.5, "1.5", None),
            "Expected an exit code from 0 to 255.",
        ),
    ],
    ids=["text", "choice", "flag", "count", "whole number"],
)
def test_anything_else_is_refused_in_the_words_of_the_setting(
    parse: Callable[[object], object], wrong: tuple[object, ...], words: str
) -> None:
    for given in wrong:
        with pytest.raises(ValueError) as caught:
            parse(given)

        assert str(caught.value) == words, given
