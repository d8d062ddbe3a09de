from collections.abc import Callable

import pytest

from outlast._base.settings import count_of, text_of, whole_number_to


def test_text_is_taken_as_it_is() -> None:
    assert text_of("A URL")(" gs://bucket ") == " gs://bucket "


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
        (text_of("A URL"), (5, b"gs://bucket", ["a"]), "A URL is expected."),
        (
            count_of("A whole number of steps"),
            (0, -1, "0", "-1", "+1", "", " 1", "1.5", 1.5, True, "٣", "²", None),
            "A whole number of steps from 1 is expected.",
        ),
        (
            whole_number_to(255, "An exit code"),
            (-1, 256, "-1", "256", "", "ok", 1.5, "1.5", None),
            "An exit code is a whole number from 0 to 255.",
        ),
    ],
    ids=["text", "count", "whole number"],
)
def test_anything_else_is_refused_in_the_words_of_the_setting(
    parse: Callable[[object], object], wrong: tuple[object, ...], words: str
) -> None:
    for given in wrong:
        with pytest.raises(ValueError) as caught:
            parse(given)

        assert str(caught.value) == words, given
