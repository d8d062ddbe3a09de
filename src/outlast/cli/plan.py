"""`outlast plan FILE`: which capacity suits a workload, what it costs, will it be done in time."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outlast._base.files import write_file
from outlast.capacity.assumptions import assume
from outlast.capacity.drawing import standalone
from outlast.capacity.interruptions import Lifetimes, Weibull
from outlast.capacity.plan import Plan
from outlast.capacity.plan import plan as make_plan
from outlast.capacity.plan_report import HEAD, plan_json, plan_page, table_rows
from outlast.capacity.price import FLEX_MULTIPLIER
from outlast.capacity.sweep import Sweep, parse_sweep, sweep_chart, sweep_json, sweep_parts
from outlast.capacity.sweep import sweep_rows as rows_of_sweep
from outlast.capacity.traces import lifetimes_in, read_trace
from outlast.capacity.workload import Workload
from outlast.cli.format import Format
from outlast.cli.overrides import parse_overrides
from outlast.cli.prices import price_table, warn_if_stale
from outlast.cli.tables import print_table
from outlast.errors import OutlastError


def plan(
    file: Path,
    /,
    *,
    overrides: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    sweep: str | None = None,
    prices: list[Path] | None = None,
    flex_multiplier: Decimal = FLEX_MULTIPLIER,
    bucket_location: str | None = None,
    trace: Path | None = None,
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
        checkpoint.size=1GiB..100GiB.
    prices: list[Path]
        A CSV file of your own prices, which replace the built-in ones.
    flex_multiplier: Decimal
        The estimated flex-start price, as a multiple of the on-demand price.
    bucket_location: str
        Where the bucket of the checkpoints is, such as us-central1 or eu.
    trace: Path
        A trace of Spot machines; their lives replace the assumption of random losses.
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
    table = price_table(prices or [], flex_multiplier)
    now = datetime.combine(today, time(), UTC) if today else datetime.now(UTC)
    pairs = parse_overrides(overrides or [])
    law = _lifetimes(trace, weibull_shape)

    def plan_for(more: dict[str, str]) -> Plan:
        workload = Workload.read(file, overrides={**pairs, **more})
        return make_plan(
            workload,
            lifetimes=law(workload) if law else None,
            prices=table,
            now=now,
            bucket_location=bucket_location,
            runs=runs,
            seed=seed,
        )

    made = plan_for({})
    swept = parse_sweep(sweep) if sweep is not None else None
    plans = [plan_for({swept.key: point.text}) for point in swept.points] if swept else []
    warn_if_stale(made.prices, today=now.date())
    if svg is not None:
        _write_chart(svg, swept, plans)
    if html is not None:
        extra = sweep_parts(swept, plans) if swept else []
        write_file(html, plan_page(made, extra=extra).encode())
    if format is Format.JSON:
        content = plan_json(made)
        if swept:
            content["sweep"] = sweep_json(swept, plans)
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _print_plan(made)
        if swept:
            _print_sweep(swept, plans)


def _lifetimes(trace: Path | None, shape: float | None) -> Callable[[Workload], Lifetimes] | None:
    """The law of Spot lifetimes that was asked for; None for random losses."""
    if trace is not None:
        if shape is not None:
            raise OutlastError("--trace and --weibull-shape exclude each other.")
        empirical = lifetimes_in(read_trace(trace))
        return lambda _: empirical
    if shape is None:
        return None
    if not 0.1 <= shape <= 10:
        raise OutlastError(f"--weibull-shape is {shape!r}; 0.1 to 10 is expected.")
    return lambda workload: Weibull(shape=shape, mean_seconds=assume(workload).node_mean_seconds)


def _write_chart(svg: Path, swept: Sweep | None, plans: list[Plan]) -> None:
    if swept is None:
        raise OutlastError(
            "--svg draws a sweep, and there is none.",
            hint="Add --sweep checkpoint.size=1GiB..100GiB, or write a page with --html.",
        )
    write_file(svg, standalone(sweep_chart(swept, plans)).encode())


def _print_plan(plan: Plan) -> None:
    print(f"Take {plan.tier} for {plan.workload}.\n")
    for reason in plan.reasons:
        print(f"- {reason}")
    print()
    print_table(HEAD[:-1], [row[:-1] for row in table_rows(plan)])
    for option in plan.options:
        if option.why_not is not None:
            print(f"{option.tier}: {option.why_not}")
    print(f"\nFrom up to {plan.runs:,} simulated runs for each tier. Assumed, not measured:")
    assumed = (figure for figure in plan.figures if figure.origin == "assumed")
    print("; ".join(f"{figure.name} {figure.text}" for figure in assumed) + ".")
    for warning in plan.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _print_sweep(swept: Sweep, plans: list[Plan]) -> None:
    print()
    head = (swept.key, "take", *(option.tier.value for option in plans[0].options))
    print_table(head, rows_of_sweep(swept, plans), words=2)
