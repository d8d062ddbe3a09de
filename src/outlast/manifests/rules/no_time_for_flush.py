"""The grace period leaves the Cloud Storage FUSE sidecar no time to flush.

Why: a bucket that is mounted with Cloud Storage FUSE is written by a sidecar. The sidecar stops
after the program, within the same grace period, and may still hold the program's last writes. If
preStop and the program use up the grace period, the sidecar is killed and these writes are lost.
Instead: reserve 3 s for the sidecar: set OUTLAST_GRACE_SECONDS at least 3 s below both
terminationGracePeriodSeconds and the 15 s that a reclaimed Spot node allows, and keep preStop
short. Or save to the bucket by its gs:// URL, without FUSE.
"""

import re
from collections.abc import Iterator

from outlast.manifests.rules.api import (
    GRACE_SECONDS_DEFAULT,
    Container,
    Fault,
    Mount,
    Path,
    Pod,
    Review,
    Severity,
    fuse_volumes,
    pod_rule,
)

FLUSH_SECONDS = 3
_GRACE_VARIABLE = "OUTLAST_GRACE_SECONDS"
_PROGRAM_SECONDS_DEFAULT = 15.0
"""What Outlast uses if that variable is not set."""


@pod_rule("OL406", Severity.WARNING)
def no_time_for_flush(pod: Pod, review: Review) -> Iterator[Fault]:
    buckets = {volume.name for volume in fuse_volumes(pod, review)}
    given = GRACE_SECONDS_DEFAULT if pod.grace_seconds is None else pod.grace_seconds
    if buckets and review.placement(pod).includes_spot:
        given = min(given, review.window_seconds(pod))
    for container in pod.containers:
        hook = container.integer("lifecycle", "preStop", "sleep", "seconds") or 0
        # If no time is left for the program itself, another rule reports it.
        if given <= hook or not any(_writes(mount, buckets) for mount in container.mounts):
            continue
        program, at = _program_seconds(container)
        left = max(0, given - hook - program)
        if left >= FLUSH_SECONDS:
            continue
        if not hook and not program:
            yield pod.fault(
                f"A grace period of {given} s is too short: the FUSE sidecar flushes after the "
                "program.",
                at=("spec", "terminationGracePeriodSeconds"),
            )
            continue
        spent = f"preStop uses {hook} s and the program" if hook else "the program uses"
        yield container.fault(
            f"Of a grace period of {given} s, {spent} {program:g} s, which leaves the FUSE sidecar "
            f"{left:g} s to flush.",
            at=at,
        )


def _writes(mount: Mount, buckets: set[str]) -> bool:
    return mount.volume in buckets and not mount.is_read_only


def _program_seconds(container: Container) -> tuple[float, Path]:
    """How long the program may take after the signal, and where that is set. 0 if unknown."""
    variable = container.variables.get(_GRACE_VARIABLE)
    if variable is None:
        names = [name for name in container.variables if name.startswith("OUTLAST_")]
        return (_PROGRAM_SECONDS_DEFAULT, ("env",)) if names else (0.0, ("lifecycle",))
    text = variable.value or ""
    is_number = re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text)
    return (float(text) if is_number else 0.0), variable.at
