"""The arguments that decide the result of a training: a resume with others is reported or refused.

Those of the optimizer and the schedule are restored with them, so a change has no effect, or only
from the resume on. Neither gives the result of an uninterrupted training.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import StateMismatch

log = get_logger(__name__)

# The saved position and state mean something else with another one.
_REFUSED = ("gradient_accumulation_steps", "optim")
_NAMES = (
    *_REFUSED,
    *("per_device_train_batch_size", "num_train_epochs", "max_steps", "seed", "data_seed"),
    *("learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm"),
    *("adam_beta1", "adam_beta2", "adam_epsilon", "optim_args", "label_smoothing_factor"),
    *("bf16", "fp16", "neftune_noise_alpha"),
)


def decisive_arguments(args: Any) -> dict[str, Any]:
    """The arguments by their names, as plain values."""
    found = {name: getattr(args, name) for name in _NAMES if hasattr(args, name)}
    return {name: one.value if isinstance(one, Enum) else one for name, one in found.items()}


def compare_arguments(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Warn of arguments that differ from those of the run. Raises `StateMismatch`."""
    changed = [name for name in now if name in saved and saved[name] != now[name]]
    differences = tuple(f"{name} was {saved[name]!r} and is now {now[name]!r}" for name in changed)
    if any(name in _REFUSED for name in changed):
        raise StateMismatch(
            "The run cannot be continued with other training arguments:",
            differences=differences,
            hint="Use the same arguments as before, or start over with another URL.",
        )
    if changed:
        log.warning(
            "The training arguments differ from those of the run: %s. The result will not be that "
            "of an uninterrupted training. The learning rate and other settings of the optimizer "
            "stay as they were saved.",
            "; ".join(differences),
        )
