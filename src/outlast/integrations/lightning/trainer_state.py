"""What a checkpoint contains of a Lightning trainer besides its model and its optimizers.

That are the loops, callbacks, schedulers, the precision plugin, the data module, attributes that
have changed, what was logged in the current epoch, and where the training data is. It is read at
each save. At a resume it is applied in two parts, because Lightning and the program prepare an
epoch in between: `apply_early` before `on_train_start`, `apply_late` right before the first batch.
"""

import copy
import importlib
from typing import Any

from outlast._base.logs import get_logger
from outlast.integrations.attributes import NO_ATTRIBUTES, ChangedAttributes
from outlast.integrations.lightning.loaders import TrainingData
from outlast.integrations.lightning.metrics import (
    logged_state,
    metric_names,
    metrics_in,
    restore_logged,
    restore_trackers,
)
from outlast.integrations.lightning.validation import ValidationData

log = get_logger(__name__)

_SMALL_NUMBERS_MAX = 1024
# By which ModelCheckpoint decides whether to write a file, and which it does not save.
_OF_WRITERS = (
    "_last_global_step_saved",
    "_last_checkpoint_saved",
    "_defer_save_until_validation",
)


class TrainerState:
    """Reads and restores one trainer. `get` and `set` are for an `outlast.value`."""

    def __init__(self, trainer: Any, data: TrainingData, package: str) -> None:
        self._trainer = trainer
        self._data = data
        self.validation = ValidationData(trainer.fit_loop.epoch_loop.val_loop)
        self._package = package
        # Those have not chosen their folder yet.
        self._choosing = [
            one for one in trainer.callbacks if getattr(one, "dirpath", "chosen") is None
        ]
        self._attributes = ChangedAttributes(
            self._objects, known=self._known, ignored=self._framework_names()
        )
        self._of_metrics = ChangedAttributes(
            lambda: metrics_in(trainer.lightning_module),
            known=self._known,
            ignored=metric_names(trainer.lightning_module),
        )
        # Now, because a callback may change them later.
        self.limits = [trainer.max_epochs, trainer.max_steps]
        """What ends the training of this program."""
        self.in_epoch = False
        """Whether the last boundary was in the middle of an epoch."""
        self.finished_limits: list[Any] | None = None
        """The limits of the run, once it has finished."""
        self.pending: dict[str, Any] | None = None
        """What was saved, until all of it is applied."""

    def get(self) -> dict[str, Any]:
        if self.pending is not None:
            return self.pending
        trainer, fit_loop = self._trainer, self._trainer.fit_loop
        val_loop = fit_loop.epoch_loop.val_loop
        return {
            "in_epoch": self.in_epoch,
            "finished": self.finished_limits,
            "loops": _loops_state(fit_loop),
            "reloaded": [fit_loop._last_train_dl_reload_epoch, val_loop._last_val_dl_reload_epoch],
            "should_stop": trainer.should_stop,
            "accumulate": trainer.accumulate_grad_batches,
            "callbacks": separate(self._call("_call_callbacks_state_dict")),
            "schedulers": [one.scheduler.state_dict() for one in trainer.lr_scheduler_configs],
            "precision": trainer.precision_plugin.state_dict(),
            "datamodule": None if trainer.datamodule is None else trainer.datamodule.state_dict(),
            "attributes": self._attributes.read(),
            "of_metrics": self._of_metrics.read(),
            "writers": [
                {name: vars(one)[name] for name in _OF_WRITERS if name in vars(one)}
                for one in trainer.checkpoint_callbacks
            ],
            "hooks": separate(self._hook_entries()),
            "gradients": self._gradients(),
            "logged": separate(logged_state(trainer)),
            "validation": self.validation.state(),
            "data": self._data.state(in_epoch=self.in_epoch),
        }

    def begin(self) -> None:
        """Save attributes that change from now on. Those that hooks have set before are theirs."""
        self._attributes.begin()
        self._of_metrics.begin()

    def note_changes(self) -> None:
        """Also save what has changed since `begin`, from now on."""
        self._attributes.read()
        self._of_metrics.read()

    def set(self, state: dict[str, Any]) -> None:
        self._attributes.freeze(state.get("attributes", NO_ATTRIBUTES))
        self.pending = state

    @property
    def has_finished(self) -> bool:
        """Whether the run that was resumed had finished, and its limits have not been raised."""
        finished = self.pending["finished"] if self.pending is not None else None
        return finished is not None and not any(
            _is_more(now, then) for now, then in zip(self.limits, finished, strict=True)
        )

    def apply_early(self) -> None:
        """Restore all that hooks before the first batch may look at."""
        saved, trainer = self._saved(), self._trainer
        self.in_epoch = saved["in_epoch"]
        _restore_loops(trainer.fit_loop, saved["loops"])
        trainer.should_stop = saved["should_stop"]
        states = {"callbacks": copy.deepcopy(saved["callbacks"])}
        for callback in self._choosing:
            # ModelCheckpoint goes on in the folder it chose first, where its best files are.
            found = states["callbacks"].get(callback.state_key, {})
            callback.dirpath = found.get("dirpath", callback.dirpath)
        self._write_attributes()
        self._call("_call_callbacks_load_state_dict", states)
        for writer, found in zip(
            trainer.checkpoint_callbacks, saved.get("writers", ()), strict=False
        ):
            vars(writer).update(found)
        self._restore_schedulers()
        trainer.precision_plugin.load_state_dict(saved["precision"])
        if trainer.datamodule is not None and saved["datamodule"] is not None:
            trainer.datamodule.load_state_dict(copy.deepcopy(saved["datamodule"]))
        self._call_load_hooks(saved["hooks"])
        restore_logged(trainer, copy.deepcopy(saved["logged"]))

    def apply_late(self) -> None:
        """Restore what Lightning, or a hook before the first batch, has set in the meantime."""
        saved, trainer = self._saved(), self._trainer
        fit_loop = trainer.fit_loop
        val_loop = fit_loop.epoch_loop.val_loop
        fit_loop._last_train_dl_reload_epoch, val_loop._last_val_dl_reload_epoch = saved["reloaded"]
        self.validation.restore(saved.get("validation", []))
        self.begin()
        self._write_attributes()
        # Lightning clears them before it starts.
        for name, parameter in trainer.lightning_module.named_parameters():
            if name in saved["gradients"]:
                parameter.grad = saved["gradients"][name].to(parameter.device).clone()
        if self.in_epoch:
            self._restore_schedulers()
            trainer.should_stop = saved["should_stop"]
            trainer.accumulate_grad_batches = saved["accumulate"]
            restore_logged(trainer, copy.deepcopy(saved["logged"]))

    def _saved(self) -> dict[str, Any]:
        assert self.pending is not None, "Only a state that was resumed is applied."
        return self.pending

    def _write_attributes(self) -> None:
        saved = self._saved()
        restore_trackers(self._trainer.lightning_module, saved["logged"])
        self._attributes.write(saved.get("attributes", NO_ATTRIBUTES))
        self._of_metrics.write(saved.get("of_metrics", NO_ATTRIBUTES))

    def _restore_schedulers(self) -> None:
        saved = self._saved()["schedulers"]
        for config, state in zip(self._trainer.lr_scheduler_configs, saved, strict=False):
            config.scheduler.load_state_dict(copy.deepcopy(state))

    def _gradients(self) -> dict[str, Any]:
        """What the program may accumulate by itself; Lightning clears its own before it adds."""
        module = self._trainer.lightning_module
        if module.automatic_optimization and not self._overrides(module, "optimizer_zero_grad"):
            return {}
        return {name: one.grad for name, one in module.named_parameters() if one.grad is not None}

    def _hook_entries(self) -> dict[str, Any]:
        """What on_save_checkpoint of the module and of callbacks adds to a checkpoint."""
        trainer, module = self._trainer, self._trainer.lightning_module
        callbacks = [one for one in trainer.callbacks if self._overrides(one, "on_save_checkpoint")]
        if not callbacks and not self._overrides(module, "on_save_checkpoint"):
            return {}
        before = self._skeleton()
        checkpoint = dict(before)
        for callback in callbacks:
            callback.on_save_checkpoint(trainer, module, checkpoint)
        module.on_save_checkpoint(checkpoint)
        # The rest is in the state already. Weight averaging moves the model's entry elsewhere.
        added = {name: one for name, one in checkpoint.items() if one is not before.get(name)}
        moved = [name for name, one in added.items() if one is before["state_dict"]]
        entries = {name: one for name, one in added.items() if name not in moved}
        return {"entries": entries, "moved": moved}

    def _call_load_hooks(self, saved: dict[str, Any]) -> None:
        trainer, module = self._trainer, self._trainer.lightning_module
        checkpoint = self._skeleton()
        if saved:
            moved = dict.fromkeys(saved["moved"], checkpoint["state_dict"])
            checkpoint |= copy.deepcopy(saved["entries"]) | moved
        for callback in trainer.callbacks:
            if self._overrides(callback, "on_load_checkpoint"):
                callback.on_load_checkpoint(trainer, module, checkpoint)
        if self._overrides(module, "on_load_checkpoint"):
            module.on_load_checkpoint(checkpoint)

    def _skeleton(self) -> dict[str, Any]:
        """What Lightning's own checkpoints have, as far as it means something here."""
        trainer = self._trainer
        return {
            "epoch": trainer.current_epoch,
            "global_step": trainer.global_step,
            "pytorch-lightning_version": importlib.import_module(self._package).__version__,
            "state_dict": dict(trainer.lightning_module.state_dict()),
            "loops": {"fit_loop": _loops_state(trainer.fit_loop)},
            "callbacks": self._call("_call_callbacks_state_dict"),
            "optimizer_states": [one.state_dict() for one in trainer.optimizers],
            "lr_schedulers": [one.scheduler.state_dict() for one in trainer.lr_scheduler_configs],
            "hyper_parameters": dict(trainer.lightning_module.hparams),
        }

    def _objects(self) -> dict[str, Any]:
        """The module with all inside, the data module, and the callbacks of the program."""
        trainer = self._trainer
        metric = importlib.import_module("torchmetrics").Metric
        found = {
            f"model.{name}": one
            for name, one in trainer.lightning_module.named_modules()
            if not isinstance(one, metric)
        }
        if trainer.datamodule is not None:
            found["datamodule"] = trainer.datamodule
        for callback in trainer.callbacks:
            if not type(callback).__module__.startswith(("lightning.", "pytorch_lightning.")):
                found[callback.state_key] = callback
        return found

    def _known(self) -> list[Any]:
        """What the program may refer to, and is saved elsewhere."""
        trainer = self._trainer
        schedulers = [one.scheduler for one in trainer.lr_scheduler_configs]
        return [trainer, trainer.model, *trainer.optimizers, *schedulers, *trainer.loggers]

    def _framework_names(self) -> frozenset[str]:
        package = importlib.import_module(self._package)
        own = [package.LightningModule(), package.LightningDataModule(), package.Callback()]
        return frozenset(name for one in own for name in vars(one)) - {"training"}

    def _overrides(self, thing: Any, name: str) -> bool:
        helpers = importlib.import_module(f"{self._package}.utilities.model_helpers")
        return bool(helpers.is_overridden(name, thing))

    def _call(self, name: str, *arguments: Any) -> Any:
        calls = importlib.import_module(f"{self._package}.trainer.call")
        return getattr(calls, name)(self._trainer, *arguments)


def _is_more(now: Any, then: Any) -> bool:
    """Whether a limit has been raised. Lightning's -1 and None mean that there is none."""
    if now in (-1, None):
        return then not in (-1, None)
    return then not in (-1, None) and bool(now > then)


def separate(thing: Any) -> Any:
    """Copy small tensors: a score, for example, may be kept in several places, or be a view."""
    if isinstance(thing, dict):
        return {key: separate(one) for key, one in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(map(separate, thing))
    if hasattr(thing, "clone") and thing.numel() <= _SMALL_NUMBERS_MAX:
        return thing.detach().clone()
    return thing


def _loops_state(fit_loop: Any) -> dict[str, Any]:
    state: dict[str, Any] = copy.deepcopy(fit_loop.state_dict())
    # The positions of all loaders are saved, with or without a state_dict of theirs.
    state["state_dict"].pop("combined_loader", None)
    return state


def _restore_loops(fit_loop: Any, state: dict[str, Any]) -> None:
    """Set all counters, and none of the flags by which Lightning guesses where it was."""
    fit_loop.load_state_dict(copy.deepcopy(state))
    clear_restarting(fit_loop)


def clear_restarting(loop: Any) -> None:
    """Let a loop and those inside go on as if it had never been interrupted."""
    for name in ("_restarting", "_loaded_from_state_dict", "_resuming_from_checkpoint"):
        setattr(loop, name, False)
    for inner in vars(loop).values():
        if hasattr(inner, "_loaded_from_state_dict"):
            clear_restarting(inner)
