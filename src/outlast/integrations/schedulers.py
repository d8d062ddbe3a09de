"""The learning-rate schedulers of a program, some of which its framework does not know of."""

import gc
import sys
from collections.abc import Sequence
from typing import Any


def schedulers_of(optimizers: Sequence[Any], known: Sequence[Any]) -> list[Any]:
    """All schedulers of some optimizers, except for those known and the parts of others."""
    found = [
        one
        for one in _schedulers()
        if any(inner(getattr(one, "optimizer", None)) is optimizer for optimizer in optimizers)
    ]
    # Some are made of others, and save those themselves.
    parts = [part for one in [*found, *known] for part in getattr(one, "_schedulers", ())]
    return [one for one in found if not any(one is other for other in [*parts, *known])]


def inner(optimizer: Any) -> Any:
    """The optimizer of torch in the wrapper of a framework."""
    return getattr(optimizer, "optimizer", optimizer)


def _schedulers() -> list[Any]:
    base = sys.modules["torch"].optim.lr_scheduler.LRScheduler
    kinds: list[type] = [base]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return [one for one in gc.get_referrers(*kinds) if type(one) in kinds]
