"""When a run finishes, and whether it meets its deadline, from its journal. Pure."""

from datetime import datetime, timedelta

from outlast.capacity.planning.assumptions import PlanError
from outlast.capacity.planning.learn import learn
from outlast.capacity.planning.remaining import FinishEstimate, RemainingWork, estimate_finish
from outlast.capacity.planning.tier_rules import choose_tier_by_rule
from outlast.capacity.pricing.prices import PriceUnknown
from outlast.capacity.vocabulary import Tier, WorkloadKind
from outlast.capacity.workload.spec import WorkloadSpec
from outlast.cluster.watching.figures import FinishTimes, NoEstimate
from outlast.journal.run_journal import RunJournal
from outlast.measured import measurements_in

_SECONDS_MAX = 10 * 365 * 86_400.0


def remaining_seconds(journal: RunJournal, workload: WorkloadSpec | None) -> float | None:
    """The uninterrupted work that is left, None if it is not known."""
    summary = journal.summary
    if summary.step_seconds and summary.steps_planned is not None:
        return max(0, summary.steps_planned - summary.steps_done) * summary.step_seconds
    if workload is not None and workload.work_seconds is not None:
        return max(0.0, workload.work_seconds - summary.useful_seconds)
    return None


def finish_of(
    journal: RunJournal,
    workload: WorkloadSpec,
    *,
    is_running: bool,
    now: datetime,
    tier: Tier | None = None,
) -> FinishTimes | NoEstimate:
    """Simulate the rest of a run. `tier` is where it runs now, else as in the file."""
    seconds = remaining_seconds(journal, workload)
    if seconds is None:
        return NoEstimate(why="The journal has no planned number of steps, and the file no `work`.")
    if seconds > _SECONDS_MAX:
        return NoEstimate(why="The remaining work takes longer than ten years.")
    if workload.kind is WorkloadKind.SERVING:
        return NoEstimate(why="A server does not finish.")
    deadline = deadline_of(journal, workload)
    summary = journal.summary
    remaining = RemainingWork(
        seconds=seconds,
        interruptions=summary.interruptions_announced + summary.interruptions_unannounced,
        is_running=is_running,
    )
    try:
        found = estimate_finish(
            workload,
            tier or choose_tier_by_rule(workload).tier,
            remaining,
            learned=learn(measurements_in([journal], nodes=workload.nodes)),
            deadline_seconds=(deadline - now).total_seconds() if deadline else None,
        )
    except (PlanError, PriceUnknown) as error:
        return NoEstimate(why=str(error))
    if found is None:
        return NoEstimate(why="With interruptions as frequent as these, it may never finish.")
    return _times(found, now, deadline)


def deadline_of(journal: RunJournal, workload: WorkloadSpec) -> datetime | None:
    """The deadline as a time: a duration counts from the first start."""
    started = journal.summary.attempts[0].started if journal.summary.attempts else None
    if isinstance(workload.deadline, timedelta):
        return started + workload.deadline if started else None
    return workload.deadline


def _times(found: FinishEstimate, now: datetime, deadline: datetime | None) -> FinishTimes:
    return FinishTimes(
        p10=now + found.p10,
        p50=now + found.p50,
        p90=now + found.p90,
        deadline=deadline,
        chance=found.chance,
    )
