"""`make bench`: measure everything, or the topics that are named, and write bench/RESULTS.md.

    python -m bench guard exec
    python -m bench --quick     # every topic with little data, to see that it works

Each topic runs in a process of its own with a time limit. It writes only into a folder outside the
project (in OUTLAST_BENCH_FOLDER, or else /var/tmp), which is removed afterwards, even if the
benchmark is killed. A topic that was not measured keeps its section of the file, and so do all
topics if the run is a quick one.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import FOLDER_PREFIX, disk, disk_folder, machine
from bench.results import TOPICS, replaced

RESULTS = Path(__file__).with_name("RESULTS.md")
_STOP_SECONDS_MAX = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=", ".join(TOPICS))
    parser.add_argument("--quick", action="store_true", help="little data; RESULTS.md is unchanged")
    args = parser.parse_args()
    if unknown := set(args.topics) - set(TOPICS):
        parser.error(f"unknown topic {', '.join(sorted(unknown))}; known: {', '.join(TOPICS)}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    _remove_leftovers()
    failed = [topic for topic in args.topics or TOPICS if not _measured(topic, quick=args.quick)]
    if failed:
        print(f"Not measured: {', '.join(failed)}. Their sections are unchanged.", file=sys.stderr)
    return 1 if failed else 0


def _measured(topic: str, *, quick: bool) -> bool:
    minutes_max = TOPICS[topic].minutes_max
    print(f"==> {topic}, at most {minutes_max} min", file=sys.stderr, flush=True)
    started = time.monotonic()
    with _folder() as folder:
        answer = folder / "section.md"
        ended = _run(topic, answer, quick=quick)
        section = answer.read_text() if answer.exists() else ""
    seconds = time.monotonic() - started
    print(f"==> {topic} {ended}, {seconds:.0f} s\n", file=sys.stderr, flush=True)
    if ended != "done" or not section:
        return False
    print(section, flush=True)
    if not quick:
        RESULTS.write_text(
            replaced(RESULTS.read_text(), topic, f"{_when_and_where()}.\n\n{section}")
        )
    return True


def _when_and_where() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}, {machine()}"


def _run(topic: str, answer: Path, *, quick: bool) -> str:
    """Measure in a process of its own, whose standard input ends when this process does."""
    command = [sys.executable, "-m", "bench.topic", topic, str(answer), *["--quick"] * quick]
    place = str(answer.parent)
    environ = os.environ | {"TMPDIR": place, "OUTLAST_BENCH_FOLDER": place}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, start_new_session=True, env=environ, cwd=RESULTS.parents[1]
    )
    try:
        for minute in range(1, TOPICS[topic].minutes_max + 1):
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(60)
                return "done" if code == 0 else f"failed with exit code {code}"
            print(f"{topic} has run for {minute} min", file=sys.stderr, flush=True)
        return "stopped at its time limit"
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The topic gets time to stop its servers and to remove its files."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS_MAX)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = disk_folder()
    # Database servers run as another user, who has to reach their folders.
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers() -> None:
    """Remove what benchmarks left that were killed together with all of their processes."""
    for folder in disk().glob(f"{FOLDER_PREFIX}*-*"):
        pid = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
