"""Make a trainer durable: check that it can be, and put our methods before those of its class."""

import os
import sys
from typing import Any, TypeVar, Unpack

from outlast._base.logs import get_logger
from outlast._base.options import takes_options
from outlast.checkpoint.settings import SaveSettings
from outlast.errors import OutlastError
from outlast.integrations.huggingface.files import FilesTrainer, FilesTraining
from outlast.integrations.huggingface.modes import SaveMode, reason_for_files
from outlast.integrations.huggingface.parts import is_of_trl
from outlast.integrations.huggingface.trainer import DurableTrainer
from outlast.integrations.huggingface.training import DurableTraining
from outlast.integrations.versions import require
from outlast.run.place import url_for
from outlast.run.run import RunOptions

log = get_logger(__name__)

Trainer = TypeVar("Trainer")


@takes_options(RunOptions)
def durable(
    trainer: Trainer,
    url: str | os.PathLike[str] | None = None,
    *,
    mode: str | None = None,
    **options: Unpack[RunOptions],
) -> Trainer:
    """Make a `transformers.Trainer` survive interruptions, and return it.

    `train()` then resumes by itself, saves while it trains, and raises `outlast.Interrupted` after
    a notice. `mode` is "state" or "files"; by default the state is saved if it can be.
    """
    require(
        "transformers",
        extra="huggingface",
        at_least="5.14",
        below="5.24",
        needed_for="outlast.integrations.huggingface",
    )
    _check(trainer)
    if is_of_trl(trainer):
        require(
            "trl",
            extra="trl",
            at_least="1.16",
            below="1.17",
            needed_for="outlast.integrations.huggingface with a trainer of TRL",
        )
    SaveSettings.read(options)
    place = url_for(url, os.environ)
    subject: Any = trainer
    kind = type(subject)
    ours: type
    training: DurableTraining | FilesTraining
    if _mode(subject, mode) is SaveMode.FILES:
        ours, training = FilesTrainer, FilesTraining(subject, place, options)
    else:
        ours, training = DurableTrainer, DurableTraining(subject, place, options)
    subject._outlast = training  # noqa: SLF001 - the only attribute that is added
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    subject.__class__ = type(kind.__name__, (ours, kind), names)
    return trainer


def _mode(trainer: Any, wanted: str | None) -> SaveMode:
    if wanted is not None and wanted not in list(SaveMode):
        raise ValueError(f"Expected mode 'state' or 'files', got {wanted!r}.")
    reason = "mode='files'" if wanted == SaveMode.FILES else None
    if wanted is None:
        reason = reason_for_files(trainer)
    if reason is None:
        log.info("The state of the trainer is saved: a resume is bit-identical.")
        return SaveMode.STATE
    log.warning(
        "Files mode (%s): the run stores the trainer's own checkpoints. A resume is as exact as the"
        " trainer's own, which as a rule is not bit-identical.",
        reason.rstrip("."),
    )
    return SaveMode.FILES


def _check(trainer: Any) -> None:
    """Raise if the trainer cannot be made durable."""
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(trainer, transformers.Trainer):
        raise TypeError(
            f"durable takes a transformers.Trainer, not a {type(trainer).__qualname__}."
        )
    if isinstance(trainer, DurableTrainer | FilesTrainer):
        raise OutlastError(
            "This trainer is already durable.", hint="Call durable once for each trainer."
        )
    args = trainer.args
    if getattr(args, "enable_jit_checkpoint", False):
        raise OutlastError(
            "enable_jit_checkpoint is on: the trainer would save on SIGTERM too, and exit with 0.",
            hint="Remove enable_jit_checkpoint from the training arguments.",
        )
    if trainer.state.global_step:
        raise OutlastError(
            f"This trainer has already trained {trainer.state.global_step} steps.",
            hint="Call durable before train().",
        )
    if args.auto_find_batch_size:
        raise OutlastError(
            "auto_find_batch_size restarts the training with other batches.",
            hint="Set per_device_train_batch_size, and remove auto_find_batch_size.",
        )
    if args.ignore_data_skip:
        raise OutlastError(
            "ignore_data_skip would start the epoch again after each interruption.",
            hint="Remove ignore_data_skip: a durable trainer finds its place at once.",
        )
