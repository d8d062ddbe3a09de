"""The objects of a trainer that keep a state: model, optimizer, scheduler, and those of its own."""

from importlib import import_module
from types import FunctionType
from typing import Any

from outlast.checkpoint.state.modules import is_module
from outlast.checkpoint.state.randomness import as_value
from outlast.checkpoint.state.tree import has_state_dict
from outlast.integrations.attributes import is_of_program

_KNOWN = frozenset(
    "args model model_wrapped optimizer lr_scheduler accelerator deepspeed state control "
    "callback_handler train_dataset eval_dataset data_collator processing_class _outlast".split()
)


def state_of(trainer: Any) -> dict[str, Any]:
    """The parts that the trainer's run saves and fills."""
    optimizer = trainer.optimizer
    state = {
        "model": trainer.model,
        # accelerate wraps it.
        "optimizer": getattr(optimizer, "optimizer", optimizer),
        "scheduler": trainer.lr_scheduler,
    }
    scaler = getattr(trainer.accelerator, "scaler", None)
    if scaler is not None:
        state["scaler"] = scaler
    parts = {name: item for name, item in vars(trainer).items() if _is_part(trainer, name, item)}
    return state | ({"parts": parts} if parts else {})


def own_attributes(trainer: Any) -> dict[str, Any]:
    """The attributes that are functions, samplers, or objects of the program's own classes."""
    return {
        name: item
        for name, item in vars(trainer).items()
        if name not in _KNOWN
        and not is_module(item)
        and (is_of_program(item.__class__) or isinstance(item, FunctionType) or _is_sampler(item))
    }


def is_of_trl(trainer: Any) -> bool:
    """Whether the class of a trainer is one of TRL's, or inherits from one."""
    return any(kind.__module__.startswith("trl.") for kind in type(trainer).__mro__)


def _is_sampler(item: Any) -> bool:
    return isinstance(item, import_module("torch.utils.data").Sampler)


def _is_part(trainer: Any, name: str, item: Any) -> bool:
    if name in _KNOWN or item is trainer.model:
        return False
    if as_value(item) is not None:
        return True
    if not has_state_dict(item):
        return False
    return not is_module(item) or not _is_reference(trainer, item)


def _is_reference(trainer: Any, module: Any) -> bool:
    """Whether a module is one that TRL only compares with, and never changes."""
    if getattr(trainer.args, "sync_ref_model", False):
        return False
    return is_of_trl(trainer) and not any(one.requires_grad for one in module.parameters())
