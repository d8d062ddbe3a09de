"""`outlast resume RUN`: continue a stopped run, on another tier if wanted."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from outlast.capacity.vocabulary import Tier
from outlast.cli.cluster.connection import ConnectionFlags, connected
from outlast.cli.cluster.runs import selected
from outlast.cli.cluster.stop import print_change
from outlast.cli.cluster.submit import SubmitFlags, passes_lint, submitted
from outlast.cli.printing import Format, say, say_json
from outlast.cluster.runs.stopping import Change, ChangedObject, resume_run
from outlast.cluster.runs.target import RunTarget, read_target
from outlast.cluster.submitting.manifest_source import read_source
from outlast.cluster.submitting.submitting import Step
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast.cluster.connection.client import ClusterClient

JSON_VERSION = 1


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ResumeFlags(ConnectionFlags):
    """How to resume."""

    tier: Tier | None = None
    """Continue on this tier: deletes the Job and submits it again. Needs the workload file."""
    dry_run: bool = False
    """Show what would be done, and change nothing."""
    format: Format = Format.TEXT
    """Output format."""


_DEFAULTS = ResumeFlags()


def resume(run: str, /, *, flags: ResumeFlags = _DEFAULTS) -> int:
    """Continue a stopped run from its newest checkpoint.

    Resumes the Job or JobSet, or activates its Workload if Kueue manages it. With --tier, the Job
    is deleted, which gives a running Pod its grace period to save, and submitted again. Safe to
    repeat: if it is killed in between, run it again.

    Exits with 0 if the run continues, 1 if it has ended or was refused, 2 for wrong usage and 3 if
    the cluster does not answer.

    Parameters
    ----------
    run: str
        The name of a run, its workload file or manifest, or its URL, such as gs://bucket/run.
    """
    target = read_target(run)
    if flags.tier is not None and target.workload is None:
        raise OutlastError(
            "--tier needs the workload file, which the run is rendered from again.",
            hint=f"For example: outlast resume workload.yaml --tier {flags.tier}",
        )
    steps: list[Step] = []
    with connected(flags) as client:
        if flags.tier is not None:
            moved = _moved(client, target, flags)
            if moved is None:
                return 1
            steps = moved
        is_new = flags.dry_run and any(step.action in ("created", "replaced") for step in steps)
        changes = [] if is_new else _resumed(client, target, flags)
    if flags.format is Format.JSON:
        say_json(_as_json(steps, changes, flags), indent=2)
    return _report(changes, flags)


def _resumed(client: "ClusterClient", target: RunTarget, flags: ResumeFlags) -> list[ChangedObject]:
    selection = selected(client, target, flags)
    changes = []
    for change in resume_run(client, selection, dry_run=flags.dry_run):
        changes.append(change)
        if flags.format is Format.TEXT:
            print_change(change, dry_run=flags.dry_run)
    return changes


def _moved(client: "ClusterClient", target: RunTarget, flags: ResumeFlags) -> list[Step] | None:
    """Submit the workload with another tier, replacing what cannot be changed."""
    source = read_source(target.file, [f"tier={flags.tier}"])
    if not passes_lint(source):
        return None
    source = source.with_namespace(client.namespace, given=flags.namespace)
    options = SubmitFlags(dry_run=flags.dry_run, replace=True, format=flags.format)
    return submitted(client, source, options)


def _report(changes: list[ChangedObject], flags: ResumeFlags) -> int:
    ended = [one for one in changes if one.change is Change.ENDED]
    if flags.format is Format.TEXT and ended:
        hint = "`outlast submit FILE --replace` runs it again from its newest checkpoint."
        say(f"Nothing to resume. {hint}")
    return 1 if ended and len(ended) == len(changes) else 0


def _as_json(
    steps: list[Step], changes: list[ChangedObject], flags: ResumeFlags
) -> dict[str, object]:
    objects = [{"title": one.title, "change": one.action.value, "note": one.note} for one in steps]
    objects += [
        {"title": one.title, "change": one.change.value, "note": one.note} for one in changes
    ]
    return {"version": JSON_VERSION, "dry_run": flags.dry_run, "objects": objects}
