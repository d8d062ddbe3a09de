"""The file of results: one section per topic, each with the machine that measured it. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Topic(NamedTuple):
    """How long a topic may take, and the arguments of its report in a quick run."""

    minutes_max: int
    quick: Mapping[str, Any] = MappingProxyType({})


TOPICS = {
    "guard": Topic(5),
    "exec": Topic(5),
    "checkpoint": Topic(60, {"rounds": 1, "size_mib": 64}),
    "restore": Topic(60, {"rounds": 1, "size_mib": 64, "sizes_mib": (128,)}),
    "scale": Topic(60, {"only": ("many small",)}),
    "objects": Topic(90, {"rounds": 1, "size_mib": 64}),
    "housekeeping": Topic(30, {"rounds": 1}),
    "ranks": Topic(60, {"rounds": 1, "size_mib": 16, "notices": 3}),
    "rank_costs": Topic(10, {"calls": 10}),
    "integrations": Topic(30),
    "queue": Topic(90, {"rounds": 1, "chunks": (100,)}),
    "queue_scale": Topic(60, {"many": 200_000, "rounds": 10}),
    "worker": Topic(20, {"items": 1_000, "rounds": 1}),
    "drill": Topic(30, {"rounds": 1, "cost_rounds": 1}),
    "lint": Topic(30),
    "capacity": Topic(60),
    "cluster": Topic(20, {"idle_seconds": 5.0, "drawings": 5}),
}

HEAD = "# Results\n\nWritten by `make bench`: medians of interleaved rounds. Read the ratios.\n"


def replaced(text: str, topic: str, section: str) -> str:
    """The file with the section of one topic put in, in the order of the topics."""
    sections = _sections(text) | {topic: section.strip()}
    parts = [f"<!-- {name} -->\n\n{sections[name]}\n" for name in TOPICS if name in sections]
    return "\n".join([HEAD, *parts])


def _sections(text: str) -> dict[str, str]:
    found = {}
    for part in text.split("<!-- ")[1:]:
        name, _, body = part.partition(" -->")
        found[name] = body.strip()
    return found
