"""Replay traces against policies and tell how they compare: figures, a page, a chart. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from outlast._base.durations import format_duration
from outlast._base.interval import IntervalPolicy, daly, young
from outlast.capacity import page
from outlast.capacity.deadlines import DeadlinePolicy, Task, cost_bound, replay_deadline
from outlast.capacity.drawing import Line, lines_chart
from outlast.capacity.model import HOUR_SECONDS
from outlast.capacity.policies import (
    Costs,
    Replayed,
    best_fixed,
    learned_policy,
    replay_adaptive,
    replay_fixed,
    replay_oracle,
)
from outlast.capacity.replay import Pool, Stays
from outlast.capacity.traces import Trace, TraceError

WRONG_FACTOR = 5.0
"""How wrong the mean time of a mistaken Young is, to either side."""

HEAD = ("policy", "interval", "goodput", "of best fixed", "of oracle", "lost", "saves", "restarts")
DEADLINE_HEAD = ("policy", "cost", "of on-demand", "missed", "done", "machines", "lost")
_CURVE_POINTS = 48


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What is replayed. Every run starts `every_seconds` after the one before.

    The choice among the machines of a pool is drawn anew in each of `rounds`: what does best for a
    handful of runs does so by luck. With one machine at a time there is no choice.
    """

    costs: Costs
    unannounced_share: float = 1.0
    intervals_seconds: tuple[float, ...] = ()
    every_seconds: float = HOUR_SECONDS
    rounds: int = 40
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """How one policy did over all runs, as shares of the machine time."""

    policy: str
    interval_seconds: float | None
    goodput: float
    lost_share: float
    save_share: float
    restart_share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadlineRow:
    """How one policy kept a deadline, in the mean over all runs. `cost` is per run."""

    policy: str
    cost: float
    missed: int
    finish_seconds: float
    machines: float
    lost_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadlineReport:
    """The policies for a deadline on one trace; no policy can cost less than `bound`."""

    runs: int
    rows: tuple[DeadlineRow, ...]
    bound: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceReport:
    """One trace and how the policies did on it."""

    trace: Trace
    runs: int
    rows: tuple[Row, ...]
    curve: tuple[tuple[float, float], ...] = field(repr=False)
    deadline: DeadlineReport | None = None

    def row(self, policy: str) -> Row:
        return next(row for row in self.rows if row.policy == policy)


def replay_trace(trace: Trace, setting: Setting) -> TraceReport:
    """All interval policies on one trace."""
    stays = stays_of(trace, setting)
    is_lossy = stays.unannounced(setting.unannounced_share, seed=setting.seed)
    costs = setting.costs
    rows = list(_rows(stays, is_lossy, setting))
    longest = float(stays.seconds.max())
    curve = tuple(
        (float(interval), replay_fixed(stays, is_lossy, costs, float(interval)).goodput)
        for interval in np.geomspace(10.0, max(longest, 20.0), _CURVE_POINTS)
    )
    return TraceReport(trace=trace, runs=int(stays.seconds.shape[0]), rows=tuple(rows), curve=curve)


def stays_of(trace: Trace, setting: Setting) -> Stays:
    """The machines of all runs."""
    pool = Pool(trace)
    runs = [
        stays
        for number in range(1 if pool.is_single else setting.rounds)
        for stays in pool.follow_all(
            every_seconds=setting.every_seconds, seed=setting.seed + number
        )
    ]
    return Stays.of(runs)


def replay_deadlines(
    trace: Trace,
    task: Task,
    *,
    spot_price: float,
    on_demand_price: float,
    every_seconds: float,
    seed: int,
) -> DeadlineReport:
    """All deadline policies on one trace, for every start from which the deadline lies in it."""
    last = trace.seconds - task.deadline_seconds
    if last < 0:
        raise TraceError(
            f"The trace {trace.name!r} lasts {format_duration(trace.seconds)}, which is less than "
            f"the deadline, {format_duration(task.deadline_seconds)}.",
            hint="Shorten --deadline, or take a longer trace.",
            file=trace.name,
        )
    pool = Pool(trace)
    starts = [index * every_seconds for index in range(int(last // every_seconds) + 1)]
    rows = []
    for policy in DeadlinePolicy:
        kept = [replay_deadline(pool, task, policy, start_seconds=at, seed=seed) for at in starts]
        costs = [one.cost(spot_price=spot_price, on_demand_price=on_demand_price) for one in kept]
        rows.append(
            DeadlineRow(
                policy=policy.value,
                cost=math.fsum(costs) / len(starts),
                missed=sum(not one.is_in_time for one in kept),
                finish_seconds=math.fsum(one.finish_seconds for one in kept) / len(starts),
                machines=sum(one.machines for one in kept) / len(starts),
                lost_seconds=math.fsum(one.lost_seconds for one in kept) / len(starts),
            )
        )
    bounds = [
        cost_bound(
            pool, task, start_seconds=at, spot_price=spot_price, on_demand_price=on_demand_price
        )
        for at in starts
    ]
    bound = math.fsum(bounds) / len(starts)
    return DeadlineReport(runs=len(starts), rows=tuple(rows), bound=bound)


def table_rows(report: TraceReport) -> list[tuple[str, ...]]:
    """In the columns of `HEAD`."""
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
    """In the columns of `DEADLINE_HEAD`."""
    dearest = next(row.cost for row in report.rows if row.policy == "on-demand")
    rows = [
        (
            row.policy,
            f"{row.cost:.2f} {currency}",
            f"{row.cost / dearest:.1%}",
            str(row.missed),
            format_duration(row.finish_seconds),
            f"{row.machines:.1f}",
            format_duration(row.lost_seconds),
        )
        for row in report.rows
    ]
    bound = (f"{report.bound:.2f} {currency}", f"{report.bound / dearest:.1%}")
    return [*rows, ("oracle, at least", *bound, "0", "-", "-", "-")]


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
                "policy": row.policy,
                "interval_seconds": row.interval_seconds,
                "goodput": row.goodput,
                "of_best_fixed": row.goodput / best if best else None,
                "of_oracle": row.goodput / oracle if oracle else None,
                "lost_share": row.lost_share,
                "save_share": row.save_share,
                "restart_share": row.restart_share,
            }
            for row in report.rows
        ],
    }
    if report.deadline is not None:
        content["deadline"] = {
            "runs": report.deadline.runs,
            "oracle_cost_at_least": report.deadline.bound,
            "policies": [
                {
                    "policy": row.policy,
                    "cost": row.cost,
                    "missed": row.missed,
                    "finish_seconds": row.finish_seconds,
                    "machines": row.machines,
                    "lost_seconds": row.lost_seconds,
                }
                for row in report.deadline.rows
            ],
        }
    return content


def chart(report: TraceReport) -> str:
    """Goodput over the fixed interval, with our rule and the oracle as levels."""
    minutes = [interval / 60 for interval, _ in report.curve]
    levels = [
        Line(
            label=policy,
            xs=[minutes[0], minutes[-1]],
            ys=[report.row(policy).goodput * 100] * 2,
        )
        for policy in ("ours", "oracle")
    ]
    fixed = Line(label="fixed", xs=minutes, ys=[good * 100 for _, good in report.curve])
    return lines_chart(
        f"{report.trace.name}: lasting work",
        [fixed, *levels],
        x_unit="interval, minutes",
        y_unit="% of the machine time",
        is_log=True,
    )


def report_page(reports: Sequence[TraceReport], *, currency: str) -> str:
    parts = []
    for report in reports:
        parts += [page.heading(report.trace.name), page.paragraph(told(report))]
        parts += [page.note(repair) for repair in report.trace.repairs]
        parts += [page.table(HEAD, table_rows(report)), chart(report)]
        if report.deadline is not None:
            rows = deadline_rows(report.deadline, currency=currency)
            parts += [
                page.paragraph(deadline_told(report.deadline)),
                page.table(DEADLINE_HEAD, rows),
            ]
    return page.page("Traces replayed", parts)


def told(report: TraceReport) -> str:
    trace = report.trace
    lost = "none of which was lost"
    if trace.losses:
        mean = format_duration(trace.mean_seconds)
        lost = f"{trace.losses} losses, a machine is lost every {mean}"
    return (
        f"{trace.name}: {format_duration(trace.seconds)}, {len(trace.lives)} machines, "
        f"{lost}; {report.runs} runs."
    )


def deadline_told(report: DeadlineReport) -> str:
    return f"The deadline, over {report.runs} runs, with no loss announced:"


def _rows(stays: Stays, is_lossy: NDArray[np.bool_], setting: Setting) -> Iterator[Row]:
    costs = setting.costs
    losses = int(is_lossy.sum())
    fixed = [(f"fixed {format_duration(one)}", one) for one in setting.intervals_seconds]
    if losses:
        mean = float(stays.machine_seconds.sum()) / losses
        for name, formula, factor in (
            ("Young", young, 1.0),
            ("Daly", daly, 1.0),
            ("Young, mean 5 x too long", young, WRONG_FACTOR),
            ("Young, mean 5 x too short", young, 1 / WRONG_FACTOR),
        ):
            fixed.append((name, max(1.0, formula(costs.save_seconds, mean * factor))))
    interval, best = best_fixed(stays, is_lossy, costs, tried=[one for _, one in fixed])
    yield _row("best fixed", interval, best)
    for name, seconds in fixed:
        yield _row(name, seconds, replay_fixed(stays, is_lossy, costs, seconds))
    yield _row("ours", None, replay_adaptive(stays, is_lossy, costs, IntervalPolicy()))
    if losses:
        policy = learned_policy(
            mean_seconds=float(stays.machine_seconds.sum()) / int(stays.is_lost.sum()),
            unannounced_share=setting.unannounced_share,
            save_seconds=costs.save_seconds,
        )
        learned = replay_adaptive(stays, is_lossy, costs, policy, knows_cost=True)
        yield _row("ours, learned", None, learned)
    yield _row("oracle", None, replay_oracle(stays, is_lossy, costs))


def _row(policy: str, interval_seconds: float | None, replayed: Replayed) -> Row:
    machine = float(replayed.machine_seconds.sum())
    return Row(
        policy=policy,
        interval_seconds=interval_seconds,
        goodput=replayed.goodput,
        lost_share=float(replayed.lost_seconds.sum()) / machine,
        save_share=float(replayed.save_seconds.sum()) / machine,
        restart_share=float(replayed.restart_seconds.sum()) / machine,
    )
