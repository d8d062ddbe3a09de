"""Whether a call is waited for, decided from what calls usually take."""

import pytest

from outlast.queue.items import Item
from outlast.worker.function import RetryPolicy
from outlast.worker.measurements import TypicalDuration, fits


@pytest.mark.parametrize(
    ("usual", "elapsed", "left", "expected"),
    [
        pytest.param(None, 0.0, 5.0, True, id="never measured"),
        pytest.param(None, 0.0, -1.0, False, id="never measured and no time"),
        pytest.param(2.0, 0.0, 5.0, True, id="fits"),
        pytest.param(9.0, 0.0, 5.0, False, id="does not fit"),
        pytest.param(9.0, 6.0, 5.0, True, id="fits because it is nearly done"),
        pytest.param(1.0, 60.0, 5.0, True, id="overdue already"),
    ],
)
def test_a_call_is_waited_for_if_its_usual_time_fits(
    usual: float | None, elapsed: float, left: float, expected: bool
) -> None:
    assert fits(usual, elapsed_seconds=elapsed, left_seconds=left) is expected


def test_the_usual_time_is_a_median_per_item_and_forgets() -> None:
    pace = TypicalDuration()
    assert pace.expected_seconds() is None

    for seconds in (1.0, 1.0, 60.0):
        pace.add(seconds * 10, items=10)
    assert pace.expected_seconds(items=5) == 5.0

    for _ in range(100):
        pace.add(3.0)
    assert pace.expected_seconds() == 3.0


def test_delays_double_up_to_five_minutes_and_the_last_failure_is_final() -> None:
    blame = RetryPolicy(failures_max=2000, retry_seconds=1.0)
    delays = [
        blame.failure(Item("a", "1", failures=count), "x").delay_seconds
        for count in (0, 1, 2, 8, 9, 1500)
    ]

    assert delays == [1, 2, 4, 256, 300, 300]
    assert not blame.failure(Item("a", "1", failures=1998), "x").is_final
    assert blame.failure(Item("a", "1", failures=1999), "x").is_final
