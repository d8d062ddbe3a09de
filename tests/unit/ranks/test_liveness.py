"""Who watches whom, and when a rank counts as lost. Time is an argument."""

import pytest

from outlast.ranks.liveness import BeatWatch, Heartbeat
from outlast.ranks.world import World
from outlast.testing import MemoryChannels


def world(rank: int, size: int = 3) -> World:
    return World(rank=rank, size=size, library="torch")


def watch(rank: int = 0, size: int = 3) -> BeatWatch:
    return BeatWatch(world(rank, size), beat_seconds=2.0, lost_seconds=30.0, join_seconds=600.0)


def test_every_rank_is_watched_by_another() -> None:
    assert [watch(rank).watched for rank in range(3)] == [1, 2, 0]


def test_a_rank_whose_heartbeat_does_not_change_is_lost() -> None:
    watching = watch()

    found = [watching.note(b"7", now=second) for second in range(0, 34, 2)]

    assert found[:15] == [None] * 15
    assert found[15] == "rank 1 has not responded for 30 s"


def test_a_rank_whose_heartbeat_changes_is_alive() -> None:
    watching = watch()

    for second in range(0, 300, 2):
        assert watching.note(str(second // 20).encode(), now=second) is None


def test_a_rank_that_has_not_started_has_more_time() -> None:
    watching = watch()

    for second in range(0, 600, 2):
        assert watching.note(None, now=second) is None
    assert watching.note(b"1", now=600) is None
    assert watching.note(b"1", now=602) is None


def test_a_rank_that_never_starts_is_lost() -> None:
    watching = watch()

    found = [watching.note(None, now=second) for second in range(0, 602, 2)]

    assert found[:300] == [None] * 300
    assert found[300] == "rank 1 has not opened the run for 600 s"


def test_a_process_that_was_paused_itself_does_not_blame_others() -> None:
    watching = watch()
    watching.note(b"7", now=0.0)

    assert watching.note(b"7", now=1000.0) is None
    assert watching.note(b"8", now=1002.0) is None


def test_after_a_closed_rank_the_next_is_watched() -> None:
    watching = watch()

    assert watching.note(b"closed", now=0.0) is None

    assert watching.watched == 2
    for second in range(2, 32, 2):
        assert watching.note(b"7", now=second) is None
    assert watching.note(b"7", now=32.0) == "rank 2 has not responded for 30 s"


def test_when_all_others_have_closed_nobody_is_watched() -> None:
    watching = watch(rank=1)

    watching.note(b"closed", now=0.0)
    watching.note(b"closed", now=2.0)

    assert watching.watched is None
    assert watching.note(b"closed", now=4.0) is None


def heartbeat(rank: int) -> Heartbeat:
    return Heartbeat(world(rank, 2), watch(rank, 2))


def test_heartbeats_travel_over_the_channel() -> None:
    channels = MemoryChannels()
    first, second = heartbeat(0), heartbeat(1)

    for turn in range(100):
        assert first.beat(channels.open(), now=turn * 2.0) is None
        assert second.beat(channels.open(), now=turn * 2.0) is None
    found = {first.beat(channels.open(), now=200 + turn * 2.0) for turn in range(16)}

    assert None in found
    assert any(reason is not None and "rank 1" in reason for reason in found)


def test_a_rank_that_closes_is_not_missed() -> None:
    channels = MemoryChannels()
    first, second = heartbeat(0), heartbeat(1)
    second.beat(channels.open(), now=0.0)

    second.close(channels.open())

    assert all(first.beat(channels.open(), now=turn * 2.0) is None for turn in range(100))


@pytest.mark.parametrize("beat", [b"7", None])
def test_without_a_limit_no_rank_is_lost(beat: bytes | None) -> None:
    watching = BeatWatch(world(0), beat_seconds=2.0, lost_seconds=0.0, join_seconds=0.0)

    for second in range(0, 100_000, 2):
        assert watching.note(beat, now=second) is None
