"""Planning: what a workload is, which capacity suits it, what that costs.

Names load on first use, so that what needs the simulation alone does not load pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.capacity.errors import PlanningPackageMissing, WorkloadError
    from outlast.capacity.tier import TierChoice, choose_tier_by_rule
    from outlast.capacity.vocabulary import Kind, Tier
    from outlast.capacity.workload import Workload

__all__ = [
    "Kind",
    "PlanningPackageMissing",
    "Tier",
    "TierChoice",
    "Workload",
    "WorkloadError",
    "choose_tier_by_rule",
]

_HOMES = {
    "Kind": "outlast.capacity.vocabulary",
    "PlanningPackageMissing": "outlast.capacity.errors",
    "Tier": "outlast.capacity.vocabulary",
    "TierChoice": "outlast.capacity.tier",
    "Workload": "outlast.capacity.workload",
    "WorkloadError": "outlast.capacity.errors",
    "choose_tier_by_rule": "outlast.capacity.tier",
}

# Hidden from type checkers, which would take it to mean that every name exists.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'outlast.capacity' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)
