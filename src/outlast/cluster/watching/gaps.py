"""What a view lacks, and how to get it, in sentences. Pure."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from outlast.cluster.diagnosis.snapshot import Snapshot
from outlast.cluster.errors import ClusterError, is_forbidden, shown
from outlast.cluster.resources import Query
from outlast.cluster.roles import role_line, role_line_of
from outlast.cluster.runs.journals import JournalReading
from outlast.cluster.runs.target import RunTarget
from outlast.cluster.watching.wording import span

_MISSED = {
    "Event": "why it waits may not be known",
    "Node": "taints and sizes of nodes are not checked",
    "Workload": "what Kueue does is not shown",
    "ProvisioningRequest": "the state of requested nodes is not shown",
    "ComputeClass": "the state of compute classes is not shown",
    "JobSet": "the state of JobSets is not shown",
}


def source_gaps(ended: Mapping[Query, ClusterError]) -> Iterator[str]:
    """A sentence for each kind that cannot be followed."""
    for query, error in ended.items():
        missed = _MISSED.get(query.resource.kind, "part of the picture is missing")
        if is_forbidden(error):
            yield f"No permission for {query.resource}: {missed}. {role_line_of(query)}"
        else:
            said = shown(str(error), characters_max=200)
            yield f"{query.resource} cannot be followed: {missed}. {said}"


def log_gaps(problem: ClusterError | None) -> Iterator[str]:
    """A sentence if the program's log is needed and cannot be read."""
    if problem is None:
        return
    missed = "why the program fails may not be known"
    if is_forbidden(problem):
        yield f"No permission for pods/log: {missed}. {role_line('', 'pods/log', 'get')}"
    else:
        said = shown(str(problem), characters_max=200)
        yield f"The program's log cannot be read: {missed}. {said}"


def clock_gaps(skew: timedelta) -> Iterator[str]:
    """A sentence if the cluster's clock, which is `skew` ahead, is another one than this one's."""
    if skew:
        word = "behind" if skew > timedelta(0) else "ahead of"
        yield (
            f"The clock of this machine is {span(abs(skew.total_seconds()))} {word} the cluster's. "
            "Times are those of the cluster."
        )


def journal_gaps(
    reading: JournalReading | None, target: RunTarget, snapshot: Snapshot | None
) -> Iterator[str]:
    """What is missing from the journal, or why there is none."""
    if reading is None:
        stated = next((job.run_url for job in snapshot.jobs if job.run_url), "") if snapshot else ""
        where = (
            f"the Job saves to {shown(stated, characters_max=100)}, which is a path inside the Pod"
            if stated
            else "the Job does not state where it saves"
        )
        more = "" if target.file else " the workload file or"
        yield (
            f"No journal: {where}. Pass{more} --journal URL to see steps, lost work, cost and the "
            "finish."
        )
    elif reading.problem:
        age = "" if reading.read_at is None else f" Shown as of {reading.read_at:%H:%M:%S} UTC."
        said = shown(reading.problem, characters_max=300)
        yield f"The journal at {reading.url} cannot be read: {said}{age}"
    elif reading.read_at is not None and not reading.journals:
        yield f"No journal at {reading.url} yet: no attempt has started there."
    else:
        gaps = [gap for journal in reading.journals for gap in journal.gaps]
        if gaps:
            yield f"The journal has gaps ({'; '.join(gaps)}); figures are based on the rest."
