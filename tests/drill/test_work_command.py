"""`outlast work` and `outlast queue --watch` in real processes."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from outlast.queue import open_queue
from tests.programs import Program, outlast


def in_folder(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> Program:
    """The command `outlast`, started in a folder."""
    source = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.executable, sys.argv[2:])"
    command = [sys.executable, "-c", source, str(folder), sys.executable, "-m", "outlast"]
    return Program([*command, *arguments], env={**os.environ, **(env or {})})


PLACES = ("--queue", "sqlite:///jobs.db", "--sink", "sqlite:///jobs.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    queue = open_queue(f"sqlite:///{tmp_path}/jobs.db")
    queue.publish({f"n-{number}": number for number in range(50)})
    queue.close()
    return tmp_path


@pytest.mark.parametrize(("env", "code"), [({}, 0), ({"OUTLAST_EXIT_CODE": "75"}, 75)])
def test_sigterm_during_a_slow_import_is_heard(
    folder: Path, env: dict[str, str], code: int
) -> None:
    (folder / "slow.py").write_text(
        "import time; print('importing', flush=True); time.sleep(1.5)\ndef f(n): return n\n"
    )
    with in_folder(folder, "work", "slow:f", *PLACES, env=env) as program:
        program.wait_for("importing")
        program.signal(signal.SIGTERM)

        assert program.wait() == code

    assert "done" not in program.output


def test_sigterm_ends_the_work_with_the_code_and_gives_back_the_rest(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import time\ndef f(n):\n    print('at', n, flush=True); time.sleep(0.2); return n\n"
    )
    with in_folder(folder, "work", "slow:f", *PLACES, env={"OUTLAST_EXIT_CODE": "75"}) as program:
        program.wait_for("at 2")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75

    queue = open_queue(f"sqlite:///{folder}/jobs.db")
    stats = queue.stats()
    queue.close()
    assert stats.leased == 0
    assert stats.done is not None and 3 <= stats.done <= 10
    assert "The worker ended" in program.output


def test_an_error_of_the_set_up_shows_its_traceback_and_claims_nothing(folder: Path) -> None:
    (folder / "model.py").write_text(
        "class M:\n"
        "    def setup(self): raise OSError('no weights')\n"
        "    def __call__(self, number): ...\n"
    )
    with in_folder(folder, "work", "model:M", *PLACES) as program:
        assert program.wait() == 1

    assert 'model.py", line 2, in setup' in program.output
    assert "no weights" in program.output
    queue = open_queue(f"sqlite:///{folder}/jobs.db")
    assert queue.stats().ready == 50
    queue.close()


def test_watching_a_queue_shows_it_again_until_ctrl_c(folder: Path) -> None:
    with outlast("queue", f"sqlite:///{folder}/jobs.db", "--watch", "--format", "json") as program:
        first, second = (json.loads(program.wait_for('"ready": 50')) for _ in range(2))
        program.signal(signal.SIGINT)

        assert program.wait() == 130

    assert first == {**second, "oldest_seconds": first["oldest_seconds"]}
    assert "Traceback" not in program.output


@pytest.mark.timeout(60)
def test_a_server_that_is_not_there_gives_code_3_and_no_secret() -> None:
    url = "postgresql://someone:s3cret@127.0.0.1:1/jobs"
    with Program([sys.executable, "-m", "outlast", "queue", url], patience_seconds=50) as program:
        assert program.wait() == 3

    assert program.output.startswith("error: ")
    assert "s3cret" not in program.output
    assert "Traceback" not in program.output
