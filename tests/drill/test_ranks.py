"""Real ranks over a real store: they stop at one step, and never wait for the dead."""

import random
import signal
from pathlib import Path

import pytest

from tests.programs import python
from tests.ranks import RankWorld, world_of
from tests.servers.ports import free_port

pytestmark = pytest.mark.needs("torch")


@pytest.mark.parametrize("size", [2, 4])
def test_all_ranks_get_the_same_orders_at_the_same_steps(size: int, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed:", seed)

    with world_of(size, tmp_path, "trials", "--seed", str(seed), "--trials", "8") as world:
        assert world.codes() == [0] * size, world.output

        assert_unanimous(world, size, trials=8)


def assert_unanimous(world: RankWorld, size: int, *, trials: int) -> None:
    for trial in range(trials):
        orders = [
            [fact["orders"] for fact in world.facts(rank, "orders") if fact["trial"] == trial]
            for rank in range(size)
        ]
        assert orders == [orders[0]] * size, f"trial {trial}:\n{world.output}"
        [[*saves, (kind, _, is_full)]] = orders[0]
        assert (kind, is_full) == ("stop", True), f"trial {trial}:\n{world.output}"
        assert all(save[0] == "save" for save in saves)


def test_a_signal_to_one_rank_ends_all_at_one_step_with_the_same_code(tmp_path: Path) -> None:
    with world_of(2, tmp_path, "guarded") as world:
        world.wait_until_running()

        world.signal(1, signal.SIGTERM)

        assert world.codes() == [75, 75], world.output
        [first], [second] = world.facts(0, "order"), world.facts(1, "order")
        assert (first["order"], first["step"]) == ("stop", second["step"])
        assert (first["is_full"], second["is_full"]) == (True, True)
        assert (first["source"], second["source"]) == ("peer", "signal")


def test_ranks_do_not_wait_for_a_frozen_one_after_a_notice(tmp_path: Path) -> None:
    with world_of(3, tmp_path, "guarded", "--alone") as world:
        world.wait_until_running()
        world.signal(2, signal.SIGSTOP)

        world.signal(1, signal.SIGTERM)

        for rank in (0, 1):
            assert world.code(rank) == 75, world.output
            [order] = world.facts(rank, "order")
            assert (order["order"], order["is_full"]) == ("stop", False)


@pytest.mark.parametrize("frozen", [0, 2], ids=["with the store", "without the store"])
def test_ranks_that_hang_with_a_frozen_one_exit(frozen: int, tmp_path: Path) -> None:
    with world_of(3, tmp_path, "guarded", "--lost-seconds", "3") as world:
        world.wait_until_running()

        world.signal(frozen, signal.SIGSTOP)

        for rank in {0, 1, 2} - {frozen}:
            assert world.code(rank) == 75, world.output
            assert world.facts(rank, "lost")


def test_ranks_exit_when_the_process_with_the_store_dies(tmp_path: Path) -> None:
    with world_of(3, tmp_path, "guarded", "--alone") as world:
        world.wait_until_running()

        world.signal(0, signal.SIGKILL)

        for rank in (1, 2):
            assert world.code(rank) == 75, world.output
            assert "does not answer" in world.facts(rank, "lost")[0]["lost"]


def test_ranks_exit_when_another_reports_that_it_failed(tmp_path: Path) -> None:
    with world_of(3, tmp_path, "failing") as world:
        for rank in (0, 1):
            assert world.code(rank) == 75, world.output
            assert world.facts(rank, "lost")[0]["lost"] == "rank failed: ValueError"

        world.wait_for(2, "failed")
        assert not world.facts(2, "lost")


def test_a_program_that_never_closes_its_agreement_exits_properly(tmp_path: Path) -> None:
    with world_of(2, tmp_path, "left-open") as world:
        assert world.codes() == [0, 0], world.output

        assert "terminate" not in world.output


PEER = """
    import outlast

    with outlast.Guard(grace_seconds=2000, reserve_seconds=300, exit_code=75) as guard:
        guard.announce_peer("too far away", 5000.0)
        print(1600 < guard.remaining() <= 1700)
        guard.announce_peer("SIGTERM", 1000.0)
        print(900 < guard.remaining() <= 1000)
        print(guard.notice.source, guard.notice.source.is_outside)
    guard.announce_peer("after the end", 1.0)
    raise SystemExit(guard.exit_code)
"""


def test_the_notice_of_another_rank_leaves_as_much_time_as_there() -> None:
    with python(PEER) as program:
        assert program.wait() == 75, program.output

        printed = [line for line in program.lines if not line.startswith("Notice")]
        assert printed == ["True", "True", "peer True"]


JAX = """
    import sys
    import jax
    from outlast.ranks.agreement import Agreement
    from outlast.ranks.world import current_world, open_channel

    jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
    world = current_world()
    agreement = Agreement(
        world,
        open_channel(world, "outlast/0"),
        seconds_left=lambda: 600.0,
        seconds_needed=lambda: 1.0,
        on_stop_call=lambda reason, left: None,
        on_lost=print,
    )
    agreement.start()
    step = 0
    while (order := agreement.boundary(step)) is None:
        if step == 100 and world.rank == 1:
            agreement.call_stop("a test", 600.0)
        step += 1
    print("stopped at", order.step, order.is_full, world.library)
    agreement.close()
    jax.distributed.shutdown()
"""


def test_two_processes_of_jax_stop_at_one_step() -> None:
    address = f"127.0.0.1:{free_port()}"
    with python(JAX, address, "0") as first, python(JAX, address, "1") as second:
        assert [first.wait(), second.wait()] == [0, 0], first.output + second.output

        [line] = [line for line in first.lines if "stopped at" in line]
        assert line in second.lines
        assert line.endswith("True jax")
