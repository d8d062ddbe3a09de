"""Decide how a trainer is saved: its state, or the files of its own checkpoints."""

from enum import StrEnum
from typing import Any

from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.state.tree import capture

# Methods that say what belongs to a checkpoint, or replace the loop.
_DECISIVE = (
    "_save_checkpoint _save_optimizer_and_scheduler _save_scaler _save_rng_state "
    "_load_from_checkpoint _load_optimizer_and_scheduler _load_scaler _load_rng_state "
    "_load_callback_state _inner_training_loop _run_epoch _prepare_for_training "
    "_init_training_state"
).split()
_KNOWN = ("transformers.", "trl.trainer.", "outlast.")


class SaveMode(StrEnum):
    """What a durable trainer saves."""

    STATE = "state"
    FILES = "files"


def reason_for_files(trainer: Any) -> str | None:
    """Why the state of a trainer cannot be saved itself; None if it can."""
    if trainer.is_deepspeed_enabled:
        return "DeepSpeed keeps the state"
    if trainer.is_fsdp_enabled:
        return "FSDP divides the state"
    for kind in type(trainer).__mro__:
        if kind.__module__.startswith(_KNOWN):
            continue
        for name in _DECISIVE:
            if name in vars(kind):
                return f"{kind.__qualname__} has its own {name}"
    try:
        capture({"model": trainer.model})
    except UnsupportedState as error:
        return str(error)
    return None
