"""What a person reads about a run, as a text model: rows with a label, and a table. Pure.

All texts of the cluster are escaped and cut here, so that a screen can print them as they are.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outlast.cluster.diagnosis.diagnosis import Diagnosis
from outlast.cluster.errors import shown
from outlast.cluster.watching.figures import FinishTimes, Money, NoEstimate
from outlast.cluster.watching.join import AttemptRow, Retries
from outlast.cluster.watching.view import RunProgress, RunState, RunView
from outlast.cluster.watching.wording import at, count, since, size, span

ATTEMPTS_SHOWN = 12
_EVIDENCE_CHARACTERS_MAX = 300
_LABEL = 9
_HEAD = ("#", "started", "ended", "ran for", "how it ended", "node")


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardRow:
    """A label and its text. `details` are less important lines below it."""

    label: str
    text: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """A run on one screen. `table` is the head and one row for each attempt."""

    name: str
    state: RunState
    headline: str
    clock: str
    subtitle: str
    rows: tuple[BoardRow, ...]
    table: tuple[tuple[str, ...], ...]
    below_table: str
    notes: tuple[str, ...]


def board_of(view: RunView) -> Board:
    """The text of one run."""
    table, more = _table(view)
    return Board(
        name=shown(view.name, characters_max=80),
        state=view.state,
        headline=_headline(view),
        clock=f"{view.now:%Y-%m-%d %H:%M:%S} UTC",
        subtitle=_subtitle(view),
        rows=tuple(_rows(view)),
        table=table,
        below_table=more,
        notes=tuple(_notes(view)),
    )


def board_lines(board: Board, width: int = 100) -> list[str]:
    """The board as plain lines."""
    title = f"{board.name}  {board.headline}"
    pad = max(2, width - len(title) - len(board.clock))
    lines = [f"{title}{' ' * pad}{board.clock}", *_wrapped(board.subtitle, width, ""), ""]
    for row in board.rows:
        lines += row_lines(row, width)
    if len(board.table) > 1:
        lines += ["", *table_lines(board.table, width)]
    if board.below_table:
        lines.append(board.below_table)
    if board.notes:
        lines.append("")
    for note in board.notes:
        lines += row_lines(BoardRow(label="note", text=note), width)
    return lines


def row_lines(row: BoardRow, width: int) -> list[str]:
    """A row as lines: the label, then the text with a hanging indent."""
    indent = " " * _LABEL
    lines = _wrapped(row.text, width, indent)
    lines[0] = row.label.ljust(_LABEL) + lines[0][_LABEL:]
    return lines + [line for detail in row.details for line in _wrapped(detail, width, indent)]


def table_lines(table: Sequence[Sequence[str]], width: int) -> list[str]:
    """A table as lines. The last column is cut to fit, and is never wrapped."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table]
    return [_cut(line.rstrip(), width) for line in lines]


def _headline(view: RunView) -> str:
    lasted = f" for {since(view.since, view.now)}" if view.since else ""
    match view.state:
        case RunState.RUNNING:
            some = view.pods_running < view.pods_wanted
            pods = f", {view.pods_running} of {view.pods_wanted} Pods" if some else ""
            return f"RUNNING{lasted}{pods}"
        case RunState.WAITING:
            return f"WAITING{lasted}"
        case RunState.STOPPED:
            return f"STOPPED{lasted}"
        case RunState.FINISHED | RunState.FAILED:
            word = view.state.upper()
            return f"{word} {since(view.since, view.now)} ago" if view.since else word
        case RunState.GONE:
            return "GONE: its Job was deleted"
        case RunState.UNKNOWN:
            progress = view.progress
            if progress is None or progress.last_event is None:
                return "STATE NOT KNOWN"
            return f"LAST EVENT {since(progress.last_event, view.now)} ago"
    raise AssertionError(view.state)


def _subtitle(view: RunView) -> str:
    numbers = [row.number for row in view.attempts if row.number is not None]
    parts = (
        f"namespace {view.namespace}" if view.namespace else "",
        " ".join(part for part in (view.tier, view.machine) if part),
        f"attempt {max(numbers)}" if numbers and not (view.progress and _parts(view)) else "",
        view.url,
    )
    return " · ".join(shown(part, characters_max=120) for part in parts if part)


def _parts(view: RunView) -> bool:
    return view.progress is not None and view.progress.parts > 1


def _rows(view: RunView) -> Iterator[BoardRow]:
    if view.as_of is not None:
        yield BoardRow(
            label="as of",
            text=f"{view.as_of:%H:%M:%S} UTC, {since(view.as_of, view.now)} ago: the cluster does "
            "not answer. Retrying.",
        )
    for alarm in view.alarms:
        yield BoardRow(label="ALARM", text=alarm)
    if view.why is not None:
        yield from why_rows(view.why, view)
    if view.progress is not None:
        yield from _progress_rows(view, view.progress)
    if view.retries is not None:
        yield BoardRow(label="retries", text=_retries(view.retries))
    if view.money is not None:
        yield BoardRow(label="cost", text=_money(view.money, view.progress))
    if view.finish is not None and view.state is not RunState.FINISHED:
        prefix = "if resumed now: " if view.state is RunState.STOPPED else ""
        yield BoardRow(label="finish", text=prefix + _finish(view.finish, view))


def why_rows(why: Diagnosis, view: RunView) -> Iterator[BoardRow]:
    """Why it waits, with the evidence, and what to do next."""
    evidence = []
    for one in why.evidence[:3]:
        seen = f" at {at(one.seen, view.now)}" if one.seen else ""
        text = shown(one.text, characters_max=_EVIDENCE_CHARACTERS_MAX)
        evidence.append(f"{shown(one.where, characters_max=200)}{seen}: {text}")
    yield BoardRow(label="why", text=why.summary, details=tuple(evidence))
    if why.next_step:
        yield BoardRow(label="next", text=why.next_step)


def _progress_rows(view: RunView, progress: RunProgress) -> Iterator[BoardRow]:
    parts = f", in {progress.parts} parts" if progress.parts > 1 else ""
    if progress.steps_planned:
        share = min(1.0, progress.steps_done / progress.steps_planned)
        steps = f"{progress.steps_done:,} of {progress.steps_planned:,} ({share:.0%}){parts}"
    else:
        steps = f"{progress.steps_done:,}{parts}; how many are planned is not known"
    yield BoardRow(label="steps", text=steps)
    yield BoardRow(label="saved", text=_saved(view, progress))
    yield BoardRow(label="lost", text=_lost(progress))


def _saved(view: RunView, progress: RunProgress) -> str:
    if progress.saved_at is None:
        return "nothing yet: an eviction now would lose all work"
    step = f"step {progress.saved_step:,}, " if progress.saved_step is not None else ""
    ago = f"{since(progress.saved_at, view.now)} ago ({at(progress.saved_at, view.now)})"
    bytes_total = f", {size(progress.saved_bytes)}" if progress.saved_bytes else ""
    final = ", when it was interrupted" if progress.is_final_save else ""
    return f"{step}{ago}{bytes_total}{final}"


def _lost(progress: RunProgress) -> str:
    if not progress.steps_lost and not progress.evictions and not progress.failures:
        return "nothing: no evictions"
    kinds = [
        (progress.evictions_saved, "saved in time"),
        (progress.evictions_missed, "announced but not saved in time"),
        (progress.evictions_unannounced, "without notice"),
    ]
    listed = ", ".join(f"{number:,} {text}" for number, text in kinds if number)
    steps = (
        f"{count(progress.steps_lost, 'step')} (about {span(progress.lost_seconds)} of work)"
        if progress.steps_lost
        else "no steps"
    )
    ends = [
        count(number, noun)
        for number, noun in ((progress.failures, "failure"), (progress.evictions, "eviction"))
        if number
    ]
    within = f" in {' and '.join(ends)}" if ends else ""
    return f"{steps}{within}" + (f": {listed}" if listed else "; no evictions")


def _retries(retries: Retries) -> str:
    # With a limit for each index, the sum of all indexes may be larger than it.
    of = "" if retries.limit is None or retries.is_per_index else f" of {retries.limit:,}"
    each = f" (each index has {retries.limit:,})" if retries.is_per_index else ""
    if not retries.used:
        return f"0{of} used{each}; evictions do not count"
    whom = [
        (retries.by_nodes, "by nodes"),
        (retries.by_program, "by the program"),
        (retries.by_unknown, "of unknown cause"),
    ]
    listed = ", ".join(f"{number:,} {text}" for number, text in whom if number)
    return f"{retries.used:,}{of} used{each}: {listed}"


def _money(money: Money, progress: RunProgress | None) -> str:
    goodput = ""
    if progress is not None and progress.goodput is not None:
        goodput = f"; goodput {progress.goodput:.0%}"
    tiers = ", ".join(f"{tier} {amount}" for tier, amount in money.by_tier)
    spent = f"{_spent(money)} {money.currency} so far" + (f" ({tiers})" if tiers else "")
    if money.on_demand is None:
        return f"{spent}{goodput}"
    share = _saved_share(money)
    return (
        f"{spent}; the same steps on demand: {money.on_demand} {money.currency}"
        + (f" ({share})" if share else "")
        + goodput
    )


def _spent(money: Money) -> str:
    if money.is_exact:
        return str(money.spent)
    if money.spent_max is None:
        return f"at least {money.spent}"
    return f"{money.spent} to {money.spent_max}"


def _saved_share(money: Money) -> str:
    least, most = money.saved_share_min, money.saved_share_max
    if least is None or most is None:
        return ""
    if money.is_exact:
        return _share(most)
    return f"{_share(least)} to {_share(most)}"


def _share(share: float) -> str:
    return f"{share:.0%} saved" if share >= 0 else f"{-share:.0%} more expensive"


def _finish(finish: FinishTimes | NoEstimate, view: RunView) -> str:
    if isinstance(finish, NoEstimate):
        return f"not known. {shown(finish.why, characters_max=300)}"
    text = f"{at(finish.p10, view.now)} to {at(finish.p90, view.now)} UTC (p10 to p90)"
    if finish.deadline is None:
        return text
    left = finish.deadline - view.now
    when = at(finish.deadline, view.now)
    if left.total_seconds() < 0:
        return f"{text}; the deadline was {when} UTC, {span(-left.total_seconds())} ago"
    return f"{text}; deadline {when} UTC: {_likely(finish.chance or 0.0)}"


def _likely(chance: float) -> str:
    if chance > 0.995:
        return "more than 99% likely"
    return f"{chance:.0%} likely" if chance >= 0.005 else "less than 1% likely"


def _table(view: RunView) -> tuple[tuple[tuple[str, ...], ...], str]:
    shown_rows = view.attempts[:ATTEMPTS_SHOWN]
    rest = len(view.attempts) - len(shown_rows)
    more = f"and {count(rest, 'earlier attempt')}" if rest else ""
    rows = [_cells(row, view) for row in shown_rows]
    return (_HEAD, *rows), more


def _cells(row: AttemptRow, view: RunView) -> tuple[str, ...]:
    number = "-" if row.number is None else str(row.number)
    until = row.ended or (view.now if row.is_running else None)
    ran = span((until - row.started).total_seconds()) if until and row.started else "-"
    spent = ", spent a retry" if row.is_counted else ""
    return (
        f"{shown(row.part, characters_max=20)}/{number}" if row.part else number,
        at(row.started, view.now),
        "" if row.is_running else at(row.ended, view.now),
        ran,
        row.how + spent,
        " ".join(part for part in (row.node, row.zone) if part),
    )


def _notes(view: RunView) -> Iterator[str]:
    yield from view.gaps
    if view.money is not None:
        yield from view.money.notes


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    lines = textwrap.wrap(
        text,
        max(40, width),
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return lines or [indent]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(1, width - 1)] + "…"
