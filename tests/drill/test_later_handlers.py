"""Programs and frameworks that install signal handlers while a guard is open."""

import signal
from pathlib import Path

from tests.programs import python

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}

ASYNCIO = """
    import asyncio, signal, sys, outlast

    async def until_guarded():
        '''Until the guard has noticed that the loop took the wake-up descriptor.'''
        theirs = asyncio.get_running_loop()._csock.fileno()
        while (current := signal.set_wakeup_fd(theirs)) == theirs:
            await asyncio.sleep(0.01)
        signal.set_wakeup_fd(current)
"""


def test_a_handler_of_asyncio_installed_later_does_not_deafen_the_guard() -> None:
    source = (
        ASYNCIO
        + """
    async def main():
        theirs = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, theirs.set)
        await until_guarded()
        print("ready")
        await theirs.wait()
        print("their handler was called")
        await asyncio.to_thread(guard.wait)
        print("heard", guard.notice.reason)

    with outlast.Guard() as guard:
        asyncio.run(main())
    sys.exit(guard.exit_code)
    """
    )
    with python(source, env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75, program.output
        assert "their handler was called" in program.output
        assert "heard SIGTERM" in program.output


def test_a_handler_of_asyncio_installed_later_is_warned_about_once() -> None:
    source = (
        ASYNCIO
        + """
    import logging, threading

    warned = threading.Event()

    class Printing(logging.Handler):
        def emit(self, record):
            print(record.getMessage())
            warned.set()

    async def main():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)
        await asyncio.to_thread(warned.wait)
        await asyncio.sleep(0.6)  # The guard looks again, and again.

    logging.getLogger("outlast").addHandler(Printing())
    with outlast.Guard():
        asyncio.run(main())
    print("done")
    """
    )
    with python(source) as program:
        assert program.wait() == 0, program.output

        warning = "An event loop installed a handler for SIGTERM while a guard was open."
        assert program.output.count(warning) == 1


def test_a_run_inside_asyncio_saves_and_leaves(tmp_path: Path) -> None:
    source = (
        ASYNCIO
        + """
    import numpy as np

    async def main():
        state = {"x": np.zeros(3)}
        with outlast.Run(sys.argv[1], state, every_steps=10**9) as run:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print, "theirs")
            await until_guarded()
            print("ready")
            for step in run.steps(10**9):
                state["x"] += 1
                await asyncio.sleep(0.001)

    asyncio.run(main())
    """
    )
    with python(source, f"{tmp_path}/run", env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75, program.output


def test_asyncio_keeps_its_handler_when_the_guard_closes() -> None:
    source = (
        ASYNCIO
        + """
    async def main():
        theirs = asyncio.Event()
        with outlast.Guard():
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, theirs.set)
            await until_guarded()
        print("ready")
        await theirs.wait()
        print("their handler was called")

    asyncio.run(main())
    """
    )
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 0, program.output
        assert "their handler was called" in program.output


def test_a_handler_that_asyncio_removed_again_does_not_leave_the_default_behind() -> None:
    source = """
        import asyncio, signal, sys, time, outlast

        async def main():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, print)
            loop.remove_signal_handler(signal.SIGTERM)

        with outlast.Guard() as guard:
            asyncio.run(main())
            while signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                time.sleep(0.01)
            print("ready")
            guard.wait()
            print("heard", guard.notice.reason)
        sys.exit(guard.exit_code)
    """
    with python(source, env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75, program.output
        assert "heard SIGTERM" in program.output
        assert "SIGTERM was reset to its default action" in program.output


def test_what_the_program_set_last_is_there_after_the_guard_has_closed() -> None:
    source = """
        import signal, time, outlast

        signal.signal(signal.SIGTERM, print)
        with outlast.Guard() as guard:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            while signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                time.sleep(0.01)
        print("afterwards", signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
    """
    with python(source) as program:
        program.wait_for("afterwards True")
        assert program.wait() == 0


def test_a_signal_that_the_program_ignores_is_not_heard_and_it_is_told_so() -> None:
    source = """
        import signal, time, outlast
        with outlast.Guard() as guard:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("ready")
            guard.wait()
    """
    with python(source) as program:
        program.wait_for("ready")
        program.wait_for("SIGTERM was set to SIG_IGN")
