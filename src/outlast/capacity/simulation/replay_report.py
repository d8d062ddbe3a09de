"""Replay traces with several policies, and report the results: tables, page, chart. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from outlast._base.durations import format_duration
from outlast._base.interval import IntervalPolicy, daly, young
from outlast.capacity.simulation.age_shape import measure_age_shape
from outlast.capacity.simulation.deadlines import (
    DeadlineOutcome,
    DeadlinePolicy,
    DeadlineTask,
    cost_bound,
    replay_deadline,
)
from outlast.capacity.simulation.model import HOUR_SECONDS
from outlast.capacity.simulation.policies import (
    CheckpointCosts,
    PolicyOutcome,
    best_fixed,
    learned_policy,
    replay_adaptive,
    replay_fixed,
    replay_oracle,
)
from outlast.capacity.simulation.replay import SessionTable, TracePool
from outlast.capacity.simulation.traces import Trace, TraceError
from outlast.report import page
from outlast.report.charts import Chart, Line, lines_chart

WRONG_FACTOR = 5.0
"""By how much the mean time is wrong in the rows for a misjudged Young interval."""

HEAD = ("policy", "interval", "goodput", "vs best fixed", "vs oracle", "lost", "saves", "restarts")
DEADLINE_HEAD = ("policy", "cost", "vs on-demand", "missed", "finished", "machines", "lost")
_CURVE_POINTS = 48


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplaySettings:
    """What to replay. Runs start `every_seconds` apart.

    Each start is repeated `rounds` times with a different random choice of machines, because with
    only a few runs the best policy may be luck. With one machine at a time there is no choice.
    """

    costs: CheckpointCosts
    unannounced_share: float = 1.0
    intervals_seconds: tuple[float, ...] = ()
    every_seconds: float = HOUR_SECONDS
    rounds: int = 40
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyRow:
    """The result of one policy over all runs, as shares of the machine time."""

    policy: str
    interval_seconds: float | None
    goodput: float
    lost_share: float
    save_share: float
    restart_share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadlineRow:
    """The result of one deadline policy, averaged over all runs. `cost` is per run."""

    policy: str
    cost: float
    missed: int
    finish_seconds: float
    machines: float
    lost_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadlineReport:
    """The results of all deadline policies on one trace. No policy can cost less than `bound`."""

    runs: int
    rows: tuple[DeadlineRow, ...]
    bound: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceReport:
    """The results of all policies on one trace."""

    trace: Trace
    runs: int
    rows: tuple[PolicyRow, ...]
    curve: tuple[tuple[float, float], ...] = field(repr=False)
    deadline: DeadlineReport | None = None

    def row(self, policy: str) -> PolicyRow:
        return next(row for row in self.rows if row.policy == policy)


def replay_trace(trace: Trace, settings: ReplaySettings) -> TraceReport:
    """Replay all interval policies on one trace."""
    sessions = sessions_in(trace, settings)
    is_lossy = sessions.unannounced(settings.unannounced_share, seed=settings.seed)
    costs = settings.costs
    rows = list(_rows(sessions, is_lossy, settings))
    longest = float(sessions.seconds.max())
    curve = tuple(
        (float(interval), replay_fixed(sessions, is_lossy, costs, float(interval)).goodput)
        for interval in np.geomspace(10.0, max(longest, 20.0), _CURVE_POINTS)
    )
    return TraceReport(
        trace=trace, runs=int(sessions.seconds.shape[0]), rows=tuple(rows), curve=curve
    )


def sessions_in(trace: Trace, settings: ReplaySettings) -> SessionTable:
    """The sessions of all runs."""
    pool = TracePool(trace)
    runs = [
        sessions
        for number in range(1 if pool.is_single else settings.rounds)
        for sessions in pool.follow_all(
            every_seconds=settings.every_seconds, seed=settings.seed + number
        )
    ]
    return SessionTable.of(runs)


def replay_deadlines(
    trace: Trace,
    task: DeadlineTask,
    *,
    spot_price: float,
    on_demand_price: float,
    every_seconds: float,
    seed: int,
) -> DeadlineReport:
    """Replay all deadline policies on one trace, for every start with the deadline inside it."""
    last = trace.seconds - task.deadline_seconds
    if last < 0:
        raise TraceError(
            f"The trace {trace.name!r} lasts {format_duration(trace.seconds)}, which is shorter "
            f"than the deadline of {format_duration(task.deadline_seconds)}.",
            hint="Use a shorter --deadline or a longer trace.",
            file=trace.name,
        )
    pool = TracePool(trace)
    starts = [index * every_seconds for index in range(int(last // every_seconds) + 1)]
    prices = {"spot_price": spot_price, "on_demand_price": on_demand_price}
    rows = []
    for policy in DeadlinePolicy:
        kept = [replay_deadline(pool, task, policy, start_seconds=at, seed=seed) for at in starts]
        rows.append(_mean_row(policy, kept, [one.cost(**prices) for one in kept]))
    bounds = [cost_bound(pool, task, start_seconds=at, **prices) for at in starts]
    bound = math.fsum(bounds) / len(starts)
    return DeadlineReport(runs=len(starts), rows=tuple(rows), bound=bound)


def _mean_row(
    policy: DeadlinePolicy, kept: Sequence[DeadlineOutcome], costs: Sequence[float]
) -> DeadlineRow:
    runs = len(kept)
    return DeadlineRow(
        policy=policy.value,
        cost=math.fsum(costs) / runs,
        missed=sum(not one.is_in_time for one in kept),
        finish_seconds=math.fsum(one.finish_seconds for one in kept) / runs,
        machines=sum(one.machines for one in kept) / runs,
        lost_seconds=math.fsum(one.lost_seconds for one in kept) / runs,
    )


def table_rows(report: TraceReport) -> list[tuple[str, ...]]:
    """The rows of the table with the columns `HEAD`."""
    best, oracle = report.row("best fixed").goodput, report.row("oracle").goodput
    return [
        (
            row.policy,
            "-" if row.interval_seconds is None else format_duration(row.interval_seconds),
            f"{row.goodput:.1%}",
            f"{row.goodput / best:.1%}" if best else "-",
            f"{row.goodput / oracle:.1%}" if oracle else "-",
            f"{row.lost_share:.1%}",
            f"{row.save_share:.1%}",
            f"{row.restart_share:.1%}",
        )
        for row in report.rows
    ]


def deadline_rows(report: DeadlineReport, *, currency: str) -> list[tuple[str, ...]]:
    """The rows of the table with the columns `DEADLINE_HEAD`."""
    reference = next(row.cost for row in report.rows if row.policy == "on-demand")
    rows = [
        (
            row.policy,
            f"{row.cost:.2f} {currency}",
            f"{row.cost / reference:.1%}",
            str(row.missed),
            format_duration(row.finish_seconds),
            f"{row.machines:.1f}",
            format_duration(row.lost_seconds),
        )
        for row in report.rows
    ]
    bound = (f"{report.bound:.2f} {currency}", f"{report.bound / reference:.1%}")
    return [*rows, ("lower bound", *bound, "0", "-", "-", "-")]


def report_json(report: TraceReport) -> dict[str, object]:
    best, oracle = report.row("best fixed").goodput, report.row("oracle").goodput
    content: dict[str, object] = {
        "trace": report.trace.name,
        "seconds": report.trace.seconds,
        "machines": len(report.trace.lives),
        "losses": report.trace.losses,
        "mean_seconds": report.trace.mean_seconds if report.trace.losses else None,
        "repairs": list(report.trace.repairs),
        "runs": report.runs,
        "policies": [
            {
                **asdict(row),
                "of_best_fixed": row.goodput / best if best else None,
                "of_oracle": row.goodput / oracle if oracle else None,
            }
            for row in report.rows
        ],
    }
    if report.deadline is not None:
        content["deadline"] = {
            "runs": report.deadline.runs,
            "oracle_cost_at_least": report.deadline.bound,
            "policies": [asdict(row) for row in report.deadline.rows],
        }
    return content


def chart(report: TraceReport) -> Chart:
    """Goodput over the fixed interval, with the adaptive rule and the oracle as levels."""
    minutes = [interval / 60 for interval, _ in report.curve]
    levels = [
        Line(
            label=policy,
            xs=[minutes[0], minutes[-1]],
            ys=[report.row(policy).goodput * 100] * 2,
        )
        for policy in ("adaptive", "oracle")
    ]
    fixed = Line(label="fixed", xs=minutes, ys=[good * 100 for _, good in report.curve])
    return lines_chart(
        f"{report.trace.name}: goodput",
        [fixed, *levels],
        x_unit="interval, minutes",
        y_unit="% of machine time",
        is_log=True,
    )


def report_page(reports: Sequence[TraceReport], *, currency: str) -> str:
    parts = []
    for report in reports:
        parts += [page.heading(report.trace.name), page.paragraph(trace_summary(report))]
        parts += [page.note(repair) for repair in report.trace.repairs]
        parts += [page.table(HEAD, table_rows(report)), chart(report).as_html()]
        if report.deadline is not None:
            rows = deadline_rows(report.deadline, currency=currency)
            parts += [
                page.paragraph(deadline_heading(report.deadline)),
                page.table(DEADLINE_HEAD, rows),
            ]
    return page.page("Trace replay", parts)


def trace_summary(report: TraceReport) -> str:
    trace = report.trace
    lost, plural = "no losses", "" if len(trace.lives) == 1 else "s"
    if trace.losses:
        mean = format_duration(trace.mean_seconds)
        lost = f"{trace.losses} losses (mean time between losses of a machine: {mean})"
    return (
        f"{trace.name}: {format_duration(trace.seconds)}, {len(trace.lives)} machine{plural}, "
        f"{lost}; {report.runs} replayed {'run' if report.runs == 1 else 'runs'}."
    )


def deadline_heading(report: DeadlineReport) -> str:
    return f"Meeting the deadline ({report.runs} runs, all losses unannounced):"


def _rows(
    sessions: SessionTable, is_lossy: NDArray[np.bool_], settings: ReplaySettings
) -> Iterator[PolicyRow]:
    costs = settings.costs
    losses = int(is_lossy.sum())
    fixed = [(f"fixed {format_duration(one)}", one) for one in settings.intervals_seconds]
    if losses:
        mean = float(sessions.machine_seconds.sum()) / losses
        for name, formula, factor in (
            ("Young", young, 1.0),
            ("Daly", daly, 1.0),
            ("Young, mean 5x too long", young, WRONG_FACTOR),
            ("Young, mean 5x too short", young, 1 / WRONG_FACTOR),
        ):
            fixed.append((name, max(1.0, formula(costs.save_seconds, mean * factor))))
    interval, best = best_fixed(sessions, is_lossy, costs, tried=[one for _, one in fixed])
    yield _row("best fixed", interval, best)
    for name, seconds in fixed:
        yield _row(name, seconds, replay_fixed(sessions, is_lossy, costs, seconds))
    yield _row("adaptive", None, replay_adaptive(sessions, is_lossy, costs, IntervalPolicy()))
    if losses:
        policy = learned_policy(
            mean_seconds=float(sessions.machine_seconds.sum()) / int(sessions.is_lost.sum()),
            unannounced_share=settings.unannounced_share,
            save_seconds=costs.save_seconds,
            age_shape=measure_age_shape(sessions.lives),
        )
        learned = replay_adaptive(sessions, is_lossy, costs, policy, knows_cost=True)
        yield _row("adaptive, learned", None, learned)
    yield _row("oracle", None, replay_oracle(sessions, is_lossy, costs))


def _row(policy: str, interval_seconds: float | None, replayed: PolicyOutcome) -> PolicyRow:
    machine = float(replayed.machine_seconds.sum())
    return PolicyRow(
        policy=policy,
        interval_seconds=interval_seconds,
        goodput=replayed.goodput,
        lost_share=float(replayed.lost_seconds.sum()) / machine,
        save_share=float(replayed.save_seconds.sum()) / machine,
        restart_share=float(replayed.restart_seconds.sum()) / machine,
    )
