"""How long the work takes that a workload file asks for, if nothing happens. Pure."""

from outlast.capacity.spec import WorkloadSpec

START_SECONDS = 120.0
"""From the node to the first step, checkpoint aside, until it was measured."""


def work_seconds(workload: WorkloadSpec) -> float | None:
    """The work of one Pod, or of a training run on all its nodes; None if the file does not say.

    An item is not split: the last round takes as long as the others, however few items it has.
    """
    work = workload.work
    if work is None:
        return None
    if work.hours is not None:
        return work.hours * 3600
    if work.items is None or work.seconds_per_item is None:
        return None
    return -(-work.items // workload.pods) * work.seconds_per_item


def start_seconds(workload: WorkloadSpec) -> float:
    """The time to the first step where no checkpoint is read: as measured, or assumed."""
    restart = workload.measured.restart
    return START_SECONDS if restart is None else restart.total_seconds()
