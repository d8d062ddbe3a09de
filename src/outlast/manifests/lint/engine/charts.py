"""Helm charts: render them with `helm template` if helm is installed, and say so if it is not.

Nothing else is run. Values come from the chart itself, and dependencies are not fetched. What runs
helm is imported when there is a chart, because every lint asks `chart_of`.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RENDER_SECONDS_MAX = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedChart:
    """What helm made of a chart, or why it is not linted."""

    chart: Path
    text: str = ""
    notice: str | None = None


def chart_of(path: Path | None) -> Path | None:
    """The chart that a file is a template of, None if it is none."""
    if path is None or "templates" not in path.parts:
        return None
    folder = path.absolute().parent
    while folder.name != "templates" and folder != folder.parent:
        folder = folder.parent
    chart = folder.parent
    return chart if (chart / "Chart.yaml").is_file() else None


def render_charts(templates: Iterable[Path]) -> list[RenderedChart]:
    """The charts of these templates, each rendered once."""
    counts: dict[Path, int] = {}
    for path in templates:
        chart = chart_of(path)
        if chart is not None:
            counts[chart] = counts.get(chart, 0) + 1
    if not counts:
        return []
    import shutil

    helm = shutil.which("helm")
    if helm is None:
        return [_without_helm(counts)]
    return [_rendered(helm, chart, count) for chart, count in counts.items()]


def _without_helm(counts: dict[Path, int]) -> RenderedChart:
    """The first of the charts, with a notice for all of them."""
    first = next(iter(counts))
    others = f" and {len(counts) - 1} more" if len(counts) > 1 else ""
    return RenderedChart(
        chart=first,
        notice=f"{_shown(first)}{others}: skipped {_templates(sum(counts.values()))}, because helm "
        "is not installed. Install it, or lint the output of `helm template`.",
    )


def _templates(count: int) -> str:
    return f"{count} Helm template{'' if count == 1 else 's'}"


def _rendered(helm: str, chart: Path, count: int) -> RenderedChart:
    shown = _shown(chart)
    what = _templates(count)
    import subprocess

    try:
        made = subprocess.run(
            [helm, "template", "lint", os.fspath(chart)],
            capture_output=True,
            timeout=RENDER_SECONDS_MAX,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return RenderedChart(chart=chart, notice=f"{shown}: skipped {what}: {error}.")
    if made.returncode:
        lines = made.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"exit code {made.returncode}"
        return RenderedChart(chart=chart, notice=f"{shown}: skipped {what}: helm: {reason}")
    return RenderedChart(chart=chart, text=made.stdout.decode(errors="replace"))


def _shown(chart: Path) -> str:
    here = Path.cwd()
    return chart.relative_to(here).as_posix() if chart.is_relative_to(here) else str(chart)
