"""What only many repetitions show. `make soak`; a failure prints the seed that repeats it."""

import pytest

from tests.programs import python

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

OPEN_AND_CLOSE = """
    import os, random, signal, sys, time, outlast

    seed = int(sys.argv[1])
    instants = random.Random(seed)
    outlast.Guard()
    sys.stderr = open(os.devnull, "w")
    for attempt in range(1500):
        child = os.fork()
        if child == 0:
            while True:
                with outlast.Guard() as guard:
                    time.sleep(0.0005)
                    if guard.interrupted:
                        os._exit(75)
        time.sleep(0.005 + instants.random() * 0.01)
        os.kill(child, signal.SIGTERM)
        give_up_at = time.monotonic() + 5
        while time.monotonic() < give_up_at:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            time.sleep(0.001)
        else:
            os.kill(child, signal.SIGKILL)
            print("lost in attempt", attempt, "of seed", seed)
            break
    else:
        print("all heard")
"""


@pytest.mark.parametrize("seed", range(4))
def test_no_signal_is_lost_while_guards_open_and_close(seed: int) -> None:
    with python(OPEN_AND_CLOSE, str(seed), patience_seconds=300) as program:
        assert program.wait() == 0
        assert program.lines[-1] == "all heard", program.output


DEADLINE = """
    import random, sys, time, outlast

    instants = random.Random(int(sys.argv[1]))
    with outlast.Guard(grace_seconds=1.2, reserve_seconds=0.6) as guard:
        print("ready")
        while True:
            # Calls into C of random length, half of which hold the interpreter lock.
            if instants.random() < 0.5:
                time.sleep(instants.random())
            else:
                sorted(instants.random() for _ in range(int(300_000 * instants.random())))
"""


@pytest.mark.parametrize("seed", range(25))
def test_the_deadline_is_kept_whatever_the_loop_does(seed: int) -> None:
    import random
    import signal
    import time

    with python(DEADLINE, str(seed)) as program:
        program.wait_for("ready")
        time.sleep(random.Random(seed).random())
        sent = time.monotonic()
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert time.monotonic() - sent < 1.2
