"""Planning: workload files, prices, the simulation and the choice of a tier.

Names load on first use, so that using only the simulation does not load pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.capacity.errors import PlanningPackageMissing, WorkloadError
    from outlast.capacity.planning.tier_rules import TierChoice, choose_tier_by_rule
    from outlast.capacity.vocabulary import Tier, WorkloadKind
    from outlast.capacity.workload.file import Workload

__all__ = [
    "PlanningPackageMissing",
    "Tier",
    "TierChoice",
    "Workload",
    "WorkloadError",
    "WorkloadKind",
    "choose_tier_by_rule",
]

_HOMES = {
    "WorkloadKind": "outlast.capacity.vocabulary",
    "PlanningPackageMissing": "outlast.capacity.errors",
    "Tier": "outlast.capacity.vocabulary",
    "TierChoice": "outlast.capacity.planning.tier_rules",
    "Workload": "outlast.capacity.workload.file",
    "WorkloadError": "outlast.capacity.errors",
    "choose_tier_by_rule": "outlast.capacity.planning.tier_rules",
}

# Hidden from type checkers, which would take it to mean that every name exists.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'outlast.capacity' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)
