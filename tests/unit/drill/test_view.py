"""A drill is shown while it goes on: as a picture where there is a terminal, else as lines."""

import contextlib
import io
import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

import pytest

from outlast.drills.live.board import ASCII, UNICODE, Glyphs, LiveBoard
from outlast.drills.live.view import line_of, watching
from outlast.drills.run import events
from outlast.drills.run.records import AttemptEnd, EvictionMoment
from tests.patience import PATIENCE_SECONDS
from tests.unit.drill.page_reports import attempt, eviction, job_run

EVICTED = attempt(1, ended_seconds=2.2, ended=AttemptEnd.EVICTED, exit_code=75, eviction=1)
NOTICE = events.EvictionSent(
    job_run="evicted",
    at_seconds=2.0,
    number=1,
    attempt=1,
    notice=True,
    moment=EvictionMoment.ANY,
    overlap=False,
    grace_seconds=3.0,
)
STORY: tuple[events.DrillEvent, ...] = (
    events.JobRunStarted(
        job_run="evicted", at_seconds=0.0, evictions_planned=2, expected_seconds=8.0
    ),
    events.AttemptStarted(job_run="evicted", at_seconds=0.0, attempt=1, worker=0),
    events.AttemptReady(job_run="evicted", at_seconds=0.5, attempt=1),
    events.SaveSeen(job_run="evicted", at_seconds=1.0, path="run/model.pt"),
    NOTICE,
    events.AttemptEnded(job_run="evicted", at_seconds=2.2, attempt=EVICTED, eviction=eviction(1)),
    events.AttemptStarted(job_run="evicted", at_seconds=2.5, attempt=2, worker=0),
    events.AttemptReady(job_run="evicted", at_seconds=3.0, attempt=2),
)


def _text(
    story: tuple[events.DrillEvent, ...],
    *,
    now: float,
    width: int = 100,
    rows: int = 24,
    glyphs: Glyphs = UNICODE,
) -> list[str]:
    board = LiveBoard()
    for event in story:
        board.apply(event)
    lines = board.lines(now=now, width=width, rows=rows, glyphs=glyphs)
    return ["".join(span.text for span in line) for line in lines]


def test_attempts_are_bars_with_their_saves_and_evictions() -> None:
    *_, first, second = _text(STORY, now=5.0)

    assert first.split()[0] == "1"
    assert "━╋━" in first
    assert "━▼" in first
    assert first.endswith("exited after 0.20 s, code 75")
    assert second.index("╌") > first.index("▼")
    assert second.endswith("running 2.5 s")


def test_progress_is_the_work_done_of_what_the_baseline_run_took() -> None:
    title, meter, counts, *_ = _text(STORY, now=5.0)

    # 1.5 s in the first attempt, 2 s in the second so far.
    assert title == "run with evictions  5.0 s  about 4.5 s left"
    assert meter.endswith("44%")
    assert counts == "evictions  1 of 2   saves 1  run/model.pt"


def test_a_run_that_takes_longer_than_baseline_promises_nothing() -> None:
    title, meter, *_ = _text(STORY, now=60.0)

    assert title.endswith("longer than the baseline")
    assert meter.endswith("100%")


def test_an_attempt_that_was_evicted_shows_how_long_it_has() -> None:
    *_, last = _text(STORY[:5], now=2.5)

    assert last.endswith("SIGTERM sent, 2.5 s left")


def test_a_kill_without_notice_has_a_sign_of_its_own() -> None:
    kill = events.EvictionSent(
        job_run="evicted",
        at_seconds=2.0,
        number=1,
        attempt=1,
        notice=False,
        moment=EvictionMoment.SAVE,
        overlap=False,
        grace_seconds=0.0,
    )
    gone = eviction(1, notice=False, killed=True, moment=EvictionMoment.SAVE, hit=True)
    end = events.AttemptEnded(job_run="evicted", at_seconds=2.0, attempt=EVICTED, eviction=gone)

    *_, last = _text((*STORY[:4], kill, end), now=2.1)

    assert "✗" in last
    assert last.endswith("no notice during a save")


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = _text(STORY, now=5.0, width=width)

    assert max(map(len, lines[3:])) <= width


def test_only_the_newest_attempts_are_shown_where_rows_are_few() -> None:
    starts = (
        events.AttemptStarted(job_run="d", at_seconds=float(number), attempt=number, worker=0)
        for number in range(1, 51)
    )

    lines = _text((STORY[0], *starts), now=51.0, rows=10)

    assert len(lines) == 10
    assert "44 earlier attempts" in lines
    assert lines[-1].split()[0] == "50"


def test_a_terminal_without_unicode_gets_plain_letters() -> None:
    lines = _text(STORY, now=5.0, glyphs=ASCII)

    assert "\n".join(lines).isascii()


def test_a_file_name_cannot_act_on_the_terminal() -> None:
    evil = events.SaveSeen(job_run="d", at_seconds=1.2, path="a\x1b]0;pwned\x07\x1b[2Jb")

    lines = _text((*STORY[:4], evil), now=1.3)

    assert "\x1b" not in "\n".join(lines)
    assert lines[2].endswith("a]0;pwned[2Jb")


def test_the_next_leg_begins_with_an_empty_board() -> None:
    again = events.JobRunStarted(
        job_run="evicted-2", at_seconds=0.0, evictions_planned=0, expected_seconds=None
    )

    assert _text((*STORY, again), now=0.0) == ["baseline run  0.0 s", "saves      0", ""]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (STORY[0], "[evicted   0.0 s] running with 2 evictions ..."),
        (NOTICE, "[evicted   2.0 s] eviction 1 of attempt 1: SIGTERM"),
        (STORY[5], "[evicted   2.2 s] attempt 1 exited after 0.20 s, code 75"),
        (
            events.JobRunFinished(job_run="evicted", at_seconds=9.0, record=job_run([attempt(1)])),
            "[evicted   9.0 s] complete, 0 saves",
        ),
        (STORY[2], None),
    ],
    ids=["run", "eviction", "left", "end", "ready"],
)
def test_a_log_has_a_line_for_what_counts(event: events.DrillEvent, said: str | None) -> None:
    assert line_of(event) == said


def test_where_there_is_no_terminal_there_are_plain_lines() -> None:
    stream = io.StringIO()

    with watching(stream) as listener:
        for event in STORY:
            listener(event)

    assert stream.getvalue().splitlines() == [line for event in STORY if (line := line_of(event))]
    assert "\x1b" not in stream.getvalue()


def test_a_watcher_who_has_gone_does_not_disturb_the_drill() -> None:
    stream = io.StringIO()

    with watching(stream) as listener:
        stream.close()
        for event in STORY:
            listener(event)


def test_a_closed_stderr_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)

    with watching() as listener:
        for event in STORY:
            listener(event)


PROGRAM = """\
import sys
from datetime import timedelta
from outlast.drills.rehearsal import drill
from outlast.drills.live.view import watching

SCRIPT = (
    "import signal, sys, time\\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\\n"
    "print('up', flush=True)\\n"
    "for at in range(30): time.sleep(0.05)\\n"
)
with watching() as listener:
    drill(
        [sys.executable, "-c", SCRIPT],
        evictions=1, hostile=0, no_notice=0, seed=1, grace=timedelta(seconds=2), listener=listener,
    )
print("over")
"""


def test_on_a_terminal_a_drill_is_drawn_and_the_cursor_comes_back() -> None:
    output, code = _on_terminal([sys.executable, "-c", PROGRAM])

    assert code == 0, output
    assert "baseline run" in output
    assert "run with evictions" in output
    assert "━" in output
    assert "baseline: complete after" in output
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")
    assert output.rstrip().endswith("over")


@contextlib.contextmanager
def _terminal() -> Iterator[tuple[TextIO, Callable[[], str]]]:
    """A terminal to write to, and what arrived there."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:

        def arrived() -> str:
            stream.flush()
            written = b""
            while select.select([ours], [], [], 0.2)[0]:
                written += os.read(ours, 65536)
            return written.decode()

        yield stream, arrived
    os.close(ours)


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")

    with _terminal() as (stream, arrived):
        with watching(stream) as listener:
            for event in STORY:
                listener(event)
        written = arrived()

    assert "eviction 1 of attempt 1: SIGTERM" in written
    assert "\x1b" not in written


def test_a_drill_that_is_broken_off_gives_the_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")

    with _terminal() as (stream, arrived):
        with pytest.raises(SystemExit), watching(stream) as listener:
            for event in STORY:
                listener(event)
            raise SystemExit(130)
        written = arrived()

    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def _on_terminal(command: list[str], **environ: str) -> tuple[str, int]:
    """Run a command on a terminal of its own; what it wrote there, and its exit code."""
    ours, theirs = pty.openpty()
    settings = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **environ}
    try:
        process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **settings},
        )
    finally:
        os.close(theirs)
    written = b""
    try:
        while select.select([ours], [], [], PATIENCE_SECONDS)[0]:
            # Linux says EIO where others say nothing once the other end is closed.
            data = b""
            with contextlib.suppress(OSError):
                data = os.read(ours, 65536)
            if not data:
                break
            written += data
    finally:
        os.close(ours)
        if process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_SECONDS)
            process.kill()
    return written.decode(), process.wait()
