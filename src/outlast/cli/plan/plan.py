"""`outlast plan FILE`: which tier to use for a workload, what it costs, when it finishes."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outlast.capacity.planning.assumptions import assume
from outlast.capacity.planning.plan import CapacityPlan
from outlast.capacity.planning.plan import plan as make_plan
from outlast.capacity.planning.report import (
    FRONTIER_HEAD,
    HEAD,
    frontier_note,
    frontier_rows,
    per_pod,
    plan_json,
    plan_page,
    table_rows,
)
from outlast.capacity.planning.sweep import (
    ParameterSweep,
    PlanOrError,
    parse_sweep,
    plan_points,
    sweep_chart,
    sweep_head,
    sweep_json,
    sweep_notes,
    sweep_parts,
    sweep_rows,
)
from outlast.capacity.pricing.prices import FLEX_MULTIPLIER
from outlast.capacity.simulation.lifetimes import LifetimeDistribution, WeibullLifetimes
from outlast.capacity.simulation.replay import mean_wait_in
from outlast.capacity.simulation.traces import Trace, TracePolarity, lifetimes_in, read_trace
from outlast.capacity.workload.file import Workload, parse_overrides
from outlast.cli.option_types import Files, WholeNumber
from outlast.cli.plan.prices import price_table, warn_if_stale
from outlast.cli.printing import Format, print_table, say, say_json
from outlast.cli.reports import check_chart, write_report
from outlast.errors import OutlastError
from outlast.report import page


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanFlags:
    """What to plan for."""

    overrides: Annotated[tuple[str, ...], Parameter(name="--set", show_default=False)] = ()
    """Override a key of the file: key=value, with dots for nested keys (work.hours=40)."""
    sweep: str | None = None
    """Plan for several values: key=from..to or key=a,b,c, e.g. checkpoint.size=1GiB..100GiB."""
    prices: Files = ()
    """CSV file with prices that override the built-in ones."""
    flex_multiplier: str = str(FLEX_MULTIPLIER)
    """Estimate flex-start prices as this multiple of the on-demand price."""
    value_of_time: str | None = None
    """What finishing one hour earlier is worth. Default: as in the file, or 10."""
    bucket_location: str | None = None
    """Location of the checkpoint bucket, such as us-central1, nam4 or eu."""
    trace: Path | None = None
    """Trace of Spot machines. Its lifetimes and mean wait replace the assumed or measured ones."""
    polarity: TracePolarity = TracePolarity.AVAILABLE
    """Meaning of 1 in a JSON trace."""
    weibull_shape: float | None = None
    """Weibull shape of Spot lifetimes: below 1 if losses come early. Default: random losses."""
    html: Path | None = None
    """Write an HTML page with tables and distributions to this file."""
    svg: Path | None = None
    """Write the chart of the sweep to this file (.svg)."""
    today: date | None = None
    """Date to use as today, for reproducible output."""
    runs: WholeNumber = 10_000
    """Number of simulated runs per tier."""
    seed: WholeNumber = 0
    """Random seed of the simulation."""
    format: Format = Format.TEXT
    """Output format."""


_DEFAULTS = PlanFlags()


def plan(file: Path, /, *, flags: PlanFlags = _DEFAULTS) -> None:
    """Compare Spot, flex-start, on-demand and hybrid for a workload, and recommend one.

    The files of --html and --svg are replaced atomically.

    Parameters
    ----------
    file: Path
        Workload file.
    """
    swept = _sweep(flags.sweep, flags.svg)
    now = datetime.combine(flags.today, time(), UTC) if flags.today else datetime.now(UTC)
    made, planned = _plan_all(_planner(file, flags, now), swept)
    plans = [one for one in (made, *planned) if isinstance(one, CapacityPlan)]
    warn_if_stale([price for one in plans for price in one.prices], today=now.date())
    _write_files(made, swept, planned, html=flags.html, svg=flags.svg)
    if flags.format is Format.JSON:
        content = plan_json(made) if made else {}
        sweeping = {"sweep": sweep_json(swept, planned)} if swept else {}
        say_json({**content, **sweeping}, indent=2)
        return
    if made:
        _print_plan(made)
    if swept:
        _print_sweep(swept, planned)


def _planner(
    file: Path, flags: PlanFlags, now: datetime
) -> Callable[[dict[str, str]], CapacityPlan]:
    """The function that plans for the file with more overrides. Reads everything else once."""
    if not 1 <= flags.runs <= 10_000_000:
        raise OutlastError(f"--runs: expected 1 to 10,000,000, got {flags.runs}.")
    table = price_table(flags.prices, flags.flex_multiplier)
    pairs = parse_overrides(flags.overrides)
    if flags.value_of_time is not None:
        pairs = {**pairs, "value_of_time": flags.value_of_time}
    trace = _read_trace(flags)

    def plan_for(more: dict[str, str]) -> CapacityPlan:
        workload = Workload.read(file, overrides={**pairs, **more})
        return make_plan(
            workload,
            lifetimes=lifetimes_in(trace) if trace else _shaped(workload, flags.weibull_shape),
            spot_wait=timedelta(seconds=mean_wait_in(trace)) if trace else None,
            prices=table,
            now=now,
            bucket_location=flags.bucket_location,
            runs=flags.runs,
            seed=flags.seed,
        )

    return plan_for


def _sweep(text: str | None, svg: Path | None) -> ParameterSweep | None:
    """The requested sweep; checks that --svg has one to draw."""
    if svg is not None:
        if text is None:
            raise OutlastError(
                "--svg requires --sweep.",
                hint="Add --sweep checkpoint.size=1GiB..100GiB, or write a page with --html.",
            )
        check_chart(svg)
    return parse_sweep(text) if text is not None else None


def _plan_all(
    plan_for: Callable[[dict[str, str]], CapacityPlan], swept: ParameterSweep | None
) -> tuple[CapacityPlan | None, list[PlanOrError]]:
    """The plan for the file itself, and for each value of a sweep, which may work without it."""
    if swept is None:
        return plan_for({}), []
    planned = plan_points(swept, plan_for)
    try:
        return plan_for({}), planned
    except OutlastError as error:
        say(f"warning: No plan without the sweep: {error}", file=sys.stderr)
        return None, planned


def _write_files(
    made: CapacityPlan | None,
    swept: ParameterSweep | None,
    planned: list[PlanOrError],
    *,
    html: Path | None,
    svg: Path | None,
) -> None:
    if svg is not None and swept:
        write_report(svg, sweep_chart(swept, planned).as_svg())
    if html is not None:
        extra = sweep_parts(swept, planned) if swept else []
        content = plan_page(made, extra=extra) if made else page.page("Parameter sweep", extra)
        write_report(html, content)


def _read_trace(flags: PlanFlags) -> Trace | None:
    """The trace, if one was given."""
    shape = flags.weibull_shape
    if shape is not None and not 0.1 <= shape <= 10:
        raise OutlastError(f"--weibull-shape: expected 0.1 to 10, got {shape!r}.")
    if flags.trace is None:
        return None
    if shape is not None:
        raise OutlastError("--trace and --weibull-shape cannot be combined.")
    found = read_trace(flags.trace, polarity=flags.polarity, seed=flags.seed)
    for repair in found.repairs:
        say(f"warning: {repair}", file=sys.stderr)
    return found


def _shaped(workload: Workload, shape: float | None) -> LifetimeDistribution | None:
    if shape is None:
        return None
    return WeibullLifetimes(shape=shape, mean_seconds=assume(workload).node_mean_seconds)


def _print_plan(plan: CapacityPlan) -> None:
    say(f"Recommended tier for {plan.workload}: {plan.tier}")
    if plan.price_request is not None:
        say(plan.price_request)
    say()
    for reason in plan.reasons:
        say(f"- {reason}")
    say()
    print_table(HEAD, table_rows(plan))
    for option in plan.options:
        if option.why_not is not None:
            say(f"{option.tier}: {option.why_not}")
    if len(plan.frontier) > 1:
        say("\nCost against time, fastest first:")
        print_table(FRONTIER_HEAD, frontier_rows(plan))
        say(frontier_note(plan))
    say(f"\nBased on up to {plan.runs:,} simulated runs per tier.", end=" ")
    if plan.replicas > 1:
        say(f"Redone and waiting are averages{per_pod(plan)}.", end=" ")
    say("Assumptions (not measured):")
    for given in plan.inputs:
        if given.origin == "assumed":
            say(f"- {given.name}: {given.text}")
    for warning in plan.warnings:
        say(f"warning: {warning}", file=sys.stderr)


def _print_sweep(swept: ParameterSweep, planned: list[PlanOrError]) -> None:
    say(f"\nSweep of {swept.key}, with the expected cost of each tier:")
    print_table(sweep_head(swept), sweep_rows(swept, planned), words=2)
    for note in sweep_notes(swept, planned):
        say(note)
