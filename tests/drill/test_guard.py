"""Guards in real processes, with real signals."""

import signal
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.programs import python

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}

LOOP = """
    import sys, time, outlast

    with outlast.Guard() as guard:
        print("ready")
        for step in range(2000):
            time.sleep(0.01)
            if guard.interrupted:
                time.sleep(0.5)
                print("flushed after", guard.notice.reason)
                break
    sys.exit(guard.exit_code)
"""


@pytest.mark.parametrize(
    ("env", "code"),
    [
        pytest.param({}, 0, id="by hand"),
        pytest.param(IN_A_POD, 75, id="in a Pod"),
        pytest.param({"OUTLAST_EXIT_CODE": "42"}, 42, id="explicit"),
    ],
)
def test_sigterm_lets_the_work_finish_and_leaves_with_an_honest_code(
    env: dict[str, str], code: int
) -> None:
    with python(LOOP, env=env) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == code
        assert "flushed after SIGTERM" in program.output


def test_a_finished_program_leaves_with_zero_in_a_pod_too() -> None:
    source = "import outlast, sys\nwith outlast.Guard() as guard: pass\nsys.exit(guard.exit_code)"
    with python(source, env=IN_A_POD) as program:
        assert program.wait() == 0


def test_a_doubled_sigterm_does_not_disturb_the_final_work() -> None:
    with python(LOOP, env=IN_A_POD) as program:
        program.wait_for("ready")
        for _ in range(5):
            program.signal_group(signal.SIGTERM)
            time.sleep(0.05)

        assert program.wait() == 75
        assert "flushed after SIGTERM" in program.output
        assert program.output.count("Notice:") == 1


def test_a_second_sigterm_after_the_guard_has_closed_does_not_kill_the_farewell() -> None:
    source = """
        import sys, time, outlast
        with outlast.Guard() as guard:
            print("ready")
            guard.wait()
        print("closed")
        time.sleep(0.5)
        print("farewell")
        sys.exit(guard.exit_code)
    """
    with python(source, env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)
        program.wait_for("closed")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert "farewell" in program.output


def test_ctrl_c_lets_the_work_finish_and_leaves_with_130() -> None:
    with python(LOOP) as program:
        program.wait_for("ready")
        program.signal(signal.SIGINT)

        assert program.wait() == 130
        assert "flushed after SIGINT" in program.output
        assert "Press it again to leave at once" in program.output


def test_a_doubled_ctrl_c_within_a_second_is_one() -> None:
    with python(LOOP) as program:
        program.wait_for("ready")
        program.signal(signal.SIGINT)
        time.sleep(0.1)
        program.signal(signal.SIGINT)

        assert program.wait() == 130
        assert "flushed" in program.output


def test_a_second_ctrl_c_a_second_later_leaves_at_once() -> None:
    source = """
        import time, outlast
        with outlast.Guard() as guard:
            print("ready")
            time.sleep(60)
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGINT)
        time.sleep(1.1)
        sent = time.monotonic()
        program.signal(signal.SIGINT)

        assert program.wait() == 130
        assert time.monotonic() - sent < 1.0
        assert "A second Ctrl-C" in program.output


@pytest.mark.timeout(60)
def test_a_notice_is_seen_within_50_ms_while_the_main_thread_is_inside_a_c_call() -> None:
    source = """
        import hashlib, threading, time, outlast

        def watch():
            guard.wait()
            print("seen", time.monotonic(), guard.notice.arrived, guard.notice.deadline)

        with outlast.Guard() as guard:
            threading.Thread(target=watch).start()
            print("ready")
            # Releases the interpreter lock for seconds, like a step on an accelerator.
            hashlib.pbkdf2_hmac("sha512", b"x", b"y", 4_000_000)
            print("back", time.monotonic())
    """
    delays = []
    for _ in range(3):
        with python(source) as program:
            program.wait_for("ready")
            time.sleep(0.1)
            sent = time.monotonic()
            program.signal(signal.SIGTERM)
            seen, arrived, deadline = map(float, program.wait_for("seen").split()[1:])
            back = float(program.wait_for("back").split()[1])
            assert back > seen + 0.5, "The call must outlast the notice, or it shows nothing."
        delays.append(seen - sent)
        assert arrived - sent < 0.05
        assert deadline == pytest.approx(arrived + 15)
    assert statistics.median(delays) < 0.05


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps the wake-up datagram")
def test_the_deadline_counts_from_the_signal_even_while_the_interpreter_lock_is_held() -> None:
    source = """
        import random, time, outlast

        numbers = [random.random() for _ in range(3_000_000)]
        with outlast.Guard() as guard:
            print("ready")
            # One call into C that does not let go of the lock for a second or more.
            numbers.sort()
            print("back", time.monotonic(), guard.interrupted, guard.notice.arrived)
    """
    with python(source) as program:
        program.wait_for("ready")
        time.sleep(0.1)
        sent = time.monotonic()
        program.signal(signal.SIGTERM)
        _, back, interrupted, arrived = program.wait_for("back").split()

    assert float(back) - sent > 0.3, "The lock must be held past the signal, or it shows nothing."
    assert interrupted == "True"
    assert float(arrived) - sent < 0.05


def test_a_step_that_outlasts_the_grace_period_ends_before_the_kill() -> None:
    source = """
        import time, outlast
        with outlast.Guard(grace_seconds=3, reserve_seconds=1) as guard:
            guard.on_last_resort(lambda: print("last resort"))
            print("ready")
            time.sleep(60)
    """
    with python(source) as program:
        program.wait_for("ready")
        sent = time.monotonic()
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert 1.9 < time.monotonic() - sent < 2.9
        assert "last resort" in program.output


def test_a_last_resort_that_hangs_does_not_keep_the_process_past_the_kill() -> None:
    source = """
        import time, outlast
        with outlast.Guard(grace_seconds=2, reserve_seconds=1) as guard:
            guard.on_last_resort(lambda: time.sleep(60))
            print("ready")
            time.sleep(60)
    """
    with python(source, env={"OUTLAST_EXIT_CODE": "42"}) as program:
        program.wait_for("ready")
        sent = time.monotonic()
        program.signal(signal.SIGTERM)

        assert program.wait() == 42
        assert time.monotonic() - sent < 1.9


def test_a_log_that_nobody_reads_does_not_keep_the_process_past_the_kill() -> None:
    source = """
        import logging, os, sys, outlast
        reader, writer = os.pipe()
        logging.basicConfig(stream=os.fdopen(writer, "w"), level="INFO")
        with outlast.Guard(grace_seconds=2, reserve_seconds=1) as guard:
            print("ready")
            # Blocks with the handler's lock held once the pipe is full.
            logging.info("x" * 1_000_000)
    """
    with python(source, env=IN_A_POD) as program:
        program.wait_for("ready")
        time.sleep(0.2)
        sent = time.monotonic()
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert time.monotonic() - sent < 1.9


def test_a_callback_past_the_budget_is_abandoned_and_the_next_not_started() -> None:
    source = """
        import time, outlast
        with outlast.Guard(grace_seconds=2, reserve_seconds=1) as guard:
            guard.on_notice(lambda notice: time.sleep(60))
            guard.on_notice(lambda notice: print("too late"))
            print("ready")
            time.sleep(60)
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert "too late" not in program.output


@pytest.mark.parametrize("where", ["the main thread", "another thread"])
def test_a_departure_that_is_swallowed_still_happens(where: str) -> None:
    source = f"""
        import sys, threading, time, outlast

        def work():
            try:
                with outlast.Guard(grace_seconds=3, reserve_seconds=1) as guard:
                    print("ready")
                    guard.wait()
                    sys.exit(guard.exit_code)
            except BaseException:
                print("swallowed")

        with outlast.Guard(grace_seconds=3, reserve_seconds=1):
            if {where!r} == "another thread":
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
            else:
                work()
        time.sleep(60)
    """
    with python(source) as program:
        program.wait_for("ready")
        sent = time.monotonic()
        program.signal(signal.SIGTERM)
        program.wait_for("swallowed")

        assert program.wait() == 75
        assert time.monotonic() - sent < 2.9


def test_ctrl_c_in_a_notebook_does_not_end_the_kernel_later() -> None:
    source = """
        import time, outlast
        for cell in range(2):
            with outlast.Guard(grace_seconds=2, reserve_seconds=1) as guard:
                print("ready", cell)
                guard.wait()
        time.sleep(1.5)
        print("still alive")
    """
    with python(source) as program:
        for cell in range(2):
            program.wait_for(f"ready {cell}")
            program.signal(signal.SIGINT)

        assert program.wait() == 0
        assert "still alive" in program.output


def test_another_signal_can_be_the_notice() -> None:
    with python(LOOP, env={"OUTLAST_SIGNALS": "SIGUSR1", **IN_A_POD}) as program:
        program.wait_for("ready")
        program.signal(signal.SIGUSR1)

        assert program.wait() == 75
        assert "flushed after SIGUSR1" in program.output


def test_an_earlier_handler_is_called_but_cannot_end_the_work_with_a_lie() -> None:
    source = """
    import os, signal, sys
    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"their handler\\n"), sys.exit(0)))
    """
    with python(source + LOOP, env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert "their handler" in program.output
        assert "flushed after SIGTERM" in program.output
        assert "held it back" in program.output


def test_a_handler_installed_over_ours_does_not_deafen_the_guard() -> None:
    source = """
        import signal, time, outlast
        calls = []
        with outlast.Guard(grace_seconds=20) as guard:
            signal.signal(signal.SIGTERM, lambda *_: calls.append("called"))
            print("ready")
            guard.wait()
            time.sleep(0.1)
            print("heard, their handler was", *calls)
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 0
        assert "heard, their handler was called" in program.output


def test_a_native_handler_is_restored() -> None:
    source = """
        import faulthandler, os, signal, sys, outlast
        faulthandler.register(signal.SIGUSR1, file=sys.stdout, all_threads=False)
        with outlast.Guard(signals=["SIGUSR1"]) as guard:
            pass
        os.kill(os.getpid(), signal.SIGUSR1)
        print("alive")
    """
    with python(source) as program:
        assert program.wait() == 0
        assert "most recent call first" in program.output
        assert "alive" in program.output


def test_asyncio_and_the_guard_hear_the_same_signal() -> None:
    source = """
        import asyncio, signal, outlast

        async def main():
            heard = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set)
            with outlast.Guard() as guard:
                print("ready")
                await heard.wait()
                await asyncio.to_thread(guard.wait)
                print("both")

        asyncio.run(main())
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGUSR1)
        program.signal(signal.SIGTERM)

        assert program.wait() == 0
        assert "both" in program.output


def test_a_wake_up_descriptor_taken_later_does_not_deafen_the_guard() -> None:
    source = """
        import asyncio, signal, outlast

        async def main():
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print, "theirs")
            print("ready")
            while not guard.interrupted:
                await asyncio.sleep(0.01)
            print("heard", guard.notice.reason)

        with outlast.Guard() as guard:
            asyncio.run(main())
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGUSR1)
        program.wait_for("theirs")
        program.signal(signal.SIGTERM)

        assert program.wait() == 0
        assert "heard SIGTERM" in program.output


def test_ctrl_c_that_the_shell_told_a_background_job_to_ignore_stays_ignored() -> None:
    source = """
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    """
    with python(source + LOOP) as program:
        program.wait_for("ready")
        program.signal(signal.SIGINT)
        time.sleep(0.2)
        program.signal(signal.SIGTERM)

        program.wait()
        assert "flushed after SIGTERM" in program.output
        assert "Ctrl-C" not in program.output


def test_a_guard_closed_in_another_thread_gives_the_signal_back_when_it_comes() -> None:
    source = """
        import threading, time, outlast
        guard = outlast.Guard()
        guard.__enter__()
        closer = threading.Thread(target=guard.__exit__, args=(None, None, None))
        closer.start()
        closer.join()
        print("ready")
        time.sleep(60)
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 128 + signal.SIGTERM


def test_a_known_expiry_gives_notice_ahead_of_time() -> None:
    expires_at = datetime.now(UTC) + timedelta(seconds=5)
    source = """
        import time, outlast
        with outlast.Guard(grace_seconds=3, reserve_seconds=1) as guard:
            print("interrupted", guard.interrupted)
            guard.wait()
            print("left", guard.remaining(), guard.notice.source)
    """
    with python(source, env={"OUTLAST_EXPIRES_AT": expires_at.isoformat()}) as program:
        program.wait_for("interrupted False")
        line = program.wait_for("left")
        seen = datetime.now(UTC)

        left = float(line.split()[1])
        assert line.endswith("expiry")
        assert 1.5 < left <= 2.0
        assert 2.5 < (expires_at - seen).total_seconds() <= 3.0


def test_a_maximum_run_duration_gives_notice_by_the_time_since_boot() -> None:
    uptime_seconds = float(Path("/proc/uptime").read_text().split()[0])
    source = """
        import outlast
        with outlast.Guard(grace_seconds=20) as guard:
            print("heard", guard.wait(5), guard.notice.source)
    """
    env = {"OUTLAST_MAX_RUN_SECONDS": str(uptime_seconds + 60 + 15)}
    with python(source, env=env) as program:
        assert program.wait_for("heard") == "heard True expiry"


def test_a_machine_older_than_the_lease_is_left_alone() -> None:
    source = """
        import outlast
        with outlast.Guard() as guard:
            print("heard", guard.wait(0.3))
    """
    with python(source, env={"OUTLAST_MAX_RUN_SECONDS": "1"}) as program:
        assert program.wait() == 0
        assert "heard False" in program.output
        assert "that clock is not for this machine" in program.output


def test_a_bad_setting_is_told_in_full_before_any_work_starts() -> None:
    source = """
        import outlast
        with outlast.Guard() as guard:
            print("working")
    """
    with python(source, env={"OUTLAST_GRACE_SECONDS": "1"}) as program:
        assert program.wait() == 1
        assert "working" not in program.output
        assert "1 s (variable OUTLAST_GRACE_SECONDS) is shorter" in program.output
        assert "hint: Raise OUTLAST_GRACE_SECONDS" in program.output


def test_signals_at_random_moments_of_opening_and_closing_are_never_lost() -> None:
    """Guards open and close while SIGTERM comes: it is heard, or acts as if there were none."""
    source = """
        import os, random, signal, sys, time, outlast

        seed = int(sys.argv[1])
        instants = random.Random(seed)
        outlast.Guard()  # Loaded before the children are made, which have only milliseconds.
        for attempt in range(40):
            child = os.fork()
            if child == 0:
                while True:
                    with outlast.Guard() as guard:
                        time.sleep(0.0005)
                        if guard.interrupted:
                            os._exit(75)
            time.sleep(0.005 + instants.random() * 0.01)
            os.kill(child, signal.SIGTERM)
            give_up_at = time.monotonic() + 3
            while time.monotonic() < give_up_at:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    break
                time.sleep(0.001)
            else:
                print("lost in attempt", attempt, "of seed", seed)
                os.kill(child, signal.SIGKILL)
                break
        else:
            print("all heard")
    """
    with python(source, "7") as program:
        assert program.wait() == 0
        assert program.lines[-1] == "all heard", program.output


def test_a_flood_of_other_signals_does_not_drown_the_notice() -> None:
    source = """
        import random, signal, time, outlast

        numbers = [random.random() for _ in range(2_000_000)]
        signal.signal(signal.SIGALRM, lambda *_: None)
        with outlast.Guard(grace_seconds=60) as guard:
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            print("ready")
            numbers.sort()
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("heard", guard.wait(3))
    """
    with python(source) as program:
        program.wait_for("ready")
        time.sleep(0.4)
        program.signal(signal.SIGTERM)

        assert program.wait_for("heard") == "heard True"


@pytest.mark.parametrize("act", ["sys.exit(3)", "guard.__exit__(None, None, None)"])
def test_a_callback_that_exits_or_closes_the_guard_holds_nothing_up(act: str) -> None:
    source = f"""
        import sys, time, outlast
        guard = outlast.Guard(grace_seconds=10)
        guard.__enter__()
        guard.on_notice(lambda notice: {act})
        guard.on_notice(lambda notice: print("second"))
        guard.interrupt("now")
        started = time.monotonic()
        if guard._watcher is not None:
            guard.__exit__(None, None, None)
        print("took", time.monotonic() - started)
    """
    with python(source) as program:
        assert float(program.wait_for("took").split()[1]) < 3.0


def test_a_working_thread_is_served_after_the_main_thread_has_ended() -> None:
    """Python 3.12 starts no new thread from then on."""
    source = """
        import os, threading, time, outlast

        def work():
            time.sleep(0.3)
            print("ready")
            time.sleep(60)

        guard = outlast.Guard(grace_seconds=3, reserve_seconds=2)
        guard.__enter__()
        guard.on_notice(lambda notice: print("called back"))
        guard.on_last_resort(lambda: print("last resort"))
        threading.Thread(target=work).start()
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert {"called back", "last resort"} <= set(program.lines)
        assert "did not end in time" in program.output


def test_a_log_that_hangs_while_a_guard_opens_does_not_cost_the_deadline() -> None:
    source = """
        import logging, threading, time, outlast

        class Hanging(logging.Handler):
            def emit(self, record):
                time.sleep(60)

        logging.getLogger("outlast").addHandler(Hanging())
        with outlast.Guard(grace_seconds=2, reserve_seconds=1):
            print("ready")
            with outlast.Guard(grace_seconds=2, reserve_seconds=1, max_run_seconds=1):
                pass
    """
    with python(source, env=IN_A_POD) as program:
        program.wait_for("ready")
        time.sleep(0.3)
        sent = time.monotonic()
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert time.monotonic() - sent < 1.9


def test_a_ctrl_c_that_breaks_into_opening_or_closing_leaves_nothing_behind() -> None:
    source = """
        import os, random, signal, threading, time, outlast

        instants = random.Random(7)
        with outlast.Guard():
            pass
        broken = 0
        for attempt in range(60):
            wait = instants.random() * 0.003
            press = threading.Timer(wait, os.kill, [os.getpid(), signal.SIGINT])
            try:
                press.start()
                with outlast.Guard():
                    pass
                press.join()
                time.sleep(0.001)
            except KeyboardInterrupt:
                broken += 1
            press.join()
        time.sleep(0.3)
        print("broken into", broken > 5)
        print("left", [t.name for t in threading.enumerate() if t.name.startswith("outlast")])
    """
    with python(source) as program:
        program.wait_for("broken into True")
        assert program.wait_for("left [") == "left []"


def test_a_handler_of_the_program_runs_once_for_each_signal_while_guards_close() -> None:
    source = """
        import os, signal, time, outlast

        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        for attempt in range(300):
            with outlast.Guard():
                os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.1)
        print("seen", len(seen))
    """
    with python(source) as program:
        assert program.wait_for("seen") == "seen 300"


def test_a_wake_up_descriptor_that_was_closed_is_not_written_to() -> None:
    source = """
        import asyncio, os, signal, tempfile, outlast

        guard = outlast.Guard(grace_seconds=30)

        async def main():
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, print)
            guard.__enter__()

        asyncio.run(main())
        files = [tempfile.TemporaryFile() for _ in range(20)]
        print("ready")
        guard.wait()
        print("sizes", sum(os.fstat(file.fileno()).st_size for file in files))
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait_for("sizes") == "sizes 0"


def test_ctrl_c_under_asyncio_lets_the_work_finish() -> None:
    source = """
        import asyncio, sys, outlast

        async def main():
            with outlast.Guard() as guard:
                print("ready")
                while not guard.interrupted:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.2)
                print("saved")
            return guard.exit_code

        sys.exit(asyncio.run(main()))
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGINT)

        assert program.wait() == 130
        assert "saved" in program.output


def test_a_forked_child_that_leaves_the_block_is_not_held_up() -> None:
    source = """
        import os, time, outlast
        started = time.monotonic()
        with outlast.Guard(grace_seconds=10) as guard:
            guard.on_notice(lambda notice: time.sleep(0.5))
            guard.interrupt("now")
            child = os.fork()
        if child == 0:
            print("child took", time.monotonic() - started)
            os._exit(0)
        os.waitpid(child, 0)
    """
    with python(source) as program:
        assert float(program.wait_for("child took").split()[2]) < 0.5


def test_a_thousand_guards_leave_no_thread_descriptor_or_handler_behind() -> None:
    source = """
        import os, signal, threading, outlast

        def resources():
            handlers = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
            return threading.active_count(), len(os.listdir("/dev/fd")), handlers

        with outlast.Guard():
            pass
        before = resources()
        for number in range(1000):
            with outlast.Guard() as guard:
                if number % 10 == 0:
                    guard.interrupt("now and then")
        assert resources() == before, (before, resources())
        print("nothing left")
    """
    with python(source) as program:
        program.wait_for("nothing left")
