from datetime import UTC, datetime

from outlast.queue.items import ERROR_CHARACTERS_MAX, failure_line

AT = datetime(2026, 5, 1, 12, 30, 15, tzinfo=UTC)


def test_a_failure_is_remembered_with_time_and_worker() -> None:
    assert failure_line("no", worker="pod-3", at=AT) == "2026-05-01T12:30:15Z pod-3: no"


def test_of_a_long_error_the_end_is_kept() -> None:
    line = failure_line("x" * 100_000 + "ValueError: 7", worker="w", at=AT)

    assert line.endswith("xValueError: 7")
    assert len(line) < ERROR_CHARACTERS_MAX + 40
