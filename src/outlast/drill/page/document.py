"""A drill as one HTML file: no scripts, nothing from elsewhere, for any screen. Joins the parts."""

from pathlib import Path

from outlast._base.files import write_file
from outlast.drill.errors import DrillError
from outlast.drill.page import kinds
from outlast.drill.page.details import about, compared, outputs
from outlast.drill.page.evictions import evictions
from outlast.drill.page.headline import headline, title
from outlast.drill.page.loss import loss
from outlast.drill.page.losses import work_lost
from outlast.drill.page.markup import Html, element, join
from outlast.drill.page.money import EXAMPLE, Prices, money
from outlast.drill.page.progress import progress
from outlast.drill.page.style import sheet
from outlast.drill.page.timeline import timeline
from outlast.drill.report import Report

# Should anything from outside ever get in as markup, a browser still loads and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_html(report: Report, path: Path, *, prices: Prices = EXAMPLE) -> None:
    """Write the report as a page, with the folders above it.

    Raises `DrillError` if that is not possible. If killed: the page that was there before stays,
    and a file whose name ends in `.new` may be left beside it.
    """
    content = page(report, prices=prices).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    except OSError as error:
        raise DrillError(
            f"The page {str(path)!r} could not be written: {error.strerror}.",
            hint="Name a file in a folder that can be written to.",
        ) from error


def page(report: Report, *, prices: Prices = EXAMPLE) -> str:
    """The whole page. Pure."""
    lost = work_lost(report)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),
        element("title", f"Drill: {title(report).lower()}"),
        element("style", Html(sheet())),
    )
    main = element(
        "main",
        headline(report, lost),
        timeline(report),
        progress(report, lost),
        loss(report),
        evictions(report, lost),
        compared(report),
        outputs(report),
        money(report, prices),
        about(report),
    )
    body = element("body", kinds.definitions(), main)
    return f"<!doctype html>\n{element('html', join([head, body]), lang='en')}\n"
