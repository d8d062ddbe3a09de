"""`outlast doctor [FILE]`: check whether a cluster can run a workload."""

import textwrap
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from outlast.cli.cluster.connection import ConnectionFlags, connected
from outlast.cli.printing import Format, say, say_json, write_document
from outlast.cluster.roles import RoleName, role_yaml
from outlast.errors import OutlastError

JSON_VERSION = 1


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DoctorFlags(ConnectionFlags):
    """What to check."""

    overrides: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = ()
    """Override a key of the workload file, as key=value with dots for nested keys."""
    role: RoleName | None = None
    """Print the Role that these commands need, and check nothing."""
    format: Format = Format.TEXT
    """Output format."""


_DEFAULTS = DoctorFlags()


def doctor(
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    flags: DoctorFlags = _DEFAULTS,
) -> int:
    """Check whether a cluster can run a workload, and what to do if not.

    Each check is ok, warn, FAIL or unknown. What could not be found out is unknown, and never
    counts as ok. Changes nothing.

    Exits with 0 if no check failed, 1 if one did, 2 for wrong usage and 3 if the cluster does not
    answer.

    Parameters
    ----------
    file: str
        A workload file, a manifest, a folder of manifests, or -. Default: only the cluster itself.
    """
    if flags.role is not None:
        if file is not None:
            raise OutlastError("--role checks nothing.", hint="Leave out the file.")
        write_document(role_yaml(flags.role, flags.namespace or "default"))
        return 0
    return _examine(file, flags)


def _examine(file: str | None, flags: DoctorFlags) -> int:
    from outlast.cluster.checks.doctor import examine
    from outlast.cluster.checks.result import CheckOutcome, Subject
    from outlast.cluster.connection.google_cloud import gke_cluster_of
    from outlast.cluster.submitting.manifest_source import read_source

    source = read_source(file, flags.overrides) if file is not None else None
    with connected(flags) as cluster:
        if source is not None:
            source = source.with_namespace(cluster.namespace, given=flags.namespace)
        subject = Subject(
            cluster=cluster,
            namespace=flags.namespace or (source and source.namespace) or cluster.namespace,
            objects=source.objects if source else (),
            workload=source.workload if source else None,
            gke=gke_cluster_of(cluster.context),
        )
        if flags.format is Format.TEXT:
            say(f"cluster {cluster.context}, {cluster.server}")
        results = []
        for result in examine(subject):
            results.append(result)
            if flags.format is Format.TEXT:
                _print(result.outcome, result.text, result.next_step)
    counts = {outcome: sum(one.outcome is outcome for one in results) for outcome in CheckOutcome}
    if flags.format is Format.JSON:
        listed = [
            {"verdict": one.outcome, "text": one.text, "next_step": one.next_step}
            for one in results
        ]
        say_json({"version": JSON_VERSION, "context": cluster.context, "checks": listed}, indent=2)
    else:
        say(
            f"{counts[CheckOutcome.FAIL]} failed, {counts[CheckOutcome.WARN]} warnings, "
            f"{counts[CheckOutcome.UNKNOWN]} not known, {counts[CheckOutcome.OK]} ok."
        )
    return 1 if counts[CheckOutcome.FAIL] else 0


def _print(outcome: str, text: str, next_step: str) -> None:
    for start, part in ((f"  {outcome:8}", text), (" " * 10, next_step)):
        if part:
            lines = textwrap.wrap(part, 100, break_long_words=False, break_on_hyphens=False)
            for number, line in enumerate(lines):
                say((start if number == 0 else " " * 10) + line, flush=True)
