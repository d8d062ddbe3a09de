"""A world of ranks that agree on steps: a program for tests, which forks one process per rank.

Prints a line of JSON for everything that a test wants to know. The ranks meet through a store in
the process of rank 0, whose port is in a file of the folder.
"""

import argparse
import json
import os
import random
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from outlast import Guard
from outlast.interruption.notice import Notice
from outlast.ranks import rounds
from outlast.ranks.agreement import Agreement, OrderKind
from outlast.ranks.world import World, current_world, open_channel

always: dict[str, object] = {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=list(MODES))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--lost-seconds", type=float, default=120.0)
    parser.add_argument("--alone", action="store_true", help="step without a collective")
    options = parser.parse_args()
    ranks: dict[int, int] = {}
    for rank in range(options.size):
        pid = os.fork()
        if pid == 0:
            be(rank, options)
            return
        ranks[pid] = rank
    say(pids=list(ranks))
    for _ in ranks:
        pid, status = os.wait()
        say(rank=ranks[pid], code=os.waitstatus_to_exitcode(status))


def be(rank: int, options: argparse.Namespace) -> None:
    always["rank"] = rank
    if not options.alone:
        # A machine that stalls must not make a rank miss a call. Those that step alone are for the
        # tests in which one does.
        rounds._STOP_SECONDS_MAX = 100.0
    connect(options.folder, rank, options.size)
    world = current_world()
    assert world is not None
    MODES[options.mode](world, options)


def connect(folder: Path, rank: int, size: int) -> None:
    path = folder / "port"
    if rank == 0:
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        path.with_suffix(".new").write_text(str(store.port))
        path.with_suffix(".new").rename(path)
    else:
        while not path.exists():
            time.sleep(0.01)
        store = TCPStore("127.0.0.1", int(path.read_text()), wait_for_workers=False)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=size, timeout=timedelta(minutes=10)
    )


def step_together() -> None:
    """A step of data-parallel training: some work of its own, then a collective."""
    dist.all_reduce(torch.ones(1))


def trials(world: World, options: argparse.Namespace) -> None:
    """Calls at random ranks and moments, many times. All ranks draw the same numbers."""
    chance = random.Random(options.seed)
    for trial in range(options.trials):
        caller, wait_seconds = chance.randrange(world.size), chance.random() * 0.02
        saver, save_seconds = chance.randrange(world.size), chance.random() * 0.02
        agreement = Agreement(
            world,
            open_channel(world, f"trial/{trial}"),
            seconds_left=lambda: 600.0,
            seconds_needed=lambda: 1.0,
            on_stop_call=lambda reason, left: None,
            on_lost=lambda reason, trial=trial: say(trial=trial, lost=reason),  # type: ignore[misc]  # the default binds the loop's value
        )
        agreement.start()
        # A rank may still be connecting, which a slow name service delays by seconds.
        dist.barrier()
        called: list[float] = []

        def call(agreement: Agreement = agreement, called: list[float] = called) -> None:
            called.append(time.monotonic())
            agreement.call_stop("a trial", 600.0)

        timers = [threading.Timer(wait_seconds, call)] if caller == world.rank else []
        if saver == world.rank:
            timers.append(threading.Timer(save_seconds, agreement.call_save))
        orders = run_trial(agreement, timers, random.Random(options.seed + trial + world.rank))
        took_seconds = time.monotonic() - called[0] if called else None
        say(trial=trial, orders=orders, seconds=took_seconds)
        agreement.close()
        dist.barrier()


def run_trial(
    agreement: Agreement, timers: list[threading.Timer], chance: random.Random
) -> list[Any]:
    orders: list[Any] = []
    step = 0
    while True:
        if (order := agreement.boundary(step)) is not None:
            orders.append([order.kind, order.step, order.is_full])
            if order.kind is OrderKind.STOP:
                break
        if step == 0:
            for timer in timers:
                timer.start()
        if chance.random() < 0.3:
            time.sleep(chance.random() * 0.002)
        step_together()
        step += 1
    for timer in timers:
        timer.cancel()
        timer.join()
    return orders


def guarded(world: World, options: argparse.Namespace) -> None:
    """A loop under a guard, as in a run: a notice of any rank ends all."""
    with Guard(exit_code=75) as guard:
        agreement = open_agreement(world, guard, options.lost_seconds)

        @guard.on_notice
        def call(notice: Notice) -> None:
            agreement.call_stop(notice.reason, guard.remaining())

        step = 0
        while (order := agreement.boundary(step)) is None:
            if step == 3:
                say(running=True)
            time.sleep(0.005)
            if not options.alone:
                step_together()
            step += 1
        notice = guard.notice
        source = None if notice is None else notice.source
        say(order=order.kind, step=order.step, is_full=order.is_full, source=source)
        agreement.close()
        raise SystemExit(guard.exit_code)


def left_open(world: World, options: argparse.Namespace) -> None:
    """A program that never closes its agreement."""
    with Guard(exit_code=75) as guard:
        agreement = open_agreement(world, guard, options.lost_seconds)
        for step in range(20):
            assert agreement.boundary(step) is None
            step_together()


def failing(world: World, options: argparse.Namespace) -> None:
    """The last rank fails, and the others wait for it in a collective."""
    with Guard(exit_code=75) as guard:
        agreement = open_agreement(world, guard, options.lost_seconds)
        for step in range(1_000_000):
            agreement.boundary(step)
            if step == 20 and world.rank == world.size - 1:
                agreement.call_lost("rank failed: ValueError")
                agreement.close()
                say(failed=True)
                # Not the end of the process, which the collective would notice.
                time.sleep(600)
            try:
                step_together()
            except RuntimeError:
                # Another rank was told first and has exited. This one is ended by its guard too.
                time.sleep(600)


def open_agreement(world: World, guard: Guard, lost_seconds: float) -> Agreement:
    def lose(reason: str) -> None:
        say(lost=reason)
        guard.announce_peer(reason, 0.2)

    agreement = Agreement(
        world,
        open_channel(world, "outlast/0"),
        seconds_left=guard.remaining,
        seconds_needed=lambda: 0.01,
        on_stop_call=guard.announce_peer,
        on_lost=lose,
        beat_seconds=0.1,
        lost_seconds=lost_seconds,
    )
    agreement.start()
    dist.barrier()
    return agreement


def say(**facts: object) -> None:
    # One write per line, because several threads and processes print.
    os.write(1, (json.dumps({**always, **facts}) + "\n").encode())


MODES = {"trials": trials, "guarded": guarded, "left-open": left_open, "failing": failing}

if __name__ == "__main__":
    main()
