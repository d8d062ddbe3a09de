"""`outlast simulate TRACE...`: replay traces of Spot machines and compare policies."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from cyclopts import Parameter

from outlast._base.durations import format_duration
from outlast._base.interval import young
from outlast.capacity.pricing.prices import FLEX_MULTIPLIER, check_currency
from outlast.capacity.simulation.deadlines import DeadlineTask
from outlast.capacity.simulation.policies import CheckpointCosts
from outlast.capacity.simulation.replay_report import (
    DEADLINE_HEAD,
    HEAD,
    ReplaySettings,
    TraceReport,
    chart,
    deadline_heading,
    deadline_rows,
    replay_deadlines,
    replay_trace,
    report_json,
    report_page,
    table_rows,
    trace_summary,
)
from outlast.capacity.simulation.traces import TimestampRepair, Trace, TracePolarity, read_trace
from outlast.capacity.vocabulary import Tier
from outlast.cli.option_types import (
    Duration,
    Files,
    PositiveDuration,
    PositiveDurations,
    WholeNumber,
)
from outlast.cli.plan.prices import price_table
from outlast.cli.printing import Format, print_table, say, say_json
from outlast.cli.reports import check_chart, write_report
from outlast.errors import OutlastError

_SPOT_PRICE = 0.6
"""As a share of the on-demand price: roughly the Spot price of GPU machines."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SimulateFlags:
    """What to simulate."""

    save_time: Duration = timedelta(seconds=60)
    """How long a save blocks the work."""
    restart_time: Duration = timedelta(seconds=120)
    """Time from getting a machine to the first work on it."""
    unannounced_share: float = 1.0
    """Share of losses without notice, 0 to 1. With --deadline, no loss has a notice."""
    interval: PositiveDurations = ()
    """A fixed save interval to include, such as 10m. Can be repeated."""
    start_every: PositiveDuration = timedelta(hours=1)
    """Time between the starts of the runs."""
    rounds: WholeNumber = 40
    """How often each start is repeated with a different random choice of machines."""
    work: PositiveDuration | None = None
    """Amount of work for --deadline, such as 8h."""
    deadline: PositiveDuration | None = None
    """Also compare policies that meet this deadline, such as 10h. Requires --work."""
    machine: str | None = None
    """Machine type whose prices are used for --deadline. Default: Spot costs 0.6 of on-demand."""
    location: str = "us-central1"
    """Location of --machine."""
    prices: Files = ()
    """CSV file with prices of --machine that override the built-in ones."""
    polarity: TracePolarity = TracePolarity.AVAILABLE
    """Meaning of 1 in a JSON trace."""
    repair: TimestampRepair = TimestampRepair.KEEP_ORDER
    """How to handle a few timestamps that go backwards."""
    html: Path | None = None
    """Write an HTML page with tables and charts to this file."""
    svg: Path | None = None
    """Write the chart of one trace to this file (.svg)."""
    seed: WholeNumber = 0
    """Random seed."""
    format: Format = Format.TEXT
    """Output format."""


_DEFAULTS = SimulateFlags()


def simulate(*traces: Path, flags: SimulateFlags = _DEFAULTS) -> None:
    """Replay traces of Spot machines to compare save intervals and ways to meet a deadline.

    Runs start at regular intervals within the trace. The files of --html and --svg are replaced
    atomically.

    Parameters
    ----------
    traces: Path
        Trace files: JSON steps, lines of milliseconds,add|remove,node, or of date, time, count.
    """
    _check_files(traces, flags.svg)
    settings = _settings(flags)
    prices = _prices_of(flags)
    reports = [_replayed(path, flags, settings, prices) for path in traces]
    if flags.svg is not None:
        write_report(flags.svg, chart(reports[0]).as_svg())
    if flags.html is not None:
        write_report(flags.html, report_page(reports, currency=prices.currency))
    if flags.format is Format.JSON:
        say_json({"traces": [report_json(one) for one in reports]}, indent=2)
        return
    for report in reports:
        _print_report(report, prices.currency)


def _check_files(traces: Sequence[Path], svg: Path | None) -> None:
    if not traces:
        raise OutlastError("No trace given.", hint="See `outlast simulate --help`.")
    if svg is not None and len(traces) > 1:
        raise OutlastError("--svg supports only one trace.", hint="Use --html for several traces.")
    if svg is not None:
        check_chart(svg)


def _settings(flags: SimulateFlags) -> ReplaySettings:
    if flags.seed < 0:
        raise OutlastError(f"--seed: expected a whole number of at least 0, got {flags.seed}.")
    return ReplaySettings(
        costs=CheckpointCosts(
            save_seconds=flags.save_time.total_seconds(),
            restart_seconds=flags.restart_time.total_seconds(),
        ),
        unannounced_share=_within("--unannounced-share", flags.unannounced_share, 0, 1),
        intervals_seconds=tuple(one.total_seconds() for one in flags.interval),
        every_seconds=flags.start_every.total_seconds(),
        rounds=int(_within("--rounds", flags.rounds, 1, 1000)),
        seed=flags.seed,
    )


class _MachinePrices(NamedTuple):
    spot_price: float
    on_demand_price: float
    currency: str


def _prices_of(flags: SimulateFlags) -> _MachinePrices:
    if flags.machine is None:
        if flags.prices:
            raise OutlastError("--prices requires --machine.", hint="Add --machine g2-standard-4.")
        return _MachinePrices(_SPOT_PRICE, 1.0, "on-demand hours")
    table = price_table(flags.prices, str(FLEX_MULTIPLIER))
    spot = table.find(flags.machine, flags.location, Tier.SPOT)
    on_demand = table.find(flags.machine, flags.location, Tier.ON_DEMAND)
    check_currency((spot, on_demand))
    return _MachinePrices(float(spot.amount), float(on_demand.amount), spot.currency)


def _replayed(
    path: Path, flags: SimulateFlags, settings: ReplaySettings, prices: _MachinePrices
) -> TraceReport:
    trace = read_trace(path, polarity=flags.polarity, repair=flags.repair, seed=flags.seed)
    report = replay_trace(trace, settings)
    task = _task(flags, settings, trace)
    if task is None:
        return report
    met = replay_deadlines(
        trace,
        task,
        spot_price=prices.spot_price,
        on_demand_price=prices.on_demand_price,
        every_seconds=settings.every_seconds,
        seed=settings.seed,
    )
    return replace(report, deadline=met)


def _task(flags: SimulateFlags, settings: ReplaySettings, trace: Trace) -> DeadlineTask | None:
    work, deadline = flags.work, flags.deadline
    if work is None and deadline is None:
        return None
    if work is None or deadline is None:
        missing = "--work 8h" if work is None else "--deadline 10h"
        raise OutlastError("--work and --deadline must be used together.", hint=f"Add {missing}.")
    costs, intervals = settings.costs, settings.intervals_seconds
    mean = trace.mean_seconds if trace.losses else trace.seconds
    task = DeadlineTask(
        work_seconds=work.total_seconds(),
        deadline_seconds=deadline.total_seconds(),
        interval_seconds=intervals[0] if intervals else max(60, young(costs.save_seconds, mean)),
        save_seconds=costs.save_seconds,
        changeover_seconds=costs.restart_seconds,
    )
    if not task.is_feasible:
        raise OutlastError(
            f"A deadline of {format_duration(task.deadline_seconds)} is too short for "
            f"{format_duration(task.work_seconds)} of work including startup and saves, even on "
            "demand.",
            hint="Use a longer --deadline.",
        )
    return task


def _print_report(report: TraceReport, currency: str) -> None:
    for repair in report.trace.repairs:
        say(f"warning: {repair}", file=sys.stderr)
    say(trace_summary(report))
    print_table(HEAD, table_rows(report))
    if report.deadline is not None:
        say(f"\n{deadline_heading(report.deadline)}")
        print_table(DEADLINE_HEAD, deadline_rows(report.deadline, currency=currency))
    say()


def _within(flag: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise OutlastError(f"{flag}: expected {low:g} to {high:g}, got {value!r}.")
    return value
