"""Threads that act as ranks, over a store in memory."""

import logging
import math
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from outlast.ranks.agreement import Agreement, Order, OrderKind
from outlast.ranks.world import World
from outlast.testing import MemoryChannels
from tests.patience import PATIENCE_SECONDS, eventually

ENDLESS = 1_000_000


@dataclass
class Rank:
    """One rank: its agreement, and everything that it heard."""

    number: int
    agreement: Agreement
    stops: list[tuple[str, float]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    step: int = 0

    def loop(self, chance: random.Random, steps: int = ENDLESS) -> None:
        """Pass boundaries until an order ends the loop. Each step takes a random time."""
        while self.step < steps:
            order = self.agreement.boundary(self.step)
            if order is not None:
                self.orders.append(order)
                if order.kind is not OrderKind.SAVE:
                    return
            time.sleep(chance.random() * 0.002)
            self.step += 1


class Ranks:
    """A world of threads, which is closed at the end of a test."""

    def __init__(self) -> None:
        self.channels = MemoryChannels()
        self.ranks: list[Rank] = []
        self._threads: list[threading.Thread] = []

    def open(
        self,
        size: int,
        *,
        needed: float = 1.0,
        left: float = math.inf,
        lost_seconds: float = 600.0,
        join_seconds: float = 600.0,
        only: int | None = None,
    ) -> list[Rank]:
        """Ranks that have passed no boundary yet; `only` the first ones of a larger world."""
        for number in range(size if only is None else only):
            stops: list[tuple[str, float]] = []
            lost: list[str] = []
            agreement = Agreement(
                World(rank=number, size=size, library="torch"),
                self.channels.open(),
                seconds_left=lambda: left,
                seconds_needed=lambda: needed,
                on_stop_call=lambda reason, left, stops=stops: stops.append((reason, left)),  # type: ignore[misc]  # the default binds the loop's value
                on_lost=lost.append,
                beat_seconds=0.02,
                lost_seconds=lost_seconds,
                join_seconds=join_seconds,
            )
            self.ranks.append(Rank(number, agreement, stops, lost))
            agreement.start()
        return self.ranks

    def run(self, seed: int, steps: int = ENDLESS) -> None:
        for rank in self.ranks:
            chance = random.Random(f"{seed}/{rank.number}")
            thread = threading.Thread(target=rank.loop, args=(chance, steps), daemon=True)
            self._threads.append(thread)
            thread.start()

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "A loop hangs."

    def close(self) -> None:
        threads = [threading.Thread(target=rank.agreement.close) for rank in self.ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)


@pytest.fixture
def world() -> Iterator[Ranks]:
    ranks = Ranks()
    yield ranks
    ranks.close()
    alive = {thread.name for thread in threading.enumerate()}
    assert not any(name.startswith("outlast-ranks") for name in alive), alive


@pytest.fixture(autouse=True)
def _waits_for_ranks_on_a_slow_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a call that leaves little time is decided without the ranks that do not answer."""
    monkeypatch.setattr("outlast.ranks.rounds._STOP_SECONDS_MAX", PATIENCE_SECONDS)


def new_seed() -> int:
    seed = random.SystemRandom().randrange(2**32)
    print("seed:", seed)
    return seed


@pytest.mark.parametrize("size", [2, 3, 5])
def test_all_ranks_get_the_same_orders_at_the_same_steps(size: int, world: Ranks) -> None:
    """The model: whoever calls for what and when, the orders of all ranks are equal."""
    seed = new_seed()
    chance = random.Random(seed)
    ranks = world.open(size)
    world.run(seed)

    for _ in range(chance.randrange(12)):
        time.sleep(chance.random() * 0.01)
        chance.choice(ranks).agreement.call_save()
    time.sleep(chance.random() * 0.01)
    for rank in chance.sample(ranks, chance.randint(1, size)):
        rank.agreement.call_stop(f"notice of rank {rank.number}", 600.0)
    world.wait()

    assert [rank.orders for rank in ranks] == [ranks[0].orders] * size
    *saves, stop = ranks[0].orders
    assert (stop.kind, stop.is_full) == (OrderKind.STOP, True)
    assert all(save.kind is OrderKind.SAVE for save in saves)
    assert [rank.step for rank in ranks] == [stop.step] * size


def test_without_a_call_nothing_happens(world: Ranks) -> None:
    ranks = world.open(2)

    world.run(0, steps=50)
    world.wait()

    assert [rank.orders for rank in ranks] == [[], []]


def test_a_stop_is_reported_to_the_other_ranks_with_the_time_that_is_left(world: Ranks) -> None:
    ranks = world.open(3)
    world.run(0)

    ranks[1].agreement.call_stop("SIGTERM", 600.0)
    ranks[1].agreement.call_stop("SIGTERM", 600.0)
    world.wait()

    heard = [("SIGTERM on rank 1", 600.0)]
    assert [rank.stops for rank in ranks] == [heard, [], heard]
    assert {(rank.orders[-1].reason, rank.orders[-1].rank) for rank in ranks} == {("SIGTERM", 1)}


def test_a_rank_with_less_time_moves_the_deadline_of_all(world: Ranks) -> None:
    ranks = world.open(2, left=500.0)
    world.run(0)

    ranks[0].agreement.call_stop("SIGTERM", 600.0)
    world.wait()

    for rank in ranks:
        eventually(lambda stops=rank.stops: stops, "the closer deadline is known")  # type: ignore[misc]  # the default binds the loop's value
        reason, seconds = rank.stops[-1]
        assert reason == "SIGTERM on rank 0"
        assert 400.0 < seconds <= 500.0


def test_a_later_notice_with_less_time_reaches_ranks_that_are_already_stopping(
    world: Ranks,
) -> None:
    ranks = world.open(2)
    world.run(0)
    ranks[0].agreement.call_stop("maintenance", 600.0)
    world.wait()

    ranks[1].agreement.call_stop("SIGTERM", 13.0)

    eventually(
        lambda: ("SIGTERM on rank 1", 13.0) in ranks[0].stops, "the closer deadline is known"
    )


def test_a_save_that_does_not_fit_any_more_is_refused_for_all(world: Ranks) -> None:
    ranks = world.open(2, needed=700.0)
    world.run(0)

    ranks[0].agreement.call_stop("SIGTERM", 600.0)
    world.wait()

    assert [(r.orders[-1].kind, r.orders[-1].is_full) for r in ranks] == [
        (OrderKind.STOP, False)
    ] * 2


def test_an_error_is_raised_on_all_ranks_at_one_step(world: Ranks) -> None:
    ranks = world.open(3)
    world.run(new_seed())

    ranks[2].agreement.call_raise("a newer attempt has started")
    world.wait()

    assert [rank.orders for rank in ranks] == [ranks[0].orders] * 3
    [order] = ranks[0].orders
    assert (order.kind, order.reason) == (OrderKind.RAISE, "a newer attempt has started")


def test_a_save_is_called_again_only_after_it_was_delivered(world: Ranks) -> None:
    [first, second] = world.open(2)

    for _ in range(5):
        first.agreement.call_save()
    eventually(lambda: first.agreement._wanted.round == 0, "nothing is decided yet")
    world.run(0)
    eventually(lambda: first.orders and second.orders, "the save is delivered")
    first.agreement.call_save()
    eventually(lambda: len(first.orders) == 2, "the second save is delivered")
    second.agreement.call_stop("SIGTERM", 600.0)
    world.wait()

    assert [o.kind for o in first.orders] == [OrderKind.SAVE, OrderKind.SAVE, OrderKind.STOP]
    assert first.orders == second.orders


def test_a_stop_does_not_wait_for_a_rank_that_does_not_answer(
    world: Ranks, caplog: pytest.LogCaptureFixture
) -> None:
    ranks = world.open(3, only=2)
    world.run(0)

    ranks[0].agreement.call_stop("SIGTERM", 3.0)
    world.wait()

    assert [(r.orders[-1].kind, r.orders[-1].is_full) for r in ranks] == [
        (OrderKind.STOP, False)
    ] * 2
    eventually(lambda: "rank 2 did not answer" in caplog.text, "the rank is named")


def test_a_stop_ends_a_save_that_waits_for_a_rank(
    world: Ranks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="outlast")
    ranks = world.open(3, only=2)
    world.run(0)
    ranks[0].agreement.call_save()
    eventually(lambda: ranks[1].agreement._gate._is_waiting, "a loop waits for the save")

    ranks[1].agreement.call_stop("SIGTERM", 3.0)
    world.wait()

    assert [[o.kind for o in rank.orders] for rank in ranks] == [[OrderKind.STOP]] * 2
    eventually(lambda: "rank 1 called for a stop" in caplog.text, "the reason is logged")


def test_a_silent_rank_is_reported_to_all_others(world: Ranks) -> None:
    ranks = world.open(3, lost_seconds=2.0)
    eventually(
        lambda: all(world.channels.open().get(f"beat/{rank}") for rank in range(3)), "all beat"
    )

    # Rank 2 freezes: it neither sets its heartbeat nor says that it closes.
    ranks[2].agreement._sender._beat_seconds = 3600.0

    eventually(lambda: ranks[0].lost and ranks[1].lost, "both know")
    assert "rank 2 has not responded for" in ranks[0].lost[0]
    assert ranks[0].lost == ranks[1].lost


@pytest.mark.parametrize("is_called", [False, True])
def test_a_store_that_dies_ends_all_loops(is_called: bool, world: Ranks) -> None:
    ranks = world.open(2)
    world.run(0)

    world.channels.lose()
    if is_called:
        ranks[0].agreement.call_stop("SIGTERM", 13.0)
    world.wait()

    for rank in ranks:
        eventually(lambda lost=rank.lost: lost, "it is reported")  # type: ignore[misc]  # the default binds the loop's value
        assert len(rank.lost) == 1
        assert "does not answer" in rank.lost[0]
        assert not rank.orders[-1].is_full


def test_a_store_that_freezes_ends_all_loops(world: Ranks) -> None:
    ranks = world.open(2, lost_seconds=0.5)
    world.run(0)

    world.channels.freeze()
    world.wait()

    assert all("was silent for" in rank.lost[0] for rank in ranks)
    assert not any(rank.orders[-1].is_full for rank in ranks)


def test_a_notice_ends_the_loop_although_the_store_is_frozen(world: Ranks) -> None:
    [rank, _] = world.open(2, lost_seconds=0.0)
    world.run(0)
    world.channels.freeze()

    rank.agreement.call_stop("SIGTERM", 1.0)
    eventually(lambda: rank.orders, "the loop ends")

    assert (rank.orders[0].kind, rank.orders[0].is_full) == (OrderKind.STOP, False)
    eventually(lambda: rank.lost, "the silence of the store is reported")
    assert "did not answer a call: SIGTERM" in rank.lost[0]
    world.channels.lose()


def test_a_store_that_ends_with_a_rank_that_has_finished_is_no_loss(world: Ranks) -> None:
    [first, second] = world.open(2)
    world.run(0, steps=5)
    world.wait()
    first.agreement.close()
    eventually(lambda: second.agreement._listener.has_closed_peers, "the end is known")

    world.channels.lose()
    eventually(lambda: second.agreement._has_finished_peers, "the store has ended")

    assert second.lost == []


def test_a_failing_rank_ends_the_others(world: Ranks) -> None:
    ranks = world.open(3)
    world.run(0)

    ranks[1].agreement.call_lost("rank 1 failed: ValueError")
    ranks[1].agreement.close()

    for rank in (ranks[0], ranks[2]):
        eventually(lambda lost=rank.lost: lost, "it is reported")  # type: ignore[misc]  # the default binds the loop's value
        assert rank.lost == ["rank 1 failed: ValueError"]
    assert ranks[1].lost == []


def test_a_callback_that_fails_is_logged(world: Ranks, caplog: pytest.LogCaptureFixture) -> None:
    def fail(reason: str, seconds_left: float) -> None:
        raise ValueError("no guard")

    ranks = world.open(2)
    ranks[1].agreement._on_stop_call = fail
    world.run(0)

    with caplog.at_level(logging.ERROR):
        ranks[0].agreement.call_stop("SIGTERM", 600.0)
        world.wait()

    assert "no guard" in caplog.text
    assert ranks[0].orders == ranks[1].orders


def test_an_agreement_can_be_closed_twice_and_without_a_start(world: Ranks) -> None:
    [first, _] = world.open(2)
    first.agreement.close()
    first.agreement.close()

    never_started = Agreement(
        World(rank=0, size=2, library="torch"),
        MemoryChannels().open(),
        seconds_left=lambda: math.inf,
        seconds_needed=lambda: 0.0,
        on_stop_call=lambda reason, left: None,
        on_lost=lambda reason: None,
    )
    never_started.close()


def test_a_stop_before_the_first_boundary_is_as_good_as_any(world: Ranks) -> None:
    """A rank that starts slowly has agreed before it reaches its first boundary."""
    ranks = world.open(2)
    ranks[0].step = ranks[1].step = 5
    ranks[0].agreement.boundary(5)

    ranks[0].agreement.call_stop("SIGTERM", 600.0)
    eventually(lambda: ranks[0].agreement._listener.is_ending, "it is decided")
    ranks[0].step = 6
    world.run(0)
    world.wait()

    assert [rank.orders[-1].step for rank in ranks] == [6, 6]
    assert all(rank.orders[-1].is_full for rank in ranks)


def test_a_rank_that_never_opens_the_run_ends_the_others(world: Ranks) -> None:
    ranks = world.open(3, only=2, join_seconds=0.5)

    eventually(lambda: ranks[0].lost and ranks[1].lost, "both know")

    assert "rank 2 has not opened the run for" in ranks[0].lost[0]
    assert ranks[0].lost == ranks[1].lost
