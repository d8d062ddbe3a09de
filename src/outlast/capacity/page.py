"""One HTML page for a report: its own style, no script, nothing from outside, all escaped.

Text is plain, but for `commands` between backticks.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape

from outlast.capacity.drawing import STYLE

_PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; }
:root { --faint: #d9dde3; --paper: #ffffff; --mark: #eef3fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --faint: #3a4048; --paper: #16181b; --mark: #1f2a38; }
}
body { margin: 0 auto; max-width: 52rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
body { color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: left; padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid var(--faint); }
td, th { overflow-wrap: normal; }
td.number, th.number { text-align: right; white-space: nowrap; }
td:first-child:has(+ .number) { white-space: nowrap; }
tr.chosen { background: var(--mark); } .note { opacity: 0.8; font-size: 0.9rem; }
"""
_COMMAND = re.compile(r"`([^`]+)`")


def page(title: str, parts: Iterable[str]) -> str:
    """A whole page. `parts` are HTML already; the title is text."""
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{_PAGE_STYLE}{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def heading(text: str) -> str:
    return f"<h2>{_inline(text)}</h2>"


def paragraph(text: str) -> str:
    return f"<p>{_inline(text)}</p>"


def note(text: str) -> str:
    return f'<p class="note">{_inline(text)}</p>'


def listing(items: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{_inline(item)}</li>" for item in items) + "\n</ul>"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: int = 1,
    chosen: int | None = None,
) -> str:
    """A table whose first `words` columns are text and whose others are figures."""
    lines = [_row(head, "th", words)]
    for index, row in enumerate(rows):
        lines.append(_row(row, "td", words, is_chosen=index == chosen))
    return '<div class="scroll"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _row(cells: Sequence[str], tag: str, words: int, *, is_chosen: bool = False) -> str:
    def cell(index: int, text: str) -> str:
        kind = "" if index < words else ' class="number"'
        return f"<{tag}{kind}>{_inline(text)}</{tag}>"

    mark = ' class="chosen"' if is_chosen else ""
    return f"<tr{mark}>{''.join(cell(index, text) for index, text in enumerate(cells))}</tr>"


def _inline(text: str) -> str:
    return _COMMAND.sub(r"<code>\1</code>", escape(text))
