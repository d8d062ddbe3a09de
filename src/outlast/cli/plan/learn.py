"""`outlast learn RUN_URL...`: measurements from runs, as a diff of the workload file."""

import os
import sys
from pathlib import Path

from outlast._base.durations import format_duration
from outlast._redact import redact_excerpt
from outlast.capacity.planning.learn import (
    LearnedValues,
    RunMeasurements,
    changed_text,
    workload_diff,
)
from outlast.capacity.planning.learn import learn as learn_from
from outlast.cli.option_types import WholeNumber
from outlast.cli.plan.journals import open_journal_with_warning
from outlast.cli.printing import Format, say, say_json, write_document
from outlast.errors import OutlastError
from outlast.measured import measurements_in, node_count


def learn(
    *urls: str,
    workload: Path | None = None,
    nodes: WholeNumber | None = None,
    format: Format = Format.TEXT,
) -> None:
    """Turn measurements from past runs into values for the workload file.

    Nothing is changed: apply the diff with `patch -p0`, or copy the values.

    Parameters
    ----------
    urls: str
        Runs to combine: folders, or URLs such as gs://bucket/run. Duplicates count once.
    workload: Path
        Workload file to compare with.
    nodes: int
        Number of nodes of each run. Default: as in the workload file, or 1.
    format: Format
        Output format.
    """
    if not urls:
        raise OutlastError("No run given.", hint="See `outlast learn --help`.")
    described = None
    if workload is not None:
        # Needs packages that the rest of this command does without.
        from outlast.capacity.workload.file import Workload

        described = Workload.read(workload)
    nodes = node_count(nodes, described)
    journals = {journal.url: journal for journal in map(open_journal_with_warning, urls)}
    found = measurements_in(list(journals.values()), nodes=nodes)
    learned = learn_from(found)
    if doubt := found.doubt:
        say(f"warning: {doubt}", file=sys.stderr)
    diff = None if workload is None else _diff(workload, learned)
    if format is Format.JSON:
        say_json(_as_json(found, learned, diff), indent=2)
    else:
        say(_summary(found, learned) + "\n")
        _print_values(learned, diff)


def _print_values(learned: LearnedValues, diff: str | None) -> None:
    if diff is None:
        say("\n".join(_block(learned)))
    elif diff:
        # Not `print`, which would change the line endings of the file.
        write_document(diff)
    else:
        say("The workload file is already up to date.")


def _diff(workload: Path, learned: LearnedValues) -> str | None:
    """The diff of the file; None if it has to be edited by hand, with a warning on stderr."""
    text = workload.read_bytes().decode("utf-8-sig")
    changed = changed_text(text, learned, name=str(workload))
    if changed is None:
        say(
            f"warning: Could not make a diff for the YAML in {workload}. Copy the values by hand.",
            file=sys.stderr,
        )
        return None
    from outlast.capacity.workload.file import Workload

    # The result must be a valid workload file.
    Workload.parse(changed, name=f"{workload} with measurements")
    path, here = Path(os.path.normpath(workload.absolute())), Path.cwd()
    # `patch` refuses paths outside the current folder.
    name = path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
    return redact_excerpt(workload_diff(text, changed, name=name.as_posix()), text, changed)


def _block(learned: LearnedValues) -> list[str]:
    """The values as sections of a workload file."""
    lines = [f"  {key}: {value}" for key, value in learned.measured.items()]
    if lines:
        lines = ["measured:", *lines]
    if learned.size is not None:
        lines += ["checkpoint:", f"  size: {learned.size}"]
    return lines


def _summary(found: RunMeasurements, learned: LearnedValues) -> str:
    lines = [
        f"Running time: {format_duration(found.running_seconds)}. Saves: {len(found.costs)}. "
        f"Interruptions: {found.interruptions} ({found.announced + found.missed} announced, "
        f"{found.missed} of those lost work; {found.unannounced} without notice).",
    ]
    if found.interruptions == 0:
        lines.append(
            "No interruptions were observed, so the time between them remains an assumption."
        )
    seconds = learned.interval.seconds
    if seconds is not None:
        lines.append(
            f"Suggested interval: {format_duration(seconds)} of work ({learned.interval.why})."
        )
    return "\n".join(lines)


def _as_json(found: RunMeasurements, learned: LearnedValues, diff: str | None) -> dict[str, object]:
    return {
        "running_seconds": found.running_seconds,
        "interruptions": {
            "announced": found.announced + found.missed,
            "missed": found.missed,
            "unannounced": found.unannounced,
        },
        "saves": len(found.costs),
        "size_bytes": learned.size_bytes,
        "measured": learned.measured,
        "interval_seconds": learned.interval.seconds,
        "warning": found.doubt,
        "diff": diff,
    }
