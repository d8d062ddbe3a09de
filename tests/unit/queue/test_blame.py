from datetime import UTC, datetime

from outlast.queue.blame import ERROR_CHARACTERS_MAX, next_token, remembered, suspects

AT = datetime(2026, 5, 1, 12, 30, 15, tzinfo=UTC)


def test_a_failure_is_remembered_with_time_and_worker() -> None:
    assert remembered("no", worker="pod-3", at=AT) == "2026-05-01T12:30:15Z pod-3: no"


def test_of_a_long_error_the_end_is_kept() -> None:
    line = remembered("x" * 100_000 + "ValueError: 7", worker="w", at=AT)

    assert line.endswith("xValueError: 7")
    assert len(line) < ERROR_CHARACTERS_MAX + 40


def test_suspects_come_in_halves() -> None:
    assert suspects("abcde") == ["abc", "de"]
    assert suspects("ab") == ["a", "b"]


def test_a_token_follows_the_wall_clock_but_never_back() -> None:
    first = next_token(0, wall_seconds=1000.0)
    after_a_step_back = next_token(first, wall_seconds=900.0)
    after_a_step_ahead = next_token(after_a_step_back, wall_seconds=4600.0)

    assert first == 1_000_000_000
    assert after_a_step_back == first + 1
    assert after_a_step_ahead == 4_600_000_000
