"""The grace period is spent before the FUSE sidecar can flush.

Why: a bucket that is mounted by Cloud Storage FUSE is written by a sidecar. It ends after the
program, in the same grace period, and may still hold what the program wrote last. Where preStop and
the program take the whole period, the sidecar is killed with it.
Instead: keep 3 s of the period for it: set OUTLAST_GRACE_SECONDS at least so much below
terminationGracePeriodSeconds, and below the 15 s that a reclaimed Spot node gives; keep preStop
short. Or save to the bucket by its gs:// address, without FUSE.
"""

import re
from collections.abc import Iterator

from outlast.manifests.lint.fuse import fuse_volumes
from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.pod import GRACE_SECONDS_DEFAULT, Container, Mount, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

FLUSH_SECONDS = 3
_GRACE_VARIABLE = "OUTLAST_GRACE_SECONDS"
_PROGRAM_SECONDS_DEFAULT = 15.0
"""What Outlast takes without that variable."""


@pod_rule("OL406", Severity.WARNING)
def no_time_for_flush(pod: Pod, review: Review) -> Iterator[Fault]:
    buckets = {volume.name for volume in fuse_volumes(pod, review)}
    given = GRACE_SECONDS_DEFAULT if pod.grace_seconds is None else pod.grace_seconds
    if buckets and review.aim(pod).includes_spot:
        given = min(given, review.window_seconds(pod))
    for container in pod.containers:
        hook = container.integer("lifecycle", "preStop", "sleep", "seconds") or 0
        # Where nothing is left for the program itself, that is another fault.
        if given <= hook or not any(_writes(mount, buckets) for mount in container.mounts):
            continue
        program, at = _program_seconds(container)
        left = max(0, given - hook - program)
        if left >= FLUSH_SECONDS:
            continue
        if not hook and not program:
            yield pod.fault(
                f"{given} s of grace are too few: the FUSE sidecar flushes after the program.",
                at=("spec", "terminationGracePeriodSeconds"),
            )
            continue
        spent = f"{hook} s go to preStop and {program:g} s" if hook else f"{program:g} s go"
        yield container.fault(
            f"Of {given} s of grace, {spent} to the program: the FUSE sidecar, which still has to "
            f"flush, gets {left:g} s.",
            at=at,
        )


def _writes(mount: Mount, buckets: set[str]) -> bool:
    return mount.volume in buckets and not mount.is_read_only


def _program_seconds(container: Container) -> tuple[float, Path]:
    """What the program may take from the signal on, and where that is said. 0 if nothing is."""
    variable = container.variables.get(_GRACE_VARIABLE)
    if variable is None:
        names = [name for name in container.variables if name.startswith("OUTLAST_")]
        return (_PROGRAM_SECONDS_DEFAULT, ("env",)) if names else (0.0, ("lifecycle",))
    text = variable.value or ""
    is_number = re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text)
    return (float(text) if is_number else 0.0), variable.at
