"""`outlast learn RUN_URL...`: what runs have measured, as a diff of the workload file."""

import json
import os
import sys
from pathlib import Path

from outlast._base.durations import format_duration
from outlast.capacity.learn import Learned, Seen, changed_text, workload_diff
from outlast.capacity.learn import learn as learn_from
from outlast.capacity.workload import Workload
from outlast.cli.format import Format
from outlast.cli.journals import node_count, open_journal, seen_in
from outlast.errors import OutlastError


def learn(
    *urls: str,
    workload: Path | None = None,
    nodes: int | None = None,
    format: Format = Format.TEXT,
) -> None:
    """Read the journals of runs and print what they measured, as the workload file takes it.

    Nothing is changed: apply the diff with `patch -p0`, or copy what you like.

    Parameters
    ----------
    urls: str
        Runs: folders, or URLs such as gs://bucket/run. Several runs are taken together, each of
        them once.
    workload: Path
        The workload file to compare with.
    nodes: int
        How many nodes each run had. Default: what the workload file says, or 1.
    format: Format
        text for people, json for programs.
    """
    if not urls:
        raise OutlastError("learn needs a run.", hint="See `outlast learn --help`.")
    described = None if workload is None else Workload.read(workload)
    nodes = node_count(nodes, described)
    journals = {journal.url: journal for journal in map(open_journal, urls)}
    seen = seen_in(list(journals.values()), nodes=nodes)
    learned = learn_from(seen)
    diff = None if workload is None else _diff(workload, learned)
    if format is Format.JSON:
        print(json.dumps(_as_json(seen, learned, diff), indent=2))
        return
    print(_told(seen, learned) + "\n")
    if diff is None:
        print("\n".join(_block(learned)))
    elif diff:
        # Not `print`, which would end the lines of the file in its own way.
        sys.stdout.write(diff)
    else:
        print("The workload file says all of this already.")


def _diff(workload: Path, learned: Learned) -> str | None:
    """The diff of the file; None if it has to be changed by hand, which is told on stderr."""
    text = workload.read_bytes().decode("utf-8-sig")
    changed = changed_text(text, learned, name=str(workload))
    if changed is None:
        print(
            f"warning: {workload} is written in a way that no diff can be made for. "
            "Put the figures into it by hand.",
            file=sys.stderr,
        )
        return None
    # What is suggested must be a workload file again.
    Workload.parse(changed, name=f"{workload}, as measured")
    path, here = Path(os.path.normpath(workload.absolute())), Path.cwd()
    # `patch` takes no path that leads out of the folder it is called in.
    name = path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
    return workload_diff(text, changed, name=name.as_posix())


def _block(learned: Learned) -> list[str]:
    """The figures as parts of a workload file."""
    lines = [f"  {key}: {value}" for key, value in learned.measured.items()]
    if lines:
        lines = ["measured:", *lines]
    if learned.size is not None:
        lines += ["checkpoint:", f"  size: {learned.size}"]
    return lines


def _told(seen: Seen, learned: Learned) -> str:
    lines = [
        f"In {format_duration(seen.running_seconds)} of running: {seen.interruptions} "
        f"interruptions, {seen.announced + seen.missed} announced, of which {seen.missed} lost "
        f"work, and {seen.unannounced} without a notice; {len(seen.costs)} saves.",
    ]
    if seen.interruptions == 0:
        lines.append("Without an interruption, the time between them stays an assumption.")
    seconds = learned.interval.seconds
    if seconds is not None:
        lines.append(
            f"Suggested interval: {format_duration(seconds)} of work ({learned.interval.why})."
        )
    return "\n".join(lines)


def _as_json(seen: Seen, learned: Learned, diff: str | None) -> dict[str, object]:
    return {
        "running_seconds": seen.running_seconds,
        "interruptions": {
            "announced": seen.announced + seen.missed,
            "missed": seen.missed,
            "unannounced": seen.unannounced,
        },
        "saves": len(seen.costs),
        "size_bytes": learned.size_bytes,
        "measured": learned.measured,
        "interval_seconds": learned.interval.seconds,
        "diff": diff,
    }
