"""Kinds of evictions: their descriptions, their symbols, and the legend of the timeline. Pure."""

from outlast.drills.run.records import Eviction, EvictionMoment, JobRun, SigtermHandling
from outlast.report import axes
from outlast.report.markup import Html, element

_MOMENTS = {
    EvictionMoment.START_UP: ("during startup", "aimed at startup"),
    EvictionMoment.SAVE: ("during a save", "aimed at a save"),
    EvictionMoment.LAST_SAVE: ("during the last save", "aimed at the last save"),
}
_CAUGHT = {
    SigtermHandling.CAUGHT: "yes",
    SigtermHandling.DEFAULT: "no handler",
    SigtermHandling.IGNORED: "ignored",
    SigtermHandling.UNKNOWN: "unknown",
}


def kind_of(eviction: Eviction) -> str:
    """A description such as `without notice, during a save`."""
    parts = [] if eviction.node is None else [f"node {eviction.node}"]
    parts.append("with notice" if eviction.notice else "without notice")
    if eviction.moment in _MOMENTS:
        hit, missed = _MOMENTS[eviction.moment]
        parts.append(hit if eviction.hit else missed)
    if eviction.overlap:
        parts.append("overlapping replacement")
    return ", ".join(parts)


def was_caught(eviction: Eviction) -> str:
    """Whether the program caught SIGTERM."""
    return _CAUGHT[eviction.handling]


def end_of(eviction: Eviction) -> str:
    """How the attempt ended, such as `exited after 0.11 s`."""
    if not eviction.notice:
        return "killed" if eviction.killed else f"exited first, code {eviction.exit_code}"
    verb = "killed" if eviction.killed else "exited"
    return f"{verb} after {eviction.left_seconds:.2f} s"


def is_hostile(eviction: Eviction) -> bool:
    return eviction.moment is not EvictionMoment.ANY


def definitions() -> Html:
    """The symbols, defined once for all charts of the page."""
    cross = element("path", d="M-6-4l2-2 4 4 4-4 2 2-4 4 4 4-2 2-4-4-4 4-2-2 4-4z")
    shapes = {
        "notice": element("path", d="M-5.5-5h11L0 5.5z", class_="sign notice"),
        "no-notice": element("g", cross, class_="sign no-notice"),
        "hostile": element("circle", r=9, class_="ring"),
        "overlap": element("path", d="M-5-13h3v6h-3zM2-13h3v6h-3z", class_="twin"),
    }
    groups = [element("g", shape, id=f"s-{name}") for name, shape in shapes.items()]
    hidden = {"width": 0, "height": 0, "aria_hidden": "true", "style": "position:absolute"}
    return element("svg", element("defs", *groups), class_="plot", **hidden)


def symbols(eviction: Eviction, left: str, top: float) -> Html:
    """The symbols of an eviction, with its description as a tooltip."""
    names = ["notice" if eviction.notice else "no-notice"]
    names += ["hostile"] if is_hostile(eviction) else []
    names += ["overlap"] if eviction.overlap else []
    words = f"Eviction {eviction.number} at {eviction.at_seconds:.2f} s: {kind_of(eviction)}; "
    words += f"{end_of(eviction)}."
    used = [element("use", href=f"#s-{name}", x=left, y=top) for name in names]
    return element("g", element("title", words), *used)


def legend(job_run: JobRun, *, is_crowded: bool) -> Html:
    """The meaning and number of each symbol that occurs.

    A crowded timeline has columns instead of symbols.
    """
    evictions, saves = job_run.evictions, len(job_run.saves)
    with_notice = sum(one.notice for one in evictions)
    without_notice = len(evictions) - with_notice
    hostile = sum(map(is_hostile, evictions))
    overlaps = sum(one.overlap for one in evictions)

    def sign(name: str, swatch: str | None = None) -> Html | None:
        if not is_crowded:
            return _symbol(name)
        return None if swatch is None else _swatch(swatch)

    entries = [
        (True, _swatch("work"), "running"),
        (not is_crowded, _swatch("start"), "starting"),
        (with_notice > 0 and not is_crowded, _swatch("grace"), "grace period"),
        (with_notice > 0, sign("notice", "grace"), f"evicted with notice: {with_notice:,}"),
        (without_notice > 0, sign("no-notice", "lost"), f"without notice: {without_notice:,}"),
        (hostile > 0, sign("hostile"), f"of these at a bad moment: {hostile:,}"),
        (overlaps > 0, sign("overlap"), f"overlapping replacement: {overlaps:,}"),
        (saves > 0, None if is_crowded else _stroke(), f"file written: {saves:,}"),
    ]
    return axes.legend((mark, words) for shown, mark, words in entries if shown)


def _swatch(name: str) -> Html:
    return _mark(element("rect", x=-7, y=-5, width=14, height=10, class_=f"bar {name}"))


def _symbol(name: str) -> Html:
    # The symbol of a replacement is drawn above the bar.
    return _mark(element("use", href=f"#s-{name}", y=10 if name == "overlap" else None))


def _stroke() -> Html:
    return _mark(element("line", x1=0, x2=0, y1=-6, y2=6, class_="tick"))


def _mark(shape: Html) -> Html:
    size = {"width": 20, "height": 20, "viewBox": "-10 -10 20 20", "aria_hidden": "true"}
    return element("svg", shape, **size)
