"""`outlast simulate TRACE...`: replay how machines went away, and see which policy does best."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from outlast._base.durations import parse_duration
from outlast._base.interval import young
from outlast.capacity.deadlines import Task
from outlast.capacity.drawing import standalone
from outlast.capacity.policies import Costs
from outlast.capacity.price import FLEX_MULTIPLIER, check_currency
from outlast.capacity.replay_report import (
    DEADLINE_HEAD,
    HEAD,
    DeadlineReport,
    Setting,
    TraceReport,
    chart,
    deadline_rows,
    deadline_told,
    replay_deadlines,
    replay_trace,
    report_json,
    report_page,
    table_rows,
    told,
)
from outlast.capacity.traces import Polarity, Repair, Trace, read_trace
from outlast.capacity.vocabulary import Tier
from outlast.cli.format import Format
from outlast.cli.prices import price_table
from outlast.cli.reports import check_chart, write_report
from outlast.cli.tables import print_table
from outlast.errors import OutlastError

_SPOT_PRICE = 0.6
"""Of the on-demand price: about what GPU machines on Spot cost."""


def simulate(
    *traces: Path,
    save: str = "60s",
    restart: str = "120s",
    unannounced: float = 1.0,
    interval: list[str] | None = None,
    every: str = "1h",
    rounds: int = 40,
    work: str | None = None,
    deadline: str | None = None,
    machine: str | None = None,
    location: str = "us-central1",
    prices: list[Path] | None = None,
    polarity: Polarity = Polarity.AVAILABLE,
    repair: Repair = Repair.KEEP_ORDER,
    html: Path | None = None,
    svg: Path | None = None,
    seed: int = 0,
    format: Format = Format.TEXT,
) -> None:
    """Replay traces of Spot machines against policies: how often to save, when to buy what.

    Runs start at regular times of the trace, by default at every hour of it. A kill leaves the
    files of --html and --svg whole, or as they were.

    Parameters
    ----------
    traces: Path
        Files: JSON with gap_seconds and data, lines of milliseconds,add|remove,node, or lines of
        date, time, count.
    save: str
        How long a save stops the work.
    restart: str
        From a new machine to the first work on it.
    unannounced: float
        The share of losses that come without a notice, 0 to 1. With --deadline all of them do.
    interval: list[str]
        A fixed interval to try, such as 10m; may be repeated.
    every: str
        How far apart the runs start.
    rounds: int
        How often each start is repeated with another choice among the machines of a pool.
    work: str
        With --deadline: how much work there is, such as 8h.
    deadline: str
        With --work: replay the policies that keep a deadline, such as 10h.
    machine: str
        With --deadline: the machine whose prices count. Default: Spot costs 0.6 of on-demand.
    location: str
        With --machine: where it is.
    prices: list[Path]
        With --machine: a CSV file of your own prices, which replace the built-in ones.
    polarity: Polarity
        What a 1 means in a JSON trace.
    repair: Repair
        What to do about a few times that go backwards.
    html: Path
        Write one page with tables and charts to this file.
    svg: Path
        Write the chart of one trace to this file, whose name ends in .svg.
    seed: int
        Of all that is drawn. The same seed gives the same numbers.
    format: Format
        text for people, json for programs.
    """
    _check_files(traces, svg)
    if seed < 0:
        raise OutlastError(f"--seed is {seed}; a whole number from 0 is expected.")
    setting = Setting(
        costs=Costs(
            save_seconds=_seconds("--save", save), restart_seconds=_seconds("--restart", restart)
        ),
        unannounced_share=_within("--unannounced", unannounced, 0, 1),
        intervals_seconds=tuple(_positive("--interval", one) for one in interval or ()),
        every_seconds=_positive("--every", every),
        rounds=int(_within("--rounds", rounds, 1, 1000)),
        seed=seed,
    )
    market = _market(machine, location, prices or [])
    reports = []
    for path in traces:
        trace = read_trace(path, polarity=polarity, repair=repair, seed=seed)
        report = replay_trace(trace, setting)
        task = _task(work, deadline, setting, trace)
        if task is not None:
            report = replace(report, deadline=_kept(trace, task, setting, market))
        reports.append(report)
    if svg is not None:
        write_report(svg, standalone(chart(reports[0])))
    if html is not None:
        write_report(html, report_page(reports, currency=market.currency))
    if format is Format.JSON:
        print(json.dumps({"traces": [report_json(one) for one in reports]}, indent=2))
        return
    for report in reports:
        _print_report(report, market.currency)


def _check_files(traces: Sequence[Path], svg: Path | None) -> None:
    if not traces:
        raise OutlastError("simulate needs a trace.", hint="See `outlast simulate --help`.")
    if svg is not None and len(traces) > 1:
        raise OutlastError("--svg draws one trace.", hint="Write them all with --html.")
    if svg is not None:
        check_chart(svg)


class _Market(NamedTuple):
    spot_price: float
    on_demand_price: float
    currency: str


def _kept(trace: Trace, task: Task, setting: Setting, market: _Market) -> DeadlineReport:
    return replay_deadlines(
        trace,
        task,
        spot_price=market.spot_price,
        on_demand_price=market.on_demand_price,
        every_seconds=setting.every_seconds,
        seed=setting.seed,
    )


def _task(work: str | None, deadline: str | None, setting: Setting, trace: Trace) -> Task | None:
    if work is None and deadline is None:
        return None
    if work is None or deadline is None:
        missing = "--work 8h" if work is None else "--deadline 10h"
        raise OutlastError("--work and --deadline go together.", hint=f"Add {missing}.")
    mean = trace.mean_seconds if trace.losses else trace.seconds
    costs = setting.costs
    seconds = setting.intervals_seconds[0] if setting.intervals_seconds else None
    task = Task(
        work_seconds=_positive("--work", work),
        deadline_seconds=_positive("--deadline", deadline),
        interval_seconds=seconds or max(60.0, young(costs.save_seconds, mean)),
        save_seconds=costs.save_seconds,
        changeover_seconds=costs.restart_seconds,
    )
    if not task.is_feasible:
        raise OutlastError(
            f"The deadline {deadline!r} is too short for {work!r} of work, its saves and a start, "
            "even on demand.",
            hint="Lengthen --deadline.",
        )
    return task


def _market(machine: str | None, location: str, prices: list[Path]) -> _Market:
    if machine is None:
        if prices:
            raise OutlastError("--prices goes with --machine.", hint="Add --machine g2-standard-4.")
        return _Market(_SPOT_PRICE, 1.0, "on-demand hours")
    table = price_table(prices, str(FLEX_MULTIPLIER))
    spot = table.find(machine, location, Tier.SPOT)
    on_demand = table.find(machine, location, Tier.ON_DEMAND)
    check_currency((spot, on_demand))
    return _Market(float(spot.amount), float(on_demand.amount), spot.currency)


def _print_report(report: TraceReport, currency: str) -> None:
    for repair in report.trace.repairs:
        print(f"warning: {repair}", file=sys.stderr)
    print(told(report))
    print_table(HEAD, table_rows(report))
    if report.deadline is not None:
        print(f"\n{deadline_told(report.deadline)}")
        print_table(DEADLINE_HEAD, deadline_rows(report.deadline, currency=currency))
    print()


def _within(flag: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise OutlastError(f"{flag} is {value!r}; {low:g} to {high:g} is expected.")
    return value


def _positive(flag: str, text: str) -> float:
    seconds = _seconds(flag, text)
    if seconds == 0:
        raise OutlastError(f"{flag} is {text!r}; a duration above 0 is expected.")
    return seconds


def _seconds(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise OutlastError(f"{flag}: {error}") from None
