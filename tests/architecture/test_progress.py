"""`make test` shows what it is doing while it runs, and keeps the failures readable at the end."""

import shlex
import subprocess
import sys
from pathlib import Path

from tests.programs import Program

ROOT = Path(__file__).parent.parent.parent
# The second test ends once the file exists, so what was printed before was printed on the way.
SUITE = """
import pathlib, time

def test_that_fails():
    assert "apples" == "pears"

def test_that_waits():
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.01)
"""


def options_of_make_test() -> list[str]:
    """What `make test` gives to pytest for the tests of the main environment."""
    dry_run = ["make", "--dry-run", "--always-make", "test"]
    printed = subprocess.run(dry_run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [line, *_] = [line for line in printed.splitlines() if "-m pytest" in line and "--dist" in line]
    return shlex.split(line.partition("-m pytest")[2])


def test_failures_and_progress_are_shown_while_tests_still_run(tmp_path: Path) -> None:
    go = tmp_path / "go"
    (tmp_path / "test_suite.py").write_text(SUITE.format(go=str(go)))
    (tmp_path / "hurry.py").write_text("import tests.progress as p; p.EVERY_SECONDS = 0.0\n")
    command = [sys.executable, "-m", "pytest", *options_of_make_test(), "-n", "2", "-p", "hurry"]
    environ = {"PYTHONPATH": str(tmp_path), "PYTEST_ADDOPTS": "-p no:cacheprovider"}

    with Program([*command, str(tmp_path)], environ, folder=ROOT) as program:
        assert "test_suite.py::test_that_fails" in program.wait_for("FAILED")
        program.wait_for("50%  1 of 2 tests, 1 failed")
        shown_on_the_way = len(program.lines)
        go.touch()

        assert program.wait() == 1
        at_the_end = "\n".join(program.lines[shown_on_the_way:])

    assert "'apples' == 'pears'" in at_the_end
    assert "1 failed, 1 passed" in at_the_end
