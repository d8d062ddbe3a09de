"""`outlast work` and `outlast queue --watch` in real processes."""

import contextlib
import json
import signal
import sys
from pathlib import Path

import pytest

from outlast.queue import LeaseTerms, Settlement, open_queue
from outlast.results import Result, open_sink
from tests.programs import Program, outlast, python


def in_folder(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> Program:
    """The command `outlast`, started in a folder."""
    return Program([sys.executable, "-m", "outlast", *arguments], env=env, folder=folder)


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
        "import os, time\n"
        "print('importing', flush=True)\n"
        "while not os.path.exists('go-on'): time.sleep(0.01)\n"
        "def f(n): return n\n"
    )
    with in_folder(folder, "work", "slow:f", *PLACES, env=env) as program:
        program.wait_for("importing")
        program.signal(signal.SIGTERM)
        (folder / "go-on").touch()

        assert program.wait() == code

    assert "done" not in program.output


def test_sigterm_ends_the_work_with_the_code_and_gives_back_the_rest(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import os, time\n"
        "def f(n):\n"
        "    print('at', n, flush=True)\n"
        "    while n >= 2 and not os.path.exists('go-on'): time.sleep(0.01)\n"
        "    time.sleep(0.2)\n"
        "    return n\n"
    )
    env = {"OUTLAST_EXIT_CODE": "75", "OUTLAST_GRACE_SECONDS": "600"}
    with in_folder(folder, "work", "slow:f", *PLACES, env=env) as program:
        program.wait_for("at 2")
        program.signal(signal.SIGTERM)
        program.wait_for("Received SIGTERM")
        (folder / "go-on").touch()

        assert program.wait() == 75

    queue = open_queue(f"sqlite:///{folder}/jobs.db")
    stats = queue.stats()
    queue.close()
    assert stats.leased == 0
    assert stats.done is not None and 3 <= stats.done < 50
    assert "Worker ended" in program.output


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


HOLDING_THE_LOCK = """\
import ctypes
def f(number):
    print("at", number, flush=True)
    # PyDLL does not let go of the interpreter lock, so no other thread runs meanwhile.
    ctypes.PyDLL(None).usleep(1_200_000)
    return number
"""


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
def test_a_call_that_holds_the_interpreter_longer_than_the_lease_is_computed_once(
    tmp_path: Path, apart: bool
) -> None:
    with contextlib.closing(open_queue(f"sqlite:///{tmp_path}/jobs.db")) as queue:
        queue.publish({f"n-{number}": number for number in range(3)})
    (tmp_path / "greedy.py").write_text(HOLDING_THE_LOCK)
    sink = "sqlite:///results.db" if apart else "sqlite:///jobs.db"
    places = ("--queue", "sqlite:///jobs.db", "--sink", sink)
    arguments = ("work", "greedy:f", *places, "--lease", "0.4s", "--failures-max", "1")
    with in_folder(tmp_path, *arguments) as program:
        assert program.wait() == 0

    lines = [line for line in program.lines if line.startswith("at ")]
    assert sorted(lines) == ["at 0", "at 1", "at 2"]
    assert "3 done, 0 skipped, 0 failed, 0 dead, 0 lost" in program.output
    assert "Lost the lease" not in program.output


def test_a_refused_result_is_shown_and_gives_code_1(folder: Path) -> None:
    (folder / "quick.py").write_text("def f(n): return n\n")
    with contextlib.closing(open_sink(f"sqlite:///{folder}/jobs.db")) as sink:
        with contextlib.closing(open_queue(f"sqlite:///{folder}/jobs.db")) as queue:
            lease = queue.claim(1, LeaseTerms(worker="first"))
            assert lease is not None
            queue.settle(lease, Settlement(released=("n-0",)), LeaseTerms(worker="first"))
        sink.store([Result("x", "1")], token=lease.token, version="v1", queue=lease.queue)
        sink.store([Result("n-7", "1")], token=1, version="v2", queue="a newer one")

    with in_folder(folder, "work", "quick:f", *PLACES, "--result-version", "v1") as program:
        assert program.wait() == 1

    assert "49 done, 0 skipped, 1 failed, 1 dead, 0 lost, 1 refused" in program.output
    assert "refused the results of 1 items" in program.output


@pytest.mark.needs("postgres")
def test_a_server_that_starts_after_the_worker_is_waited_for(tmp_path: Path) -> None:
    from tests.servers.postgres import running_postgres

    (tmp_path / "quick.py").write_text("def f(n): return n\n")
    with running_postgres() as server:
        url = server.new_database()
        with contextlib.closing(open_queue(url)) as queue:
            queue.publish({"a": 1})
        server.stop()
        env = {"OUTLAST_QUEUE_URL": url, "OUTLAST_SINK_URL": url}
        with in_folder(tmp_path, "work", "quick:f", env=env) as program:
            program.wait_for("Queue unavailable; retrying in")
            server.start()

            assert program.wait() == 0

    assert "1 done" in program.output


def test_a_server_that_never_starts_gives_code_3_once_patience_has_ended(tmp_path: Path) -> None:
    (tmp_path / "quick.py").write_text("def f(n): return n\n")
    source = """
        import logging, sys, time
        from outlast.cli.entry import main
        from outlast.queue.postgres.queue import PostgresQueue

        class Patience(logging.Handler):
            # Ends with the first retry: an hour has passed by then.
            def emit(self, record):
                monotonic = time.monotonic
                time.monotonic = lambda: monotonic() + 3600

        logging.getLogger("outlast.worker.retry").addHandler(Patience())
        PostgresQueue.__init__.__kwdefaults__["retry_seconds"] = 0.1
        sys.exit(main())
    """
    url = "postgresql://someone:s3cret@127.0.0.1:1/jobs"
    places = {"OUTLAST_QUEUE_URL": url, "OUTLAST_SINK_URL": url, "PYTHONPATH": str(tmp_path)}
    with python(
        source, "work", "quick:f", env={**places, "OUTLAST_PATIENCE_SECONDS": "3600"}
    ) as program:
        assert program.wait() == 3

    assert "Queue unavailable; retrying in" in program.output
    assert "s3cret" not in program.output


def test_watching_a_queue_shows_it_again_until_ctrl_c(folder: Path) -> None:
    with outlast("queue", f"sqlite:///{folder}/jobs.db", "--watch", "--format", "json") as program:
        first, second = (json.loads(program.wait_for('"ready": 50')) for _ in range(2))
        program.signal(signal.SIGINT)

        assert program.wait() == 130

    assert first == {**second, "oldest_seconds": first["oldest_seconds"]}
    assert "Traceback" not in program.output


def test_a_server_that_is_not_there_gives_code_3_and_no_secret() -> None:
    source = """
        import sys
        from outlast.cli.entry import main
        from outlast.queue.postgres.queue import PostgresQueue

        PostgresQueue.__init__.__kwdefaults__["retry_seconds"] = 0.1
        sys.exit(main())
    """
    url = "postgresql://someone:s3cret@127.0.0.1:1/jobs"
    with python(source, "queue", url) as program:
        assert program.wait() == 3

    assert program.output.startswith("error: ")
    assert "s3cret" not in program.output
    assert "Traceback" not in program.output
