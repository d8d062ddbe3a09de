"""Guards in real processes, with real signals."""

import signal
import sys
import time
from pathlib import Path

import pytest

from tests.programs import python

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}

# It flushes once the notice is logged and, if a file is named, there.
LOOP = """
    import logging, os, sys, threading, time, outlast

    logged = threading.Event()

    class Printing(logging.Handler):
        def emit(self, record):
            print(record.getMessage())
            logged.set()

    logging.getLogger("outlast").addHandler(Printing())
    with outlast.Guard() as guard:
        print("ready")
        while not guard.interrupted:
            time.sleep(0.01)
        logged.wait()
        print("saving")
        while sys.argv[1:] and not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        print("flushed after", guard.notice.reason)
    sys.exit(guard.exit_code)
"""

# Lets a deadline come without waiting for it, and only once the program is ready for it.
TIME = """
    import time
    monotonic = time.monotonic

    def let_time_pass(seconds):
        time.monotonic = lambda: monotonic() + seconds
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


EXITING = """
    import signal, sys, time, outlast

    class SIGTERMException(SystemExit):
        pass

    received = []
    with outlast.Guard():
        # As frameworks do: their own handler, and an exit from their own loop.
        signal.signal(signal.SIGTERM, lambda *_: received.append(1))
        print("ready")
        while not received:
            time.sleep(0.01)
        {act}
"""


@pytest.mark.parametrize(
    ("act", "env", "code"),
    [
        pytest.param("raise SIGTERMException", IN_A_POD, 75, id="without a code"),
        pytest.param("raise SIGTERMException", {}, 0, id="without a code, by hand"),
        pytest.param("raise SIGTERMException", {"OUTLAST_EXIT_CODE": "42"}, 42, id="explicit"),
        pytest.param("sys.exit()", IN_A_POD, 75, id="sys.exit()"),
        pytest.param("sys.exit(0)", IN_A_POD, 75, id="success"),
        pytest.param("sys.exit(3)", IN_A_POD, 3, id="a failure"),
        pytest.param("sys.exit('no data')", IN_A_POD, 1, id="a message"),
        pytest.param("raise SIGTERMException(143)", IN_A_POD, 143, id="a code of its own"),
    ],
)
def test_the_code_is_honest_whoever_exits_after_a_notice(
    act: str, env: dict[str, str], code: int
) -> None:
    with python(EXITING.format(act=act), env=env) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == code


def test_without_a_notice_an_exit_keeps_its_code() -> None:
    source = "import outlast, sys\nwith outlast.Guard(): sys.exit()"
    with python(source, env=IN_A_POD) as program:
        assert program.wait() == 0


def test_a_finished_program_leaves_with_zero_in_a_pod_too() -> None:
    source = "import outlast, sys\nwith outlast.Guard() as guard: pass\nsys.exit(guard.exit_code)"
    with python(source, env=IN_A_POD) as program:
        assert program.wait() == 0


def test_a_doubled_sigterm_does_not_disturb_the_final_work(tmp_path: Path) -> None:
    with python(LOOP, str(tmp_path / "go-on"), env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal_group(signal.SIGTERM)
        program.wait_for("saving")
        for _ in range(5):
            program.signal_group(signal.SIGTERM)
        (tmp_path / "go-on").touch()

        assert program.wait() == 75
        assert "flushed after SIGTERM" in program.output
        assert program.output.count("Received SIGTERM:") == 1


def test_a_second_sigterm_after_the_guard_has_closed_does_not_kill_the_farewell() -> None:
    source = """
        import signal, sys, time, outlast
        with outlast.Guard() as guard:
            print("ready")
            guard.wait()
        told = []
        signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
        print("closed")
        while not told:
            time.sleep(0.01)
        print("farewell")
        sys.exit(guard.exit_code)
    """
    with python(source, env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)
        program.wait_for("closed")
        program.signal(signal.SIGTERM)
        program.signal(signal.SIGUSR1)

        assert program.wait() == 75
        assert "farewell" in program.output


def test_ctrl_c_lets_the_work_finish_and_leaves_with_130() -> None:
    with python(LOOP) as program:
        program.wait_for("ready")
        program.signal(signal.SIGINT)

        assert program.wait() == 130
        assert "flushed after SIGINT" in program.output
        assert "Press it again to exit now" in program.output


def test_a_doubled_ctrl_c_within_a_second_is_one(tmp_path: Path) -> None:
    source = """
    import outlast.interruption.watcher
    # Longer than the second that users have, so that a slow machine doubles it in time as well.
    outlast.interruption.watcher._SECOND_CTRL_C_SECONDS = 3600.0
    """
    with python(source + LOOP, str(tmp_path / "go-on")) as program:
        program.wait_for("ready")
        program.signal(signal.SIGINT)
        program.wait_for("saving")
        program.signal(signal.SIGINT)
        (tmp_path / "go-on").touch()

        assert program.wait() == 130
        assert "flushed" in program.output


def test_a_second_ctrl_c_a_second_later_leaves_at_once() -> None:
    source = """
        import time, outlast
        with outlast.Guard(grace_seconds=3600, reserve_seconds=60) as guard:
            print("ready")
            time.sleep(3600)
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGINT)
        program.wait_for("Press it again")
        time.sleep(1.1)
        program.signal(signal.SIGINT)

        assert program.wait() == 130
        assert "a second Ctrl-C" in program.output


# Calls that do not return early when a signal arrives, unlike most that wait.
CALLS_INTO_C = """
    import ctypes, time

    mutex = ctypes.create_string_buffer(256)
    letting_go, holding = ctypes.CDLL(None), ctypes.PyDLL(None)

    class Timespec(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

    def wait_without_the_interpreter_lock():
        letting_go.pthread_mutex_lock(mutex)

    def wait_with_the_interpreter_lock(seconds):
        until = Timespec(int(time.time() + seconds) + 1, 0)
        holding.pthread_mutex_timedlock(mutex, ctypes.byref(until))

    letting_go.pthread_mutex_lock(mutex)
"""


def test_a_notice_is_seen_while_the_main_thread_is_inside_a_c_call() -> None:
    """The call returns only after another thread saw the notice. How soon is measured in bench/."""
    source = """
    import threading, outlast

    def watch():
        guard.wait()
        print("seen", guard.notice.deadline - guard.notice.arrived)
        letting_go.pthread_mutex_unlock(mutex)

    with outlast.Guard() as guard:
        threading.Thread(target=watch).start()
        print("ready")
        wait_without_the_interpreter_lock()
        print("back")
    """
    with python(CALLS_INTO_C + source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert float(program.wait_for("seen").split()[1]) == pytest.approx(600)
        program.wait_for("back")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps the wake-up datagram")
def test_the_deadline_counts_from_the_signal_even_while_the_interpreter_lock_is_held() -> None:
    source = """
    import outlast

    with outlast.Guard(grace_seconds=600) as guard:
        print("ready")
        wait_with_the_interpreter_lock(2)
        back = time.monotonic()
        guard.wait()
        print("back", back, guard.notice.arrived)
    """
    held_seconds = 0.0
    while held_seconds < 1.5:  # Otherwise the signal came too late to show anything.
        with python(CALLS_INTO_C + source) as program:
            program.wait_for("ready")
            sent = time.monotonic()
            program.signal(signal.SIGTERM)
            back, arrived = map(float, program.wait_for("back").split()[1:])
        held_seconds = back - sent

    assert sent <= arrived < back - 0.5


def test_a_step_that_outlasts_the_grace_period_ends_before_the_kill() -> None:
    source = """
        import time, outlast
        # The last callbacks have half of the reserve.
        with outlast.Guard(grace_seconds=62, reserve_seconds=60) as guard:
            guard.on_last_resort(lambda: print("last resort"))
            print("ready")
            time.sleep(3600)
    """
    with python(source) as program:
        program.wait_for("ready")
        sent = time.monotonic()
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert time.monotonic() - sent >= 2.0
        assert "last resort" in program.output


def test_a_last_resort_that_hangs_does_not_keep_the_process_past_the_kill() -> None:
    source = """
        import time, outlast
        with outlast.Guard(grace_seconds=2, reserve_seconds=1) as guard:
            guard.on_last_resort(lambda: time.sleep(3600))
            print("ready")
            time.sleep(3600)
    """
    with python(source, env={"OUTLAST_EXIT_CODE": "42"}) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 42


def test_a_log_that_nobody_reads_does_not_keep_the_process_past_the_kill() -> None:
    source = """
        import fcntl, logging, os, sys, termios, threading, time, outlast
        reader, writer = os.pipe()
        logging.basicConfig(stream=os.fdopen(writer, "w"), level="INFO")

        def tell_when_full():
            size = fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ)
            waiting = bytearray(4)
            while int.from_bytes(waiting, sys.byteorder) < size:
                fcntl.ioctl(reader, termios.FIONREAD, waiting)
                time.sleep(0.01)
            print("full")

        threading.Thread(target=tell_when_full, daemon=True).start()
        with outlast.Guard(grace_seconds=2, reserve_seconds=1) as guard:
            # Blocks with the handler's lock held once the pipe is full.
            logging.info("x" * 1_000_000)
    """
    with python(source, env=IN_A_POD) as program:
        program.wait_for("full")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75


def test_a_callback_past_the_budget_is_abandoned_and_the_next_not_started() -> None:
    source = """
        import time, outlast
        with outlast.Guard(grace_seconds=2, reserve_seconds=1) as guard:
            guard.on_notice(lambda notice: time.sleep(3600))
            guard.on_notice(lambda notice: print("too late"))
            print("ready")
            time.sleep(3600)
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert "too late" not in program.output


@pytest.mark.parametrize("where", ["the main thread", "another thread"])
def test_a_departure_that_is_swallowed_still_happens(where: str) -> None:
    source = f"""
    import sys, threading, outlast

    def work():
        try:
            with outlast.Guard() as guard:
                print("ready")
                guard.wait()
                sys.exit(guard.exit_code)
        except BaseException:
            print("swallowed")

    with outlast.Guard():
        if {where!r} == "another thread":
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            work()
    let_time_pass(600)
    time.sleep(3600)
    """
    with python(TIME + source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)
        program.wait_for("swallowed")

        assert program.wait() == 75


def test_ctrl_c_in_a_notebook_does_not_end_the_kernel_later() -> None:
    source = """
    import outlast
    for cell in range(2):
        with outlast.Guard() as guard:
            print("ready", cell)
            guard.wait()
    let_time_pass(1200)
    time.sleep(0.6)  # More than two rounds of a watcher that would still be there.
    print("still alive")
    """
    with python(TIME + source) as program:
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
    """Nor hold it up by what is logged about it: a log may wait for the thread that it interrupts,
    such as one that shares a stream with a thread which is amid printing."""
    source = """
        import logging, os, signal, sys, threading, time, outlast

        signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"their handler\\n"), sys.exit(0)))
        going_on, reported = threading.Event(), threading.Event()

        class Waiting(logging.Handler):
            def emit(self, record):
                going_on.wait()
                print(record.getMessage())
                if "The guard suppressed it" in record.getMessage():
                    reported.set()

        logging.getLogger("outlast").addHandler(Waiting())
        with outlast.Guard() as guard:
            print("ready")
            while not guard.interrupted:
                time.sleep(0.01)
            going_on.set()
            reported.wait()
            print("flushed after", guard.notice.reason)
        sys.exit(guard.exit_code)
    """
    with python(source, env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert "their handler" in program.output
        assert "flushed after SIGTERM" in program.output


def test_a_handler_installed_over_ours_does_not_deafen_the_guard() -> None:
    source = """
        import signal, time, outlast
        calls = []
        with outlast.Guard(grace_seconds=20) as guard:
            signal.signal(signal.SIGTERM, lambda *_: calls.append("called"))
            print("ready")
            guard.wait()
            while not calls:
                time.sleep(0.01)
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
        time.sleep(3600)
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 128 + signal.SIGTERM


def test_a_known_expiry_gives_notice_ahead_of_time() -> None:
    source = """
        import os, outlast
        from datetime import UTC, datetime, timedelta
        # Set here, because a slow start must not use up the time before the notice.
        expires_at = datetime.now(UTC) + timedelta(seconds=122)
        os.environ["OUTLAST_EXPIRES_AT"] = expires_at.isoformat()
        with outlast.Guard(grace_seconds=120, reserve_seconds=1) as guard:
            guard.wait()
            left = (expires_at - datetime.now(UTC)).total_seconds()
            print("left", left, guard.notice.deadline - guard.notice.arrived, guard.notice.source)
    """
    with python(source) as program:
        _, left, window, source = program.wait_for("left").split()

        assert float(left) <= float(window) <= 120
        assert source == "expiry"


def test_a_maximum_run_duration_gives_notice_by_the_time_since_boot() -> None:
    uptime_seconds = float(Path("/proc/uptime").read_text().split()[0])
    source = """
        import outlast
        with outlast.Guard(grace_seconds=600) as guard:
            print("heard", guard.wait(), guard.notice.source)
    """
    env = {"OUTLAST_MAX_RUN_SECONDS": str(uptime_seconds + 60 + 300)}
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
        assert "Ignoring that clock" in program.output


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
            give_up_at = time.monotonic() + 60
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
    import signal, outlast

    signal.signal(signal.SIGALRM, lambda *_: None)
    with outlast.Guard(grace_seconds=600) as guard:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        print("ready")
        wait_with_the_interpreter_lock(1)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print("heard", guard.wait())
    """
    with python(CALLS_INTO_C + source) as program:
        program.wait_for("ready")
        time.sleep(0.4)
        program.signal(signal.SIGTERM)

        assert program.wait_for("heard") == "heard True"


@pytest.mark.parametrize("act", ["sys.exit(3)", "guard.__exit__(None, None, None)"])
def test_a_callback_that_exits_or_closes_the_guard_holds_nothing_up(act: str) -> None:
    source = f"""
        import sys, time, outlast
        guard = outlast.Guard(grace_seconds=3600)
        guard.__enter__()
        guard.on_notice(lambda notice: {act})
        guard.on_notice(lambda notice: print("second"))
        guard.interrupt("now")
        if guard._watcher is not None:
            guard.__exit__(None, None, None)
        print("closed")
    """
    with python(source) as program:
        program.wait_for("closed")


def test_a_working_thread_is_served_after_the_main_thread_has_ended() -> None:
    """Python 3.12 starts no new thread from then on."""
    source = """
    import threading, outlast

    def work():
        threading.main_thread().join()
        print("ready")
        time.sleep(3600)

    guard = outlast.Guard(reserve_seconds=60)
    guard.__enter__()
    guard.on_notice(lambda notice: (print("called back"), let_time_pass(600)))
    guard.on_last_resort(lambda: print("last resort"))
    threading.Thread(target=work).start()
    """
    with python(TIME + source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert {"called back", "last resort"} <= set(program.lines)
        assert "did not exit in time" in program.output


def test_a_log_that_hangs_while_a_guard_opens_does_not_cost_the_deadline() -> None:
    source = """
        import logging, threading, time, outlast

        class Hanging(logging.Handler):
            def emit(self, record):
                print("hanging")
                time.sleep(3600)

        logging.getLogger("outlast").addHandler(Hanging())
        with outlast.Guard(grace_seconds=2, reserve_seconds=1):
            with outlast.Guard(grace_seconds=2, reserve_seconds=1, max_run_seconds=1):
                pass
    """
    with python(source, env=IN_A_POD) as program:
        program.wait_for("hanging")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75


def test_a_ctrl_c_that_breaks_into_opening_or_closing_leaves_nothing_behind() -> None:
    source = """
        import os, random, signal, threading, time, outlast

        instants = random.Random(7)
        with outlast.Guard():
            pass
        broken = attempts = 0
        # The slower the machine, the fewer break into it.
        while attempts < 60 or broken < 6:
            attempts += 1
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
        while any(thread.name.startswith("outlast") for thread in threading.enumerate()):
            time.sleep(0.01)
        print("nothing left")
    """
    with python(source) as program:
        program.wait_for("nothing left")


def test_a_handler_of_the_program_runs_once_for_each_signal_while_guards_close() -> None:
    source = """
        import os, signal, time, outlast

        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        for attempt in range(300):
            with outlast.Guard():
                os.kill(os.getpid(), signal.SIGUSR1)
        while len(seen) < 300:
            time.sleep(0.01)
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
        import os, threading, outlast
        child_has_left = threading.Event()
        with outlast.Guard(grace_seconds=3600) as guard:
            guard.on_notice(lambda notice: child_has_left.wait())
            guard.interrupt("now")
            child = os.fork()
            if child != 0:
                os.waitpid(child, 0)
                child_has_left.set()
        if child == 0:
            print("child has left")
            os._exit(0)
    """
    with python(source) as program:
        program.wait_for("child has left")
        assert program.wait() == 0


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
