"""Refuse what cannot be resumed exactly, before any work is done."""

from collections.abc import Mapping
from typing import Any

from outlast._base.logs import get_logger
from outlast.errors import OutlastError
from outlast.integrations.schedulers import inner, schedulers_of

log = get_logger(__name__)

_STRATEGIES = frozenset({"SingleDeviceStrategy", "DDPStrategy"})


class UnsupportedTraining(OutlastError):
    """A setting of the trainer, or a part of the module, with which a run could not be resumed."""


def check_trainer(trainer: Any) -> None:
    """Raise `UnsupportedTraining` for a trainer whose state could not be saved completely."""
    check_strategy(trainer.strategy)
    seconds = getattr(trainer, "_val_check_time_interval", None)
    if seconds is not None:
        raise UnsupportedTraining(
            f"The trainer validates by the clock, every {seconds:.0f} s, so a resumed run would "
            "validate at other steps than an uninterrupted one.",
            hint="Set val_check_interval to a number of batches or a fraction of an epoch.",
        )


def check_single(trainer: Any) -> None:
    """Raise `UnsupportedTraining` if several runs would save the same training."""
    if sum(hasattr(one, "outlast_training") for one in trainer.callbacks) > 1:
        raise UnsupportedTraining(
            "This trainer is durable already: it has several callbacks of durable_callback.",
            hint="Pass one of them to the trainer.",
        )


def check_untrained(trainer: Any) -> None:
    """Raise `UnsupportedTraining` if the loops of a trainer are not at the start of a run."""
    if batches := trainer.fit_loop.epoch_loop.batch_progress.total.ready:
        raise UnsupportedTraining(
            f"This trainer has already trained on {batches} batches, so its loops are not at the "
            "start of a run.",
            hint="Call durable before fit.",
        )


def check_strategy(strategy: Any) -> None:
    """Raise `UnsupportedTraining` for a strategy that durable was not tested with."""
    name = type(strategy).__name__
    if name not in _STRATEGIES:
        raise UnsupportedTraining(
            f"durable supports training on one device and with DDP, not with {name}.",
            hint="Use strategy='ddp', or fully_shard and outlast.Run in a loop of your own.",
        )
    if "MultiProcessing" in type(strategy.launcher).__name__:
        raise UnsupportedTraining(
            "The ranks would be started with multiprocessing, and could not exit with a code of "
            "their own.",
            hint="Use strategy='ddp', which starts each rank as a program, or torchrun.",
        )


def check_scaler(fabric: Any, state: Mapping[str, Any]) -> None:
    """Raise `UnsupportedTraining` if Fabric keeps a gradient scaler that the state lacks."""
    precision = fabric.strategy.precision
    if precision.state_dict() and not any(one is precision for one in state.values()):
        raise UnsupportedTraining(
            "Fabric scales gradients with this precision, and the state does not contain the "
            "scale.",
            hint='Add it to the state: {"precision": fabric.strategy.precision, ...}.',
        )


def warn_of_schedulers(state: Mapping[str, Any]) -> None:
    """Warn of learning-rate schedulers with which Fabric trains, and which the state lacks."""
    parts = _parts(state)
    optimizers = [inner(one) for one in parts if hasattr(one, "param_groups")]
    found = schedulers_of(optimizers, known=parts)
    if found:
        names = sorted({type(one).__qualname__ for one in found})
        log.warning(
            "The state does not contain the learning-rate scheduler of an optimizer (%s). If the "
            "program steps it, a resumed run continues with another learning rate. Add it to the "
            'state: {"scheduler": scheduler, ...}.',
            ", ".join(names),
        )


def _parts(part: Any) -> list[Any]:
    """What a state contains, without its containers."""
    if isinstance(part, Mapping):
        part = list(part.values())
    return [one for inside in part for one in _parts(inside)] if type(part) is list else [part]


def warn_of_newer_files(trainer: Any) -> None:
    """Warn of a `last.ckpt` that `ModelCheckpoint` will not overwrite after this resume.

    A process that was killed wrote it after the state that is resumed, which does not know of it.
    """
    for writer in trainer.checkpoint_callbacks:
        # Other classes than ModelCheckpoint have none.
        if not (getattr(writer, "save_last", None) and writer.dirpath and trainer.is_global_zero):
            continue
        name = f"{writer.CHECKPOINT_NAME_LAST}{writer.FILE_EXTENSION}"
        # It may be a bucket's.
        path = f"{writer.dirpath.rstrip('/')}/{name}"
        if path != writer.last_model_path and writer._fs.exists(path):
            log.warning(
                "%s is newer than the state that is resumed, so Lightning keeps it and writes "
                "another file. To find the last checkpoint, use last_model_path of the "
                "ModelCheckpoint instead of this name.",
                path,
            )


def check_module(trainer: Any) -> None:
    """Raise `UnsupportedTraining` for a module that fetches its batches by itself."""
    code = getattr(type(trainer.lightning_module).training_step, "__code__", None)
    if code is not None and "dataloader_iter" in code.co_varnames[: code.co_argcount]:
        raise UnsupportedTraining(
            "training_step takes a dataloader_iter and fetches batches by itself, so it is unknown "
            "which of them were used when the state is saved.",
            hint="Let training_step take (batch, batch_idx).",
        )
