"""In pieces of which size the state is copied."""

from outlast.checkpoint.saving.copying import PieceSize

MIB = 1024**2
COPIED = 100 * MIB


def chosen_over(saves: int, seconds: dict[int, float]) -> list[int]:
    """The sizes that are chosen, where a copy in pieces of each size takes so long."""
    size = PieceSize()
    found = []
    for _ in range(saves):
        found.append(size.choose())
        size.note(found[-1], COPIED, seconds[found[-1]])
    return found


def test_each_size_is_tried_and_then_the_fastest_is_used() -> None:
    for fast, slow in ((512 * 1024, 4 * MIB), (4 * MIB, 512 * 1024)):
        found = chosen_over(30, {fast: 1.0, slow: 1.2})

        assert set(found[:2]) == {fast, slow}
        assert found[2:] == [fast] * 28


def test_the_other_size_is_tried_again_from_time_to_time() -> None:
    found = chosen_over(320, {512 * 1024: 1.0, 4 * MIB: 1.2})

    assert 5 <= found.count(4 * MIB) <= 12


def test_a_machine_that_changes_is_followed() -> None:
    size = PieceSize()
    for _ in range(10):
        now = size.choose()
        size.note(now, COPIED, 1.0 if now == 512 * 1024 else 1.2)
    assert size.choose() == 512 * 1024

    for _ in range(10):
        now = size.choose()
        size.note(now, COPIED, 2.0 if now == 512 * 1024 else 1.2)

    assert size.choose() == 4 * MIB


def test_a_small_copy_teaches_nothing() -> None:
    size = PieceSize()
    first = size.choose()

    size.note(first, 1000, 5.0)

    assert size.choose() == first
