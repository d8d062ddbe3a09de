import pytest

from outlast._base.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("25s", 25.0),
        ("0.8s", 0.8),
        ("800ms", 0.8),
        (" 2 m ", 120.0),
        ("1.5h", 5400.0),
        ("7d", 604800),
    ],
)
def test_a_duration_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["25", "", "s", "-3s", "1e3s", "2 weeks", "1,5s", "nan s", "٣s"])
def test_what_is_not_a_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration.*25s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.42, "0.4 s"), (13, "13 s"), (210, "3.5 min"), (7300, "2.0 h"), (600_000, "6.9 d")],
)
def test_a_duration_is_shown_in_the_unit_that_suits_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
