"""Programs that are forked behave as if they had been started."""

import os
import signal
from pathlib import Path

import pytest

from tests.frameworks.forking import fork_server

pytestmark = pytest.mark.older

PROGRAM = """
import os, signal, sys
print(sys.argv[1:], os.environ["WORD"], "numpy" in sys.modules, flush=True)
if "wait" in sys.argv:
    signal.pause()
sys.exit(int(sys.argv[1]))
"""


def test_a_forked_program_has_its_arguments_environment_and_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    with fork_server("numpy") as server:
        programs = [
            server.start(
                program,
                [str(code)],
                folder=tmp_path,
                output=tmp_path / f"{code}.txt",
                environ={"WORD": "hello"},
            )
            for code in (0, 7, 75)
        ]
        codes = [one.wait() for one in programs]

    assert codes == [0, 7, 75]
    assert programs[1].text() == "['7'] hello True\n"


def test_a_forked_program_ends_as_a_program_does(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import atexit, sys, threading\n"
        "atexit.register(print, 'atexit')\n"
        "threading.Thread(target=lambda: (threading.Event().wait(0.01), print('thread'))).start()\n"
        "{'raise': lambda: 1 / 0, 'text': lambda: sys.exit('bad'), 'end': print}[sys.argv[1]]()\n"
    )

    with fork_server() as server:
        ends = {
            how: server.start(program, [how], folder=tmp_path, output=tmp_path / how)
            for how in ("raise", "text", "end")
        }
        codes = {how: one.wait() for how, one in ends.items()}

    assert codes == {"raise": 1, "text": 1, "end": 0}
    assert "ZeroDivisionError" in ends["raise"].text()
    assert "bad" in ends["text"].text()
    assert all(one.text().index("thread") < one.text().index("atexit") for one in ends.values())


def test_a_forked_program_gets_signals(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    output = tmp_path / "output.txt"

    with fork_server() as server:
        started = server.start(
            program, ["0", "wait"], folder=tmp_path, output=output, environ={"WORD": "x"}
        )
        while "wait" not in (started.text() if output.exists() else ""):
            os.sched_yield()
        started.signal(signal.SIGTERM)

        assert started.wait() == -signal.SIGTERM
