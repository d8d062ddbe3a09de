"""A drill as one HTML file: no scripts, no external resources, for any screen size."""

from pathlib import Path

from outlast._base.files import write_file
from outlast.drills.errors import DrillError
from outlast.drills.judge.report import DrillReport
from outlast.drills.page.cost import EXAMPLE_PRICES, MachinePrices, cost_section
from outlast.drills.page.details import comparisons, configuration, evictions, last_outputs
from outlast.drills.page.eviction_kinds import definitions
from outlast.drills.page.headline import headline, title
from outlast.drills.page.metric_curves import metric_curves
from outlast.drills.page.progress import progress
from outlast.drills.page.timeline import timeline
from outlast.drills.page.work_lost import work_lost
from outlast.report.markup import element
from outlast.report.page import document
from outlast.storage.settings import shared_mode


def write_html(report: DrillReport, path: Path, *, prices: MachinePrices = EXAMPLE_PRICES) -> None:
    """Write the report as a page and create its parent folders. A new page is private.

    Raises `DrillError` if the page cannot be written. If killed: an existing page is unchanged, and
    a file whose name ends in `.new` may remain next to it.
    """
    content = page(report, prices=prices).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content, mode=shared_mode(0o600))
    except OSError as error:
        raise DrillError(
            f"Could not write the report {str(path)!r}: {error.strerror}.",
            hint="Use a path in a writable folder.",
        ) from error


def page(report: DrillReport, *, prices: MachinePrices = EXAMPLE_PRICES) -> str:
    """The complete page. Pure."""
    lost = work_lost(report)
    main = element(
        "main",
        headline(report, lost),
        timeline(report),
        progress(report, lost),
        metric_curves(report),
        evictions(report, lost),
        comparisons(report),
        last_outputs(report),
        cost_section(report, prices),
        configuration(report),
    )
    return document(f"Drill: {title(report).lower()}", definitions(), main)
