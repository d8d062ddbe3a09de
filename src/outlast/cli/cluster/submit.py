"""`outlast submit FILE`: apply a workload to a cluster."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from outlast.cli.cluster.connection import ConnectionFlags, connected
from outlast.cli.option_types import PositiveDuration
from outlast.cli.printing import Format, say, say_json
from outlast.cluster.errors import shown
from outlast.cluster.resources import Object, name_of, namespace_of, title_of
from outlast.cluster.submitting.manifest_source import ManifestSource, read_source
from outlast.cluster.submitting.submitting import Step, SubmitOptions, SubmitRefused
from outlast.cluster.submitting.submitting import submit as submit_objects
from outlast.cluster.submitting.waiting import WaitFor, WaitResult, wait_for
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast.cluster.connection.client import ClusterClient

JSON_VERSION = 1


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SubmitFlags(ConnectionFlags):
    """How to submit."""

    overrides: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = ()
    """Override a key of the workload file, as key=value with dots for nested keys."""
    dry_run: bool = False
    """Let the API server check everything, and change nothing."""
    setup: bool = False
    """Also apply cluster-wide objects, such as the namespace, priority class and Kueue's queues."""
    replace: bool = False
    """Delete and create again what has ended or cannot be changed. Runs resume."""
    wait: WaitFor | None = None
    """Wait until the work has started or finished."""
    timeout: PositiveDuration | None = None
    """Stop waiting after this time. The work goes on."""
    format: Format = Format.TEXT
    """Output format."""


_DEFAULTS = SubmitFlags()


def submit(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    flags: SubmitFlags = _DEFAULTS,
) -> int:
    """Apply a workload file or manifests to a cluster.

    Lints first, then lets the API server check every object, then applies them in order. Safe to
    repeat: what is already there stays as it is, and `suspend` is left to Kueue.

    Exits with 0 if everything was applied (and, with --wait, the work succeeded), 1 if the lint,
    the API server or the work failed, 2 for wrong usage and 3 if the cluster does not answer.

    Parameters
    ----------
    file: str
        A workload file, a manifest, a folder of manifests, or - for standard input.
    """
    if flags.timeout is not None and flags.wait is None:
        raise OutlastError("--timeout needs --wait.", hint="Add --wait finished.")
    if flags.dry_run and flags.wait is not None:
        raise OutlastError("A dry run starts nothing.", hint="Leave out --wait or --dry-run.")
    source = read_source(file, flags.overrides)
    if not passes_lint(source):
        return 1
    with connected(flags) as cluster:
        source = source.with_namespace(cluster.namespace, given=flags.namespace)
        steps = submitted(cluster, source, flags)
        result = _waited(cluster, steps, flags)
    if flags.format is Format.JSON:
        say_json(_as_json(steps, result, flags), indent=2)
    return 0 if result is None or result.is_success else 1


def passes_lint(source: ManifestSource) -> bool:
    """Print what the lint found. Whether there was no error."""
    for finding in source.findings:
        say(
            f"{finding.where}: {finding.severity.word} {finding.rule}: {finding.message}",
            file=sys.stderr,
        )
    if source.errors:
        say(
            f"error: The lint found {len(source.errors)} errors, so nothing was submitted.",
            file=sys.stderr,
        )
        say(f"hint:  {source.errors[0].hint}", file=sys.stderr)
    return not source.errors


def submitted(cluster: "ClusterClient", source: ManifestSource, flags: SubmitFlags) -> list[Step]:
    """Apply everything, and print each step."""
    options = SubmitOptions(setup=flags.setup, dry_run=flags.dry_run, replace=flags.replace)
    steps = []
    try:
        for step in submit_objects(cluster, source.objects, options):
            steps.append(step)
            if flags.format is Format.TEXT:
                _print_step(step, flags)
    except SubmitRefused as refused:
        for problem in refused.problems[1:]:
            say(f"error: {problem.text}\nhint:  {problem.hint}", file=sys.stderr)
        raise
    return steps


def _print_step(step: Step, flags: SubmitFlags) -> None:
    action = f"would be {step.action}" if flags.dry_run else step.action
    note = f" ({step.note})" if step.note else ""
    say(f"{step.title} {action}{note}", flush=True)


def _waited(cluster: "ClusterClient", steps: list[Step], flags: SubmitFlags) -> WaitResult | None:
    if flags.wait is None:
        return None
    found = [
        (cluster.find(step.item["apiVersion"], step.item["kind"]), step.item) for step in steps
    ]
    work = [(resource, item) for resource, item in found if resource is not None]
    seconds = None if flags.timeout is None else flags.timeout.total_seconds()
    try:
        result = wait_for(
            cluster,
            work,
            flags.wait,
            timeout_seconds=seconds,
            say=_say_progress,
            cut_streams=cluster.cut_streams,
        )
    except KeyboardInterrupt:
        say("Stopped waiting. The work goes on in the cluster.", file=sys.stderr)
        raise
    _print_result(result, [item for _, item in work], flags)
    return result


def _say_progress(text: str) -> None:
    say(text, file=sys.stderr, flush=True)


def _print_result(result: WaitResult, work: list[Object], flags: SubmitFlags) -> None:
    for title, ending in result.endings.items():
        word = "finished" if ending.is_success else f"failed ({ending.reason})"
        say(f"{title} {word}: {shown(ending.message)}", file=sys.stderr)
    for title in result.deleted:
        say(f"{title} was deleted while waiting for it.", file=sys.stderr)
    if result.is_late:
        say(f"error: Not {flags.wait} in time. The work goes on in the cluster.", file=sys.stderr)
        say(f"hint:  Use a longer --timeout, or see why: {_reason(result, work)}", file=sys.stderr)


def _reason(result: WaitResult, work: list[Object]) -> str:
    """The command that shows what the first unfinished object waits for."""
    for item in work:
        if item.get("kind") in ("Job", "JobSet") and title_of(item) not in result.endings:
            return f"outlast watch {name_of(item)} --namespace {namespace_of(item)}"
    return "kubectl describe deployment"


def _as_json(steps: list[Step], result: WaitResult | None, flags: SubmitFlags) -> dict[str, object]:
    objects = [
        {
            "kind": step.item.get("kind"),
            "name": name_of(step.item),
            "namespace": namespace_of(step.item),
            "action": step.action,
            "note": step.note,
        }
        for step in steps
    ]
    waited = None
    if result is not None:
        endings = {
            title: {"success": one.is_success, "reason": one.reason}
            for title, one in result.endings.items()
        }
        waited = {"success": result.is_success, "late": result.is_late, "endings": endings}
    return {
        "version": JSON_VERSION,
        "dry_run": flags.dry_run,
        "objects": objects,
        "waited": waited,
    }
