"""Make a Lightning trainer, or a training loop with Fabric, survive evictions."""

import importlib
import os
from collections.abc import MutableMapping
from typing import Any, Unpack

from outlast._base.options import takes_options
from outlast.integrations.lightning.checks import (
    UnsupportedTraining,
    check_trainer,
    check_untrained,
)
from outlast.integrations.lightning.fabric import FabricRun
from outlast.integrations.lightning.training import DurableTraining
from outlast.integrations.versions import require
from outlast.run.run import RunOptions

_DISTRIBUTIONS = {
    "lightning.pytorch": "lightning",
    "lightning.fabric": "lightning",
    "pytorch_lightning": "pytorch-lightning",
    "lightning_fabric": "lightning-fabric",
}

_BATCH_HOOKS = (
    "on_train_batch_start",
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_end",
)


@takes_options(RunOptions)
def durable(
    target: Any,
    url: str | os.PathLike[str] | None = None,
    state: MutableMapping[str, Any] | None = None,
    **options: Unpack[RunOptions],
) -> Any:
    """Let `trainer.fit` resume by itself, save in the background, and exit in time.

    Returns the trainer. With a `Fabric`, returns a run over `state`, which holds what
    `fabric.setup` returned, among other things. `url` and the options are those of `outlast.Run`.
    """
    package = _package_of(target)
    _check_version(package)
    if package.endswith("fabric"):
        if state is None:
            raise TypeError("With a Fabric, durable needs the state: durable(fabric, url, state).")
        return FabricRun(target, url, state, dict(options))
    if state is not None:
        raise TypeError("With a Trainer, durable takes no state: it is the trainer's own.")
    training = DurableTraining(url, dict(options), package)
    training.follows_another = _has_been_durable(target)
    if not training.follows_another:
        check_untrained(target)
    check_trainer(target)
    # The one of an earlier fit has nothing left to do.
    target.callbacks[:] = [one for one in target.callbacks if not hasattr(one, "outlast_training")]
    # First, before the callbacks that write files choose their folders.
    target.callbacks.insert(0, _callback(package, training))
    return target


@takes_options(RunOptions)
def durable_callback(
    url: str | os.PathLike[str] | None = None,
    *,
    package: str = "lightning.pytorch",
    **options: Unpack[RunOptions],
) -> Any:
    """The same as a callback, for `Trainer(callbacks=[...])`.

    `package` is "pytorch_lightning" for a trainer of that package.
    """
    _check_version(package)
    return _callback(package, DurableTraining(url, dict(options), package))


def _has_been_durable(trainer: Any) -> bool:
    """Whether an earlier fit was. Raises `UnsupportedTraining` if the next one already is."""
    trainings = [getattr(one, "outlast_training", None) for one in trainer.callbacks]
    earlier = [one for one in trainings if one is not None]
    if any(not one.is_over for one in earlier):
        raise UnsupportedTraining(
            "This trainer is durable already.", hint="Call durable once before each call of fit."
        )
    return bool(earlier)


def _callback(package: str, training: DurableTraining) -> Any:
    base = importlib.import_module(f"{package}.callbacks").Callback

    def setup(self: Any, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            training.begin(trainer)

    def on_fit_start(self: Any, trainer: Any, pl_module: Any) -> None:
        training.note_file(trainer)

    def on_exception(self: Any, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        training.fail(exception)

    # Lightning spends 2 µs on each hook that it can call, even if it does nothing.
    names: dict[str, Any] = dict.fromkeys(_BATCH_HOOKS)
    names |= {"setup": setup, "on_fit_start": on_fit_start, "on_exception": on_exception}
    names |= {"outlast_training": training}
    return type("DurableCallback", (base,), names)()


def _package_of(target: object) -> str:
    """The package a trainer or a Fabric comes from: Lightning has several distributions."""
    for kind in type(target).__mro__:
        for package in _DISTRIBUTIONS:
            if kind.__module__.startswith(f"{package}.") and kind.__name__ in ("Trainer", "Fabric"):
                return package
    raise TypeError(
        f"durable takes a Trainer or a Fabric of Lightning, not a {type(target).__qualname__}."
    )


def _check_version(package: str) -> None:
    require(
        _DISTRIBUTIONS[package],
        extra="lightning",
        at_least="2.5.6",
        below="2.7",
        needed_for="outlast.integrations.lightning",
    )
