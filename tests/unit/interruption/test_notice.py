import pytest

from outlast.interruption.notice import Announcement, Notice, NoticeSource, merge


def notice(
    source: NoticeSource = NoticeSource.SIGNAL, *, arrived: float = 0.0, deadline: float
) -> Notice:
    return Notice(source=source, reason=source.value, arrived=arrived, deadline=deadline)


def test_the_deadline_counts_from_the_arrival() -> None:
    announcement = Announcement(source=NoticeSource.SIGNAL, reason="SIGTERM", arrived=100.0)

    assert announcement.for_grace(15.0).deadline == 115.0


def test_a_source_that_leaves_less_than_the_grace_period_sets_the_deadline() -> None:
    announcement = Announcement(
        source=NoticeSource.PREEMPTION, reason="preempted", arrived=100.0, window_seconds=30.0
    )

    assert announcement.for_grace(105.0).deadline == 130.0
    assert announcement.for_grace(15.0).deadline == 115.0


def test_a_repeated_signal_grants_no_time() -> None:
    first = notice(deadline=15.0)

    assert merge(first, notice(arrived=3.0, deadline=18.0)) is first


def test_a_later_notice_with_less_time_shortens_the_deadline() -> None:
    merged = merge(
        notice(deadline=30.0), notice(NoticeSource.PREEMPTION, arrived=5.0, deadline=20.0)
    )

    assert (merged.source, merged.deadline) == (NoticeSource.SIGNAL, 20.0)


@pytest.mark.parametrize("source", [NoticeSource.KEYBOARD, NoticeSource.PROGRAM])
def test_a_cause_from_outside_is_named_before_one_from_within(source: NoticeSource) -> None:
    merged = merge(
        notice(source, deadline=15.0), notice(NoticeSource.SIGNAL, arrived=4.0, deadline=19.0)
    )

    assert (merged.source, merged.deadline) == (NoticeSource.SIGNAL, 15.0)
