"""`outlast learn RUN_URL...`: what runs have measured, as a diff of the workload file."""

import json
from pathlib import Path

from outlast._base.durations import format_duration
from outlast.capacity.learn import Learned, Seen, changed_text, workload_diff
from outlast.capacity.learn import learn as learn_from
from outlast.capacity.workload import Workload
from outlast.cli.format import Format
from outlast.cli.journals import open_journal, seen_in
from outlast.errors import OutlastError


def learn(
    *urls: str,
    workload: Path | None = None,
    nodes: int = 1,
    format: Format = Format.TEXT,
) -> None:
    """Read the journals of runs and print what they measured, as the workload file takes it.

    Nothing is changed: apply the diff with `patch`, or copy what you like.

    Parameters
    ----------
    urls: str
        Runs: folders, or URLs such as gs://bucket/run. Several runs are taken together.
    workload: Path
        The workload file to compare with.
    nodes: int
        How many nodes each run had. Default: what the workload file says, or 1.
    format: Format
        text for people, json for programs.
    """
    if not urls:
        raise OutlastError("learn needs a run.", hint="See `outlast learn --help`.")
    text = None
    if workload is not None:
        nodes = Workload.read(workload).nodes
        text = workload.read_text(encoding="utf-8-sig")
    seen = seen_in([open_journal(url) for url in urls], nodes=nodes)
    learned = learn_from(seen)
    diff = None if text is None else workload_diff(text, learned, name=str(workload))
    if text is not None:
        # What is suggested must be a workload file again.
        Workload.parse(changed_text(text, learned, name=str(workload)), name=str(workload))
    if format is Format.JSON:
        print(json.dumps(_as_json(seen, learned, diff), indent=2))
        return
    print(_told(seen, learned))
    if diff is None:
        print("\nmeasured:")
        for key, value in learned.measured.items():
            print(f"  {key}: {value}")
    else:
        print(f"\n{diff}" if diff else "\nThe workload file says all of this already.")


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
