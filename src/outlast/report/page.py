"""One HTML page for a report: its own style, no scripts, no external resources. Pure.

Text is escaped; `code` in backticks is set as code.
"""

from collections.abc import Collection, Iterable, Sequence

from outlast.report.markup import Html, element, join, prose
from outlast.report.style import sheet

# Even if markup from outside got into the page, a browser would load and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_SHORT_CHARACTERS_MAX = 16


def page(title: str, parts: Iterable[object]) -> str:
    """A page with a heading and its parts, which are `Html` or text."""
    return document(title, element("main", element("h1", title), *parts))


def document(title: str, *body: object) -> str:
    """A complete HTML document with the style sheet of all reports."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Html(sheet())),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *body), lang='en')}\n"


def heading(text: str) -> Html:
    return element("h2", prose(text))


def paragraph(text: str) -> Html:
    return element("p", prose(text))


def note(text: str) -> Html:
    return element("p", prose(text), class_="note")


def listing(items: Iterable[str]) -> Html:
    return element("ul", *(element("li", prose(item)) for item in items))


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    words: int = 1,
    numbers: Collection[int] | None = None,
    chosen: int | None = None,
    label: str | None = None,
    class_: str | None = None,
) -> Html:
    """A table that scrolls sideways on small screens.

    `numbers` are the columns of numbers, by default all after the first `words` columns. `chosen`
    is the index of a row to highlight, `label` the name of the table for screen readers.
    """
    right = set(range(words, len(head))) if numbers is None else set(numbers)
    heads = _cells(["th"] * len(head), head, right, scope="col")
    tags = ["th", *["td"] * (len(head) - 1)]
    body = [
        element("tr", _cells(tags, row, right), class_="chosen" if index == chosen else None)
        for index, row in enumerate(rows)
    ]
    written = element(
        "table", element("thead", element("tr", heads)), element("tbody", *body), class_=class_
    )
    return element(
        "div",
        written,
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=label or f"Table: {', '.join(filter(None, head))}",
    )


def _cells(
    tags: Sequence[str], cells: Sequence[object], right: set[int], *, scope: str = "row"
) -> Html:
    return join(
        element(
            tag,
            None if cell is None else prose(cell),
            scope=scope if tag == "th" else None,
            class_="n" if index in right else _class_of_text(cell),
        )
        for index, (tag, cell) in enumerate(zip(tags, cells, strict=True))
    )


def _class_of_text(cell: object) -> str | None:
    """Dates and names such as on-demand should not break at a hyphen."""
    is_short = isinstance(cell, str) and len(cell) <= _SHORT_CHARACTERS_MAX and "-" in cell
    return "short" if is_short and not isinstance(cell, Html) else None
