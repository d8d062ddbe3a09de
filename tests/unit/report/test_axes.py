"""Scales, ticks and colors of charts."""

import pytest

from outlast.report.axes import Plot, Scale, log_ticks, round_ticks, time_ticks, whole_ticks
from outlast.report.charts import column_sums
from outlast.report.style import DARK, LIGHT, SERIES


@pytest.mark.parametrize(
    ("seconds", "unit", "said"),
    [
        (0.4, "seconds", ["0.0", "0.1", "0.2", "0.3", "0.4"]),
        (12.0, "seconds", ["0", "2", "4", "6", "8", "10", "12"]),
        (147.0, "seconds", ["0", "30", "60", "90", "120"]),
        (600.0, "minutes", ["0", "2", "4", "6", "8", "10"]),
        (5 * 3600.0, "hours", ["0", "1", "2", "3", "4", "5"]),
        (20 * 86400.0, "days", ["0", "5", "10", "15", "20"]),
    ],
)
def test_times_are_told_in_round_steps_of_a_fitting_unit(
    seconds: float, unit: str, said: list[str]
) -> None:
    ticks, name = time_ticks(seconds)

    assert (name, [tick.label for tick in ticks]) == (unit, said)


def test_counts_have_no_ticks_between_whole_numbers() -> None:
    assert [tick.label for tick in whole_ticks(2)] == ["0", "1", "2"]
    assert [tick.label for tick in whole_ticks(20_000)] == [
        "0",
        "5,000",
        "10,000",
        "15,000",
        "20,000",
    ]


def test_values_that_are_all_the_same_have_a_tick() -> None:
    assert [tick.label for tick in round_ticks(3.0, 3.0)] == ["3"]


def test_small_differences_are_told_apart_by_their_ticks() -> None:
    said = [tick.label for tick in round_ticks(0.0101, 0.0109)]

    assert len(said) == len(set(said)) > 2


def test_a_place_outside_the_axes_is_drawn_at_their_end() -> None:
    plot = Plot(x=Scale(low=0, high=10), y=Scale(low=0, high=1), height=100)

    assert (plot.left(-3), plot.left(5), plot.left(99)) == ("0%", "50%", "100%")


def test_a_point_alone_is_drawn_as_a_dot() -> None:
    plot = Plot(x=Scale(low=0, high=10), y=Scale(low=0, high=1), height=100)

    assert plot.line([(5, 0.5)]) == "M280 50L280 50"
    assert plot.line([]) == ""


def test_amounts_are_summed_up_by_their_time() -> None:
    amounts = [(0.0, 1.0), (0.9, 2.0), (1.0, 3.0), (2.4, 4.0), (2.5, 5.0)]

    assert column_sums(amounts, 2.5, 1.0) == [3.0, 3.0, 9.0]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (1.0, 100.0, ["1", "3", "10", "30", "100"]),
        (3.0, 40.0, ["5", "10", "20"]),
        (1e-3, 1e9, ["0.001", "1", "1,000", "1 M", "1e+09"]),
        (6.1, 6.9, ["6", "7"]),
    ],
)
def test_a_logarithmic_scale_has_few_round_ticks(
    low: float, high: float, labels: list[str]
) -> None:
    assert [tick.label for tick in log_ticks(low, high)] == labels


def test_a_logarithmic_scale_has_equal_distances_for_equal_ratios() -> None:
    scale = Scale(low=1, high=10_000, is_log=True)

    assert [scale.share(value) for value in (0, 1, 100, 10_000)] == [0.0, 0.0, 0.5, 1.0]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("name", "ground", "least"),
    [
        *((name, "page", 4.5) for name in ("ink", "quiet", "good", "bad", "work", "lost", "save")),
        ("ink", "panel", 4.5),
        ("ink", "bad-tint", 4.5),
        ("quiet", "bad-tint", 4.5),
        ("bad", "bad-tint", 4.5),
        ("page", "work", 4.5),
        ("grace", "page", 3.0),
        ("baseline", "page", 3.0),
        ("start", "page", 3.0),
        ("ink", "chosen", 4.5),
        *((f"s{index}", "page", 3.0) for index in range(SERIES)),
    ],
)
def test_colors_can_be_told_from_their_ground(
    palette: dict[str, str], name: str, ground: str, least: float
) -> None:
    assert _contrast(palette[name], palette[ground]) >= least


def _contrast(one: str, other: str) -> float:
    """As the web's accessibility guidelines define it."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    shares = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
