"""The reference page of the causes, generated from their table and fixtures."""

from collections.abc import Iterator

from outlast.cluster.diagnosis.engine import all_causes
from tests.unit.cluster.snapshots import Case, all_cases

_INTRODUCTION = """# Causes

Why a run waits in a cluster, and how its attempts end. The sentences are examples, from the test
fixtures; names and numbers are those of the cluster. A text that is not in this table is shown as
the cluster has it, and is not explained.

A diagnosis names one cause: the first that applies, in this order: the Job has failed; it is
suspended; its Pods cannot be created; they are gated; no node takes them; no Pod exists; containers
do not start; volumes cannot be mounted. A warning counts only until a newer normal event, and only
if it is not from before the Pod had its node."""


def causes_page() -> str:
    """The page docs/reference/cluster-causes.md."""
    examples: dict[str, Case] = {}
    for case in all_cases():
        if not case.is_near_miss:
            examples.setdefault(case.id, case)
    parts = [_INTRODUCTION]
    for title, letter in (("Why a run waits", "P"), ("How an attempt ends", "E")):
        parts += ["", f"## {title}", "", "| cause | seen in | example | next step |"]
        parts += ["|---|---|---|---|", *_rows(letter, examples)]
    return "\n".join([*parts, ""])


def _rows(letter: str, examples: dict[str, Case]) -> Iterator[str]:
    for cause in all_causes():
        if cause.id.startswith(letter):
            expect = examples[cause.id].expect
            cells = (f"{cause.id} {cause.title}", cause.seen_in, expect["summary"])
            row = " | ".join(cell.replace("|", "\\|") for cell in (*cells, expect["next_step"]))
            yield f"| {row} |"
