"""A view of a run as JSON for other programs. The schema has a version. Pure."""

from datetime import datetime
from typing import Any

from outlast.cluster.diagnosis.diagnosis import Diagnosis
from outlast.cluster.errors import shown
from outlast.cluster.watching.figures import FinishTimes, Money, NoEstimate
from outlast.cluster.watching.join import AttemptRow, Retries
from outlast.cluster.watching.view import RunProgress, RunView

JSON_VERSION = 1


def view_json(view: RunView) -> dict[str, Any]:
    """Everything that the screen shows, as plain values. Times are in ISO 8601, UTC."""
    return {
        "version": JSON_VERSION,
        "run": view.name,
        "namespace": view.namespace or None,
        "now": _time(view.now),
        "as_of": _time(view.as_of),
        "state": view.state.value,
        "since": _time(view.since),
        "why": why_json(view.why),
        "tier": view.tier or None,
        "machine": view.machine or None,
        "url": view.url or None,
        "pods": {"running": view.pods_running, "wanted": view.pods_wanted},
        "progress": _progress(view.progress),
        "retries": _retries(view.retries),
        "money": _money(view.money),
        "finish": _finish(view.finish),
        "attempts": [_attempt(row) for row in view.attempts],
        "alarms": list(view.alarms),
        "notes": list(view.gaps),
    }


def why_json(why: Diagnosis | None) -> dict[str, Any] | None:
    if why is None:
        return None
    return {
        "cause": why.cause,
        "summary": why.summary,
        "next_step": why.next_step or None,
        "evidence": [
            {"where": one.where, "text": shown(one.text), "seen": _time(one.seen)}
            for one in why.evidence
        ],
    }


def _progress(progress: RunProgress | None) -> dict[str, Any] | None:
    if progress is None:
        return None
    return {
        "steps_done": progress.steps_done,
        "steps_planned": progress.steps_planned,
        "steps_lost": progress.steps_lost,
        "lost_seconds": progress.lost_seconds,
        "attempts": progress.attempts,
        "evictions": progress.evictions,
        "evictions_saved": progress.evictions_saved,
        "evictions_missed": progress.evictions_missed,
        "evictions_unannounced": progress.evictions_unannounced,
        "failures": progress.failures,
        "saved_step": progress.saved_step,
        "saved_at": _time(progress.saved_at),
        "saved_bytes": progress.saved_bytes,
        "is_final_save": progress.is_final_save,
        "goodput": progress.goodput,
        "is_finished": progress.is_finished,
        "last_event": _time(progress.last_event),
        "parts": progress.parts,
    }


def _retries(retries: Retries | None) -> dict[str, Any] | None:
    if retries is None:
        return None
    return {
        "used": retries.used,
        "limit": retries.limit,
        "is_per_index": retries.is_per_index,
        "by_nodes": retries.by_nodes,
        "by_program": retries.by_program,
        "by_unknown": retries.by_unknown,
    }


def _money(money: Money | None) -> dict[str, Any] | None:
    if money is None:
        return None
    return {
        # Null if it is not exactly known; then it is between the other two.
        "spent": str(money.spent) if money.is_exact else None,
        "spent_min": str(money.spent),
        "spent_max": None if money.spent_max is None else str(money.spent_max),
        "by_tier": {tier: str(amount) for tier, amount in money.by_tier},
        "on_demand": None if money.on_demand is None else str(money.on_demand),
        "saved_share": money.saved_share,
        "currency": money.currency,
        "notes": list(money.notes),
    }


def _finish(finish: FinishTimes | NoEstimate | None) -> dict[str, Any] | None:
    if finish is None:
        return None
    if isinstance(finish, NoEstimate):
        return {"unknown": finish.why}
    return {
        "p10": _time(finish.p10),
        "p50": _time(finish.p50),
        "p90": _time(finish.p90),
        "deadline": _time(finish.deadline),
        "deadline_chance": finish.chance,
    }


def _attempt(row: AttemptRow) -> dict[str, Any]:
    return {
        "attempt": row.number,
        "part": row.part or None,
        "started": _time(row.started),
        "ended": _time(row.ended),
        "is_running": row.is_running,
        "how": row.how,
        "cause": row.cause,
        "steps_lost": row.steps_lost,
        "pod": row.pod or None,
        "node": row.node or None,
        "zone": row.zone or None,
        "is_counted": row.is_counted,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
