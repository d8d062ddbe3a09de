import pytest

from outlast.queue.throughput import Throughput


def test_a_pace_is_what_was_done_over_the_time_since() -> None:
    pace = Throughput().counting(0, now=1000.0).counting(30, now=1010.0)

    assert pace.per_second(now=1015.0) == pytest.approx(2.0)


def test_a_change_of_pace_shows_within_two_minutes() -> None:
    pace = Throughput()
    for now in range(1000, 1600, 10):
        pace = pace.counting(10, now=float(now))
    for now in range(1600, 1730, 10):
        pace = pace.counting(100, now=float(now))

    assert pace.per_second(now=1730.0) == pytest.approx(10.0, rel=0.1)


def test_a_new_window_does_not_forget_the_one_before() -> None:
    pace = Throughput().counting(0, now=1000.0)
    for now in range(1010, 1080, 10):
        pace = pace.counting(10, now=float(now))

    assert pace.since == 1060.0
    assert pace.per_second(now=1070.0) == pytest.approx(1.0, rel=0.2)


def test_nothing_going_on_has_no_pace() -> None:
    pace = Throughput().counting(0, now=1000.0).counting(30, now=1010.0)

    assert Throughput().per_second(now=1000.0) is None
    assert pace.per_second(now=2000.0) is None


def test_an_idle_time_does_not_count() -> None:
    pace = Throughput().counting(0, now=1000.0).counting(30, now=1010.0)

    pace = pace.counting(0, now=5000.0).counting(30, now=5010.0)

    assert pace.per_second(now=5010.0) == pytest.approx(3.0)


def test_a_clock_that_began_anew_begins_a_new_window() -> None:
    pace = Throughput().counting(0, now=1000.0).counting(30, now=1010.0)

    assert pace.per_second(now=5.0) is None
    pace = pace.counting(0, now=5.0).counting(10, now=10.0)

    assert pace.per_second(now=10.0) == pytest.approx(2.0)
