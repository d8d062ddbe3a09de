"""The state of a live view of a drill, and its layout in lines of text.

Attempts are bars over time, followed by what happened to them. Nothing here prints, waits or reads
the time.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from outlast._base.durations import format_duration
from outlast.drills.run import events
from outlast.drills.run.records import Attempt, AttemptEnd, Eviction

_ROOM_LEFT = 1.25
_LATEST_SHARE = 0.97
_PLANNED_SHOWN_MAX = 100
_NUMBER_WIDTH = 5
_WORDS_WIDTH = 39
_BARS_WIDTH_MIN = 16
_METER_WIDTH_MAX = 40
_SAVES_MAX = 400


class StyledText(NamedTuple):
    """Text with a style: start, work, grace, lost, save, quiet, or none."""

    text: str
    style: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Glyphs:
    """The characters that bars are drawn with."""

    start: str
    work: str
    grace: str
    save: str
    notice: str
    silent: str
    empty: str


UNICODE = Glyphs(start="╌", work="━", grace="▒", save="╋", notice="▼", silent="✗", empty="─")
ASCII = Glyphs(start=".", work="=", grace="~", save="+", notice="v", silent="x", empty="-")


@dataclass(kw_only=True, slots=True)
class AttemptBar:
    """The bar of one attempt. Times are seconds since the start of the run."""

    number: int
    started: float
    ready: float | None = None
    evicted_at: float | None = None
    notice: bool = True
    grace_seconds: float = 0.0
    ended: float | None = None
    outcome: str = ""
    saves: deque[float] = field(default_factory=lambda: deque(maxlen=_SAVES_MAX))

    @property
    def is_working(self) -> bool:
        return self.ready is not None and self.evicted_at is None and self.ended is None


class LiveBoard:
    """Turns events into lines of text."""

    def __init__(self) -> None:
        self._begin("", 0, None)

    def _begin(self, job_run: str, planned: int, expected_seconds: float | None) -> None:
        self.job_run = job_run
        self._planned = planned
        self._expected_seconds = expected_seconds
        self._bars: dict[int, AttemptBar] = {}
        self._evicted: list[bool] = []
        self._saves = 0
        self._last_save = ""
        self._worked_seconds = 0.0
        self._seen_at = 0.0
        self._span_seconds = max(1.0, (expected_seconds or 0.0) * _ROOM_LEFT)

    def apply(self, event: events.DrillEvent) -> None:
        """Update the board with an event."""
        self._advance(event.at_seconds)
        match event:
            case events.JobRunStarted():
                self._begin(event.job_run, event.evictions_planned, event.expected_seconds)
            case events.AttemptStarted():
                self._bars[event.attempt] = AttemptBar(
                    number=event.attempt, started=event.at_seconds
                )
            case events.AttemptReady() if event.attempt in self._bars:
                self._bars[event.attempt].ready = event.at_seconds
            case events.SaveSeen():
                self._on_save(event)
            case events.EvictionSent():
                self._on_eviction(event)
            case events.AttemptEnded():
                self._on_end(event)

    def lines(self, *, now: float, width: int, rows: int, glyphs: Glyphs) -> list[list[StyledText]]:
        """The board in at most `rows` lines, the newest attempts last."""
        while now > self._span_seconds * _LATEST_SHARE:
            self._span_seconds *= _ROOM_LEFT
        head = [self._title(now), *self._meters(now, width, glyphs)]
        bars = list(self._bars.values())
        room = max(1, rows - len(head) - 1)
        shown = bars[-room:]
        earlier = [StyledText(f"{len(bars) - len(shown):,} earlier attempts", "quiet")]
        body = [self._line(bar, now, width, glyphs) for bar in shown]
        return [*head, earlier if len(bars) > len(shown) else [], *body]

    def _advance(self, at: float) -> None:
        """Advance the work clock, which runs while an attempt makes progress."""
        if any(bar.is_working for bar in self._bars.values()):
            self._worked_seconds += max(0.0, at - self._seen_at)
        self._seen_at = at

    def _on_save(self, event: events.SaveSeen) -> None:
        self._saves += 1
        if not any(part.startswith(".") for part in event.path.split("/")):
            # A name may contain control characters for a terminal.
            self._last_save = "".join(filter(str.isprintable, event.path))
        for bar in self._bars.values():
            if bar.ended is None:
                bar.saves.append(event.at_seconds)

    def _on_eviction(self, event: events.EvictionSent) -> None:
        self._evicted.append(event.notice)
        bar = self._bars.get(event.attempt)
        if bar is not None:
            bar.evicted_at, bar.notice = event.at_seconds, event.notice
            bar.grace_seconds = event.grace_seconds

    def _on_end(self, event: events.AttemptEnded) -> None:
        bar = self._bars.get(event.attempt.number)
        if bar is not None:
            bar.ended = event.at_seconds
            bar.outcome = outcome_of(event.attempt, event.eviction)

    def _title(self, now: float) -> list[StyledText]:
        name = "baseline run"
        if self._planned:
            name = "run with evictions"
        parts = [StyledText(name, "work"), StyledText(f"  {format_duration(now)}")]
        left = (self._expected_seconds or 0.0) - self._work(now)
        if self._planned and self._expected_seconds is not None:
            said = (
                f"  about {format_duration(left)} left"
                if left > 0
                else "  longer than the baseline"
            )
            parts.append(StyledText(said, "quiet"))
        return parts

    def _meters(self, now: float, width: int, glyphs: Glyphs) -> list[list[StyledText]]:
        lines = []
        if self._planned and self._expected_seconds:
            share = min(1.0, self._work(now) / self._expected_seconds)
            cells = max(8, min(_METER_WIDTH_MAX, width - 24))
            full = round(share * cells)
            lines.append(
                [
                    StyledText("progress   ", "quiet"),
                    StyledText(glyphs.work * full, "work"),
                    StyledText(glyphs.empty * (cells - full), "quiet"),
                    StyledText(f"  {share:.0%}"),
                ]
            )
        counts = []
        if self._planned:
            of = f" of {self._planned:,}" if self._planned <= _PLANNED_SHOWN_MAX else ""
            counts += [
                StyledText("evictions  ", "quiet"),
                StyledText(f"{len(self._evicted):,}{of}   "),
            ]
        counts += [StyledText("saves " if self._planned else "saves      ", "quiet")]
        counts.append(StyledText(f"{self._saves:,}"))
        if self._last_save:
            room = max(8, width - sum(len(one.text) for one in counts) - 4)
            counts.append(StyledText(f"  {_shortened(self._last_save, room)}", "quiet"))
        return [*lines, counts]

    def _work(self, now: float) -> float:
        running = any(bar.is_working for bar in self._bars.values())
        return self._worked_seconds + (max(0.0, now - self._seen_at) if running else 0.0)

    def _line(self, bar: AttemptBar, now: float, width: int, glyphs: Glyphs) -> list[StyledText]:
        has_words = width >= _NUMBER_WIDTH + _BARS_WIDTH_MIN + _WORDS_WIDTH
        cells = width - _NUMBER_WIDTH - (_WORDS_WIDTH if has_words else 0) - 1
        drawn = draw(bar, now=now, span_seconds=self._span_seconds, cells=cells, glyphs=glyphs)
        line = [StyledText(f"{bar.number:>{_NUMBER_WIDTH - 1}} ", "quiet"), *drawn]
        if has_words:
            words, style = _words(bar, now)
            line.append(StyledText(f" {words[: _WORDS_WIDTH - 1]}", style))
        return line


def draw(
    bar: AttemptBar, *, now: float, span_seconds: float, cells: int, glyphs: Glyphs
) -> list[StyledText]:
    """An attempt as a bar of `cells` cells."""

    def column(at: float) -> int:
        return min(cells - 1, max(0, int(at / span_seconds * cells)))

    row = [StyledText(" ")] * cells
    end = now if bar.ended is None else bar.ended
    evicted_at = end if bar.evicted_at is None else bar.evicted_at
    ready = min(evicted_at, end if bar.ready is None else bar.ready)
    for start, stop, text, style in (
        (bar.started, ready, glyphs.start, "start"),
        (ready, evicted_at, glyphs.work, "work"),
        (evicted_at, end, glyphs.grace, "grace"),
    ):
        if stop > start or style == "start":
            row[column(start) : column(stop) + 1] = [StyledText(text, style)] * (
                column(stop) + 1 - column(start)
            )
    for at in bar.saves:
        if at <= evicted_at:
            row[column(at)] = StyledText(glyphs.save, "save")
    if bar.evicted_at is not None:
        row[column(bar.evicted_at)] = (
            StyledText(glyphs.notice, "grace") if bar.notice else StyledText(glyphs.silent, "lost")
        )
    return _joined(row)


def outcome_of(attempt: Attempt, eviction: Eviction | None) -> str:
    """How an attempt ended, in a few words."""
    if eviction is None:
        return {
            AttemptEnd.FINISHED: "finished",
            AttemptEnd.FAILED: f"failed, exit {attempt.exit_code}",
            AttemptEnd.STOPPED: "stopped",
            AttemptEnd.EVICTED: "evicted",
        }[attempt.ended]
    if not eviction.notice and eviction.killed:
        return f"no notice{eviction.where}"
    if eviction.killed:
        return f"killed after {eviction.left_seconds:.2f} s{eviction.where}"
    return f"exited after {eviction.left_seconds:.2f} s, code {attempt.exit_code}"


def _words(bar: AttemptBar, now: float) -> tuple[str, str]:
    if bar.ended is not None:
        return bar.outcome, "good" if bar.outcome == "finished" else ""
    if bar.evicted_at is not None and bar.notice:
        left = max(0.0, bar.evicted_at + bar.grace_seconds - now)
        return f"SIGTERM sent, {left:.1f} s left", "grace"
    if bar.ready is None:
        return "starting", "quiet"
    return f"running {format_duration(now - bar.started)}", "work"


def _joined(row: Sequence[StyledText]) -> list[StyledText]:
    """The row with adjacent texts of the same style joined."""
    spans: list[StyledText] = []
    for one in row:
        if spans and spans[-1].style == one.style:
            spans[-1] = StyledText(spans[-1].text + one.text, one.style)
        else:
            spans.append(one)
    return spans


def _shortened(text: str, length: int) -> str:
    """The end of a long path, which is more telling than its start."""
    return text if len(text) <= length else f"...{text[-(length - 3) :]}"
