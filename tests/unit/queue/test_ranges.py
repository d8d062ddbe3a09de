from hypothesis import given
from hypothesis import strategies as st

from outlast.queue.sqlite.ranges import ItemRange, numbers, partition, size, split_at


@st.composite
def runs(draw: st.DrawFn) -> list[ItemRange]:
    """Runs apart from each other, in order, each with a fate of its own."""
    found, next_first = [], 1
    for number, (gap, length) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), max_size=6))
    ):
        first = next_first + gap
        found.append(
            ItemRange(first, first + length - 1, failures=number, suspects=7, published=1.5)
        )
        next_first = first + length
    return found


def fates(given_runs: list[ItemRange]) -> dict[int, tuple[int, int, float]]:
    return {number: run[2:] for run in given_runs for number in numbers([run])}


@given(runs(), st.integers(0, 40))
def test_a_cut_keeps_every_item_and_its_fate(whole: list[ItemRange], count: int) -> None:
    before, after = split_at(whole, count)

    assert list(numbers(before + after)) == list(numbers(whole))
    assert size(before) == min(count, size(whole))
    assert fates(before) | fates(after) == fates(whole)
    assert all(run.first <= run.last for run in before + after)


@given(runs(), st.sets(st.integers(0, 40)))
def test_picking_parts_the_items_and_changes_no_fate(
    whole: list[ItemRange], wanted: set[int]
) -> None:
    inside, outside = partition(whole, wanted)

    assert set(numbers(inside)) == set(numbers(whole)) & wanted
    assert set(numbers(outside)) == set(numbers(whole)) - wanted
    assert fates(inside) | fates(outside) == fates(whole)
    assert size(inside) + size(outside) == size(whole)


def test_neighbours_are_picked_as_one_run() -> None:
    inside, outside = partition([ItemRange(1, 10)], {3, 4, 5})

    assert inside == [ItemRange(3, 5)]
    assert outside == [ItemRange(1, 2), ItemRange(6, 10)]


def test_a_run_is_cut_where_asked_for() -> None:
    assert split_at([ItemRange(1, 3), ItemRange(7, 9)], 4) == (
        [ItemRange(1, 3), ItemRange(7, 7)],
        [ItemRange(8, 9)],
    )
