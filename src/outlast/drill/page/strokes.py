"""What the pictures with lines share: where evictions struck, what was lost, a legend. Pure."""

from collections.abc import Sequence

from outlast.drill.page.axes import Plot
from outlast.drill.page.markup import Html, element, join

MARKS_MAX = 80
"""More evictions than these would hide what they are to explain."""

_LABELS_MAX = 6

Place = tuple[float, float]


def uprights(plot: Plot, values: Sequence[float]) -> Html | None:
    """A thin line over the whole height at each of these places, if they are not too many."""
    if len(values) > MARKS_MAX:
        return None
    places = dict.fromkeys(map(plot.left, values))
    return join(
        element("line", x1=left, x2=left, y1=0, y2=plot.height, class_="gone") for left in places
    )


def lost_labels(plot: Plot, pieces: Sequence[Sequence[Place]], unit: str = "") -> Html:
    """How much was lost with the largest pieces, above their ends: there a rising line is not."""
    labels = []
    for piece in sorted(pieces, key=lambda one: one[0][1] - one[-1][1])[:_LABELS_MAX]:
        (_, low), (x, high) = piece[0], piece[-1]
        lost = f"{high - low:.1f} {unit}" if unit else f"{high - low:,.0f}"
        anchor = "end" if plot.x.share(x) > 0.1 else None
        top = plot.top(high) - 8
        labels.append(plot.said(x, top, f"\u2212{lost}", "lost", text_anchor=anchor))
    return join(labels)


def line_legend(*entries: tuple[bool, str, str]) -> Html:
    """The lines that are there: whether, how it is drawn, what it means."""
    items = [element("li", _stroke(name), words) for shown, name, words in entries if shown]
    return element("ul", *items, class_="legend")


def _stroke(class_: str) -> Html:
    ends = {"x1": 1, "x2": 19, "y1": 10, "y2": 10}
    if class_ == "gone":
        ends = {"x1": 10, "x2": 10, "y1": 2, "y2": 18}
    line = element("line", class_=class_, **ends)
    return element("svg", line, width=20, height=20, aria_hidden="true")
