"""Rehearse evictions on this machine: run a command as a Spot cluster would, and check it."""

from outlast.drills.errors import DrillError
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import Check, CheckResult, Verdict
from outlast.drills.rehearsal import drill
from outlast.drills.run.events import DrillEvent, Listener

__all__ = [
    "Check",
    "CheckResult",
    "DrillError",
    "DrillEvent",
    "DrillReport",
    "Listener",
    "Verdict",
    "drill",
]
