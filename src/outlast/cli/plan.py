"""`outlast plan FILE`: which capacity suits a workload, what it costs, will it be done in time."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outlast.capacity import page
from outlast.capacity.assumptions import assume
from outlast.capacity.drawing import standalone
from outlast.capacity.interruptions import Lifetimes, Weibull
from outlast.capacity.plan import Plan
from outlast.capacity.plan import plan as make_plan
from outlast.capacity.plan_report import HEAD, per_pod, plan_json, plan_page, table_rows
from outlast.capacity.price import FLEX_MULTIPLIER
from outlast.capacity.sweep import (
    Planned,
    Sweep,
    parse_sweep,
    plan_points,
    sweep_chart,
    sweep_head,
    sweep_json,
    sweep_notes,
    sweep_parts,
    sweep_rows,
)
from outlast.capacity.traces import Polarity, Trace, lifetimes_in, read_trace
from outlast.capacity.waits import mean_wait_in
from outlast.capacity.workload import Workload
from outlast.cli.format import Format
from outlast.cli.overrides import parse_overrides
from outlast.cli.prices import price_table, warn_if_stale
from outlast.cli.reports import check_chart, write_report
from outlast.cli.tables import print_table
from outlast.errors import OutlastError


def plan(
    file: Path,
    /,
    *,
    overrides: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    sweep: str | None = None,
    prices: list[Path] | None = None,
    flex_multiplier: str = str(FLEX_MULTIPLIER),
    bucket_location: str | None = None,
    trace: Path | None = None,
    polarity: Polarity = Polarity.AVAILABLE,
    weibull_shape: float | None = None,
    html: Path | None = None,
    svg: Path | None = None,
    today: date | None = None,
    runs: int = 10_000,
    seed: int = 0,
    format: Format = Format.TEXT,
) -> None:
    """Compare Spot, flex-start, on-demand and hybrid for a workload, and recommend one.

    A kill leaves the files of --html and --svg whole, or as they were.

    Parameters
    ----------
    file: Path
        The workload file.
    overrides: list[str]
        key=value, in place of what the file says; dots lead into parts: work.hours=40.
    sweep: str
        What if: key=from..to or key=a,b,c plans every value, such as
        checkpoint.size=1GiB..100GiB or tier=spot,hybrid.
    prices: list[Path]
        A CSV file of your own prices, which replace the built-in ones.
    flex_multiplier: str
        The estimated flex-start price, as a multiple of the on-demand price.
    bucket_location: str
        Where the bucket of the checkpoints is, such as us-central1, nam4 or eu.
    trace: Path
        A trace of Spot machines; their lives and the mean wait for the next one replace what is
        assumed or measured.
    polarity: Polarity
        What a 1 means in a JSON trace.
    weibull_shape: float
        The shape of the law of Spot lifetimes: below 1 for mostly early losses. Default: random.
    html: Path
        Write one page with the figures and the distributions to this file.
    svg: Path
        Write the chart of the sweep to this file.
    today: date
        The date to count from, for output that can be repeated.
    runs: int
        How many runs of each tier are simulated.
    seed: int
        Of the simulation. The same seed gives the same numbers.
    format: Format
        text for people, json for programs.
    """
    if not 1 <= runs <= 10_000_000:
        raise OutlastError(f"--runs is {runs}; 1 to 10,000,000 is expected.")
    swept = _sweep(sweep, svg)
    table = price_table(prices or [], flex_multiplier)
    now = datetime.combine(today, time(), UTC) if today else datetime.now(UTC)
    pairs = parse_overrides(overrides or [])
    seen = _seen_in(trace, polarity, seed, weibull_shape)
    law = lifetimes_in(seen) if seen else None
    spot_wait = timedelta(seconds=mean_wait_in(seen)) if seen else None

    def plan_for(more: dict[str, str]) -> Plan:
        workload = Workload.read(file, overrides={**pairs, **more})
        return make_plan(
            workload,
            lifetimes=law or _shaped(workload, weibull_shape),
            spot_wait=spot_wait,
            prices=table,
            now=now,
            bucket_location=bucket_location,
            runs=runs,
            seed=seed,
        )

    made, planned = _plan_all(plan_for, swept)
    plans = [one for one in (made, *planned) if isinstance(one, Plan)]
    warn_if_stale([price for one in plans for price in one.prices], today=now.date())
    _write_files(made, swept, planned, html=html, svg=svg)
    if format is Format.JSON:
        content = plan_json(made) if made else {}
        sweeping = {"sweep": sweep_json(swept, planned)} if swept else {}
        print(json.dumps({**content, **sweeping}, indent=2, ensure_ascii=False))
        return
    if made:
        _print_plan(made)
    if swept:
        _print_sweep(swept, planned)


def _sweep(text: str | None, svg: Path | None) -> Sweep | None:
    """The sweep that was asked for, with a chart of it or without."""
    if svg is not None:
        if text is None:
            raise OutlastError(
                "--svg draws a sweep, and there is none.",
                hint="Add --sweep checkpoint.size=1GiB..100GiB, or write a page with --html.",
            )
        check_chart(svg)
    return parse_sweep(text) if text is not None else None


def _plan_all(
    plan_for: Callable[[dict[str, str]], Plan], swept: Sweep | None
) -> tuple[Plan | None, list[Planned]]:
    """The plan of the file as it is, and of each value of a sweep, which can do without it."""
    if swept is None:
        return plan_for({}), []
    planned = plan_points(swept, plan_for)
    try:
        return plan_for({}), planned
    except OutlastError as error:
        print(f"warning: Without the sweep there is no plan: {error}", file=sys.stderr)
        return None, planned


def _write_files(
    made: Plan | None,
    swept: Sweep | None,
    planned: list[Planned],
    *,
    html: Path | None,
    svg: Path | None,
) -> None:
    if svg is not None and swept:
        write_report(svg, standalone(sweep_chart(swept, planned)))
    if html is not None:
        extra = sweep_parts(swept, planned) if swept else []
        content = plan_page(made, extra=extra) if made else page.page("What if", extra)
        write_report(html, content)


def _seen_in(
    trace: Path | None, polarity: Polarity, seed: int, shape: float | None
) -> Trace | None:
    """The trace that was named; None for random losses, or those of a shape."""
    if shape is not None and not 0.1 <= shape <= 10:
        raise OutlastError(f"--weibull-shape is {shape!r}; 0.1 to 10 is expected.")
    if trace is None:
        return None
    if shape is not None:
        raise OutlastError("--trace and --weibull-shape exclude each other.")
    seen = read_trace(trace, polarity=polarity, seed=seed)
    for repair in seen.repairs:
        print(f"warning: {repair}", file=sys.stderr)
    return seen


def _shaped(workload: Workload, shape: float | None) -> Lifetimes | None:
    if shape is None:
        return None
    return Weibull(shape=shape, mean_seconds=assume(workload).node_mean_seconds)


def _print_plan(plan: Plan) -> None:
    print(f"Take {plan.tier} for {plan.workload}.\n")
    for reason in plan.reasons:
        print(f"- {reason}")
    print()
    print_table(HEAD[:-1], [row[:-1] for row in table_rows(plan)])
    for option in plan.options:
        if option.why_not is not None:
            print(f"{option.tier}: {option.why_not}")
    print(f"\nFrom up to {plan.runs:,} simulated runs for each tier.", end=" ")
    if plan.crews > 1:
        print(f"Redone and waiting are means{per_pod(plan)}.", end=" ")
    print("Assumed, not measured:")
    assumed = (figure for figure in plan.figures if figure.origin == "assumed")
    print("; ".join(f"{figure.name} {figure.text}" for figure in assumed) + ".")
    for warning in plan.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _print_sweep(swept: Sweep, planned: list[Planned]) -> None:
    print()
    print_table(sweep_head(swept), sweep_rows(swept, planned), words=2)
    for note in sweep_notes(swept, planned):
        print(note)
