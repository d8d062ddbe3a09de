"""Kinds of evictions: their words, their signs, and the legend that explains them. Pure."""

from outlast.drill.page.markup import Html, element, join
from outlast.drill.records import Eviction, Handling, Leg, Moment

_MOMENTS = {
    Moment.START_UP: ("in its start-up", "aimed at its start-up"),
    Moment.SAVE: ("in a save", "aimed at a save"),
    Moment.LAST_SAVE: ("in its last save", "aimed at its last save"),
}
_HEARD = {
    Handling.CAUGHT: "yes",
    Handling.DEFAULT: "no handler",
    Handling.IGNORED: "ignored",
    Handling.UNKNOWN: "not known",
}


def kind_of(eviction: Eviction) -> str:
    """Such as `without notice, in a save`."""
    parts = ["with notice" if eviction.notice else "without notice"]
    if eviction.moment in _MOMENTS:
        hit, missed = _MOMENTS[eviction.moment]
        parts.append(hit if eviction.hit else missed)
    if eviction.overlap:
        parts.append("replacement beside it")
    return ", ".join(parts)


def heard_by(eviction: Eviction) -> str:
    """Whether the program heard a notice."""
    return _HEARD[eviction.handling]


def end_of(eviction: Eviction) -> str:
    """How the attempt went, such as `left after 0.11 s`."""
    if not eviction.notice:
        return "killed" if eviction.killed else f"ended first, exit {eviction.exit_code}"
    verb = "killed" if eviction.killed else "left"
    return f"{verb} after {eviction.left_seconds:.2f} s"


def is_hostile(eviction: Eviction) -> bool:
    return eviction.moment is not Moment.ANY


def definitions() -> Html:
    """The signs, to be used by all pictures of the page."""
    told = element("path", d="M-5.5-5h11L0 5.5z", class_="sign told")
    silent = element("path", d="M-6-4l2-2 4 4 4-4 2 2-4 4 4 4-2 2-4-4-4 4-2-2 4-4z")
    shapes = {
        "told": told,
        "silent": element("g", silent, class_="sign silent"),
        "hostile": element("circle", r=9, class_="ring"),
        "beside": element("path", d="M-5-13h3v6h-3zM2-13h3v6h-3z", class_="twin"),
    }
    groups = [element("g", shape, id=f"s-{name}") for name, shape in shapes.items()]
    hidden = {"width": 0, "height": 0, "aria_hidden": "true", "style": "position:absolute"}
    return element("svg", element("defs", *groups), **hidden)


def signs(eviction: Eviction, left: str, top: float) -> Html:
    """The signs of an eviction, with its words to be read when pointed at."""
    names = ["told" if eviction.notice else "silent"]
    names += ["hostile"] if is_hostile(eviction) else []
    names += ["beside"] if eviction.overlap else []
    words = f"Eviction {eviction.number} at {eviction.at_seconds:.2f} s: {kind_of(eviction)}; "
    words += f"{end_of(eviction)}."
    used = [element("use", href=f"#s-{name}", x=left, y=top) for name in names]
    return element("g", element("title", words), *used)


def legend(leg: Leg, *, is_crowded: bool) -> Html:
    """What the signs mean and how often they are there; signs that are not there are left out.

    A crowded picture has columns in the place of signs.
    """
    evictions, saves = leg.evictions, len(leg.saves)
    told = sum(one.notice for one in evictions)
    silent = len(evictions) - told
    hostile = sum(map(is_hostile, evictions))
    beside = sum(one.overlap for one in evictions)

    def sign(name: str, swatch: str | None = None) -> Html | None:
        if not is_crowded:
            return _sign(name)
        return None if swatch is None else _swatch(swatch)

    entries = [
        (True, _swatch("work"), "running"),
        (not is_crowded, _swatch("start"), "starting up"),
        (told > 0 and not is_crowded, _swatch("grace"), "told to stop"),
        (told > 0, sign("told", "grace"), f"evicted with notice: {told:,}"),
        (silent > 0, sign("silent", "lost"), f"without notice: {silent:,}"),
        (hostile > 0, sign("hostile"), f"of these at a bad moment: {hostile:,}"),
        (beside > 0, sign("beside"), f"replacement started beside it: {beside:,}"),
        (saves > 0, None if is_crowded else _stroke(), f"something was written: {saves:,}"),
    ]
    items = [element("li", mark, words) for shown, mark, words in entries if shown]
    return element("ul", *items, class_="legend")


def _swatch(name: str) -> Html:
    return _mark(element("rect", x=-7, y=-5, width=14, height=10, class_=f"bar {name}"))


def _sign(name: str) -> Html:
    # That of a replacement stands above a bar, where there is one.
    return _mark(element("use", href=f"#s-{name}", y=10 if name == "beside" else None))


def _stroke() -> Html:
    return _mark(element("line", x1=0, x2=0, y1=-6, y2=6, class_="tick"))


def _mark(shape: Html) -> Html:
    size = {"width": 20, "height": 20, "viewBox": "-10 -10 20 20", "aria_hidden": "true"}
    return element("svg", join([shape]), **size)
