import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.drills.run import schedule
from outlast.drills.run.records import EvictionMoment
from outlast.drills.run.schedule import Clock, EvictionMix, NodeLoss

USUAL = EvictionMix(no_notice=0.3, hostile=0.5, overlap=0.0)
shares = st.floats(0, 1)


@given(
    work_seconds=st.floats(0.001, 1e6),
    count=st.integers(1, 200),
    mix=st.builds(EvictionMix, no_notice=shares, hostile=shares, overlap=shares),
    seed=st.integers(),
)
def test_every_eviction_falls_within_the_work_and_in_order(
    work_seconds: float, count: int, mix: EvictionMix, seed: int
) -> None:
    found = schedule.within(work_seconds, count, mix, seed)

    times = [one.at_seconds for one in found.evictions]
    assert times == sorted(times)
    assert len(times) == count == found.needed
    assert 0 < times[0] and times[-1] < 0.85 * work_seconds
    assert [one.number for one in found.evictions] == list(range(1, count + 1))


@given(count=st.integers(2, 100), share=shares, hostile=shares, seed=st.integers())
def test_the_share_without_notice_is_kept(
    count: int, share: float, hostile: float, seed: int
) -> None:
    mix = EvictionMix(no_notice=share, hostile=hostile, overlap=0)

    found = schedule.within(10.0, count, mix, seed).evictions

    # A kill in the middle of the last save does not keep the grace period either.
    silent = [one for one in found if not one.notice or one.moment is EvictionMoment.LAST_SAVE]
    expected = max(1, round(share * count)) if share > 0 else 0
    # At least one eviction is fair, even if that makes one kill less.
    assert len(silent) in ((expected, expected - 1) if 0 < share < 1 else (expected,))


@given(
    count=st.integers(1, 100),
    share=st.floats(0, 1, exclude_max=True),
    hostile=shares,
    seed=st.integers(),
)
def test_at_least_one_eviction_has_a_notice_and_its_full_grace_period(
    count: int, share: float, hostile: float, seed: int
) -> None:
    mix = EvictionMix(no_notice=share, hostile=hostile, overlap=0)
    fair = {EvictionMoment.ANY, EvictionMoment.SAVE}

    for found in (schedule.within(10.0, count, mix, seed), schedule.every(1.0, count, mix, seed)):
        assert any(one.notice and one.moment in fair for one in found.evictions)


def test_the_same_seed_gives_the_same_schedule_and_another_one_another() -> None:
    first, same, other = (schedule.within(10.0, 5, USUAL, seed) for seed in (7, 7, 8))

    assert first == same
    assert first != other


def test_three_evictions_show_a_notice_a_kill_in_a_save_and_a_bad_start() -> None:
    for seed in range(20):
        found = schedule.within(10.0, 3, USUAL, seed).evictions

        kinds = {(one.notice, one.moment) for one in found}
        assert kinds == {
            (True, EvictionMoment.ANY),
            (False, EvictionMoment.SAVE),
            (True, EvictionMoment.START_UP),
        }


def test_one_eviction_is_a_plain_one() -> None:
    [one] = schedule.within(10.0, 1, USUAL, 3).evictions

    assert (one.notice, one.moment, one.overlap) == (True, EvictionMoment.ANY, False)


def test_without_kills_every_eviction_has_its_full_grace_period() -> None:
    mix = EvictionMix(no_notice=0, hostile=1, overlap=0)

    found = schedule.within(10.0, 9, mix, 1).evictions

    assert all(one.notice and one.moment is not EvictionMoment.LAST_SAVE for one in found)


def test_overlaps_have_their_share() -> None:
    found = schedule.within(10.0, 10, EvictionMix(no_notice=0, hostile=0, overlap=0.4), 1).evictions

    assert sum(one.overlap for one in found) == 4


def test_a_rate_gives_exponential_gaps() -> None:
    found = schedule.every(2.0, None, USUAL, 5)

    times = [one.at_seconds for one in found.evictions]
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert found.clock is Clock.ALIVE
    assert found.needed == 1
    assert statistics.mean(gaps) == pytest.approx(2.0, rel=0.15)
    # Of an exponential distribution, the deviation is as large as the mean.
    assert statistics.stdev(gaps) == pytest.approx(2.0, rel=0.2)


def test_a_rate_with_a_number_stops_there() -> None:
    assert schedule.every(2.0, 4, USUAL, 5).needed == 4


def test_a_trace_is_scaled_to_the_length_of_the_job() -> None:
    losses = [
        NodeLoss(at_seconds=3600.0, outage_seconds=1800.0),
        NodeLoss(at_seconds=7200.0, outage_seconds=0.0),
    ]

    found = schedule.from_losses(losses, 10.0, None, USUAL, 1)

    assert found.clock is Clock.WALL
    assert [one.at_seconds for one in found.evictions] == pytest.approx([4.0, 8.0])
    assert [one.outage_seconds for one in found.evictions] == pytest.approx([2.0, 0.0])


def test_a_trace_can_be_cut_to_a_number_of_evictions() -> None:
    losses = [NodeLoss(at_seconds=float(n), outage_seconds=0.0) for n in range(1, 9)]

    found = schedule.from_losses(losses, 10.0, 2, USUAL, 1)

    assert [one.at_seconds for one in found.evictions] == pytest.approx([4.0, 8.0])


def test_without_a_known_length_there_is_about_one_a_second() -> None:
    found = schedule.blind(4, USUAL, 1)

    assert [int(one.at_seconds) for one in found.evictions] == [0, 1, 2, 3]


@given(
    count=st.integers(1, 60),
    nodes=st.integers(1, 8),
    mix=st.builds(EvictionMix, no_notice=shares, hostile=shares, overlap=st.just(0.0)),
    seed=st.integers(),
)
def test_both_kinds_of_evictions_go_round_all_nodes(
    count: int, nodes: int, mix: EvictionMix, seed: int
) -> None:
    plain = schedule.within(10.0, count, mix, seed)
    found = schedule.over_nodes(plain, nodes, seed)

    for notice in (True, False):
        evicted = [one.node for one in found.evictions if one.notice is notice]
        for start in range(0, len(evicted), nodes):
            turn = evicted[start : start + nodes]
            assert len(set(turn)) == len(turn) and set(turn) <= set(range(nodes))


def test_the_nodes_are_all_that_is_added_to_a_schedule() -> None:
    plain = schedule.within(10.0, 5, USUAL, 7)

    found = schedule.over_nodes(plain, 3, 7)

    assert found == schedule.over_nodes(plain, 3, 7)
    assert [replace(one, node=None) for one in found.evictions] == list(plain.evictions)
    seeds = [schedule.over_nodes(plain, 3, seed) for seed in range(20)]
    assert len({tuple(one.node for one in found.evictions) for found in seeds}) > 1


@given(count=st.integers(2, 100), seed=st.integers())
def test_one_of_several_evictions_of_a_node_is_a_silent_death(count: int, seed: int) -> None:
    found = schedule.over_nodes(schedule.within(10.0, count, USUAL, seed), 2, seed)

    assert any(not one.notice for one in found.evictions)
    assert found.evictions[0].notice
