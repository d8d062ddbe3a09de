"""`outlast logs RUN`: the logs of a run, from Pod to Pod."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from outlast._base.terminal import escaped
from outlast.cli.cluster.connection import ConnectionFlags, connected
from outlast.cli.cluster.runs import selected
from outlast.cli.option_types import WholeNumber
from outlast.cli.printing import say
from outlast.cluster.diagnosis.facts import PodFact
from outlast.cluster.errors import ClusterError
from outlast.cluster.runs.logs import LogFollower, LogLine, newest_pods, pods_of, read_log
from outlast.cluster.runs.selection import RunSelection
from outlast.cluster.runs.target import RunTarget, reachable_url, read_target
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast.cluster.connection.client import ClusterClient


class NoLog(ClusterError):
    """There is no log to print: no Pod has started, or it is gone."""

    exit_code = 1


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LogsFlags(ConnectionFlags):
    """Which logs to print."""

    follow: Annotated[bool, Parameter(name=("--follow", "-f"), negative=())] = False
    """Keep printing, and continue with the next Pod when one ends, until the run has ended."""
    attempt: WholeNumber | None = None
    """Print the log of this attempt, as numbered by `outlast watch`, if its Pod still exists."""
    tail: WholeNumber | None = None
    """Start with at most this many lines of each Pod. Default: all."""
    journal: str | None = None
    """Where the run saves, for --attempt. Default: as in the file or the Job."""


_DEFAULTS = LogsFlags()


def logs(run: str, /, *, flags: LogsFlags = _DEFAULTS) -> int:
    """Print the logs of a run, and follow them from Pod to Pod.

    Lines of several Pods at the same time start with the name of their Pod. Escape sequences are
    shown as text on a terminal, and unchanged if the output is piped.

    Exits with 0, or with 1 if there is no log, 2 for wrong usage and 3 if the cluster does not
    answer.

    Parameters
    ----------
    run: str
        The name of a run, its workload file or manifest, or its URL, such as gs://bucket/run.
    """
    if flags.follow and flags.attempt is not None:
        raise OutlastError("--attempt prints one Pod.", hint="Leave out --follow or --attempt.")
    target = read_target(run, journal=flags.journal)
    with connected(flags) as client:
        selection = selected(client, target, flags)
        if flags.follow:
            _follow(client, selection, flags)
            return 0
        pods = _chosen(client, selection, target, flags)
        for pod in pods:
            _print(read_log(client, pod, tail=flags.tail), has_names=len(pods) > 1)
    return 0


def _follow(client: "ClusterClient", selection: RunSelection, flags: LogsFlags) -> None:
    follower = LogFollower(client, selection, tail=flags.tail, cut_streams=client.cut_streams)
    with follower:
        _print(follower.lines(), has_names=None)


def _chosen(
    client: "ClusterClient", selection: RunSelection, target: RunTarget, flags: LogsFlags
) -> list[PodFact]:
    pods = pods_of(client, selection)
    if flags.attempt is not None:
        return [_of_attempt(client, selection, target, pods, flags.attempt)]
    found = newest_pods(pods)
    if not found:
        raise NoLog(
            f"No Pod of {selection.name!r} has started yet, so there is no log.",
            hint=f"See why: outlast watch {selection.name}",
        )
    return found


def _of_attempt(
    client: "ClusterClient",
    selection: RunSelection,
    target: RunTarget,
    pods: list[PodFact],
    attempt: int,
) -> PodFact:
    from outlast.cluster.diagnosis.facts import job_fact
    from outlast.cluster.runs.journals import JournalReader, JournalReading

    jobs = [job_fact(item) for item in client.list(selection.jobs)]
    stated = next((reachable_url(job.run_url) for job in jobs if job.run_url), "")
    url = target.url or stated
    if not url:
        raise OutlastError(
            "Attempts are numbered by the journal, which was not found.",
            hint="Pass --journal URL or the workload file.",
        )
    reading = JournalReader(url).look(JournalReading(url=url))
    found = [
        one
        for journal in reading.journals
        for one in journal.summary.attempts
        if one.attempt == attempt
    ]
    if not found:
        raise OutlastError(
            f"The journal at {url} has no attempt {attempt}.",
            hint=reading.problem or "`outlast watch` lists the attempts.",
        )
    uids = {one.place.pod_uid for one in found}
    pod = next((pod for pod in pods if pod.uid in uids), None)
    if pod is None:
        name = found[0].place.pod or "unknown"
        raise NoLog(
            f"The Pod of attempt {attempt} ({name}) is gone, and its log with it.",
            hint=f"Cloud Logging may have it: gcloud logging read resource.labels.pod_name={name}",
        )
    return pod


def _print(lines: Iterable[LogLine], *, has_names: bool | None) -> None:
    """Print lines with the name of their Pod if there are several at the same time."""
    is_terminal = sys.stdout.isatty()
    last = ""
    for line in lines:
        if line.note:
            say(f"--- {line.note}", file=sys.stderr, flush=True)
            last = line.pod
            continue
        # Two Pods take turns only if they run at the same time.
        has_names = True if has_names is None and line.pod != last else has_names
        name = f"[{line.pod}] ".encode() if has_names else b""
        data = name + line.data
        if is_terminal:
            sys.stdout.write(escaped(data.decode(errors="replace"), keep="\t") + "\n")
            sys.stdout.flush()
        else:
            sys.stdout.buffer.write(data + b"\n")
            sys.stdout.buffer.flush()
