"""Batches are bounded in number and in bytes."""

import pytest

from outlast._base.batches import batched, text_bytes


@pytest.mark.parametrize(
    ("values", "batches"),
    [
        ([], []),
        ([1, 1, 1], [[1, 1, 1]]),
        ([1, 1, 1, 1], [[1, 1, 1], [1]]),
        ([6, 4, 1], [[6, 4], [1]]),
        ([6, 5], [[6], [5]]),
        ([1, 99, 1, 10], [[1], [99], [1], [10]]),
    ],
)
def test_a_batch_ends_at_either_limit_and_a_larger_value_is_alone(
    values: list[int], batches: list[list[int]]
) -> None:
    found = batched(values, size_of=lambda value: value, count_max=3, bytes_max=10)

    assert list(found) == batches


def test_no_more_is_read_than_one_value_ahead() -> None:
    source = iter(range(1, 100))

    first = next(batched(source, size_of=lambda _: 1, count_max=3))

    assert first == [1, 2, 3]
    assert next(source) == 5


def test_text_is_measured_as_it_is_sent() -> None:
    assert text_bytes("abc", "日本", "🎈", "\ud800") == 3 + 6 + 4 + 3
