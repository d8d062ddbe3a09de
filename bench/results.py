"""The file of results: one section per topic, each with the machine that measured it. Pure."""

TOPICS = (
    "guard",
    "exec",
    "checkpoint",
    "restore",
    "scale",
    "objects",
    "housekeeping",
    "ranks",
    "integrations",
    "queue",
    "queue_scale",
    "worker",
    "drill",
    "lint",
    "capacity",
    "cluster",
)

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
