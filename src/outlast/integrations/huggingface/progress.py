"""What a trainer keeps besides its model, optimizer and scheduler: where it is, and what it logged.

Its state with the history of logs, the flags of its control, its stateful callbacks, and every
plain attribute that has changed since the training began: of the trainer, such as the running
loss, of its arguments, of callbacks, and of the model. So are the variables that functions of the
program change, such as rewards, metrics, losses and hooks.
"""

import dataclasses
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from outlast.integrations.attributes import (
    NO_ATTRIBUTES,
    ChangedAttributes,
    is_of_program,
    own_objects,
)
from outlast.integrations.function_variables import variables_of
from outlast.integrations.plain import NotPlain, encoded, filled, is_same, separated

# What follows from the arguments, unless a callback changes it.
_SETTINGS = frozenset("max_steps num_train_epochs logging_steps eval_steps save_steps".split())
# That, and what belongs to the process.
_OF_PROCESS = _SETTINGS | frozenset(
    "log_history stateful_callbacks is_local_process_zero is_world_process_zero "
    "is_hyper_param_search trial_name trial_params".split()
)
_NOT_SAVED = frozenset(
    "args model model_wrapped optimizer lr_scheduler accelerator deepspeed state control "
    "callback_handler train_dataset eval_dataset data_collator processing_class _outlast "
    "_memory_tracker is_in_train _created_lr_scheduler _signature_columns _eval_dataloaders "
    # An inference server in the same process has to load the weights again.
    "_last_loaded_step".split()
)


class TrainerProgress:
    """Reads and writes the progress of a trainer."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._before = separated(dict(_plain_attributes(trainer)))
        variables = {"variables": variables_of(_functions(trainer))}
        self._objects = ChangedAttributes(
            lambda: _objects(trainer) | variables,
            known=lambda: _known(trainer),
            ignored=frozenset(vars(import_module("torch").nn.Module())) - {"training"},
        )
        of_state = {field.name for field in dataclasses.fields(trainer.state)}
        self._settings = ChangedAttributes(
            lambda: {"args": trainer.args, "state": trainer.state},
            known=tuple,
            ignored=frozenset(of_state - _SETTINGS),
        )
        self._log = bytearray()
        self._logged = 0

    def begin(self) -> None:
        """The first step of this process follows. The hooks before it have been called."""
        self._objects.begin()
        self._settings.begin()

    def read(self) -> dict[str, Any]:
        """All of it as plain containers."""
        trainer = self._trainer
        return {
            "state": {
                field.name: getattr(trainer.state, field.name)
                for field in dataclasses.fields(trainer.state)
                if field.name not in _OF_PROCESS
            },
            "log": self._read_log(),
            "control": dict(vars(trainer.control)),
            "callbacks": [[name, state] for name, _, state in _stateful_callbacks(trainer)],
            "attributes": {
                name: item
                for name, item in _plain_attributes(trainer)
                if name not in self._before or not is_same(item, self._before[name])
            },
            "objects": self._objects.read(),
            "settings": self._settings.read(),
        }

    def write(self, saved: dict[str, Any]) -> None:
        """Make the trainer what it was."""
        self.write_state(saved)
        trainer = self._trainer
        for name, item in saved["control"].items():
            setattr(trainer.control, name, item)
        for name, item in saved["attributes"].items():
            setattr(trainer, name, filled(getattr(trainer, name, None), item))
        self._objects.write(saved.get("objects", NO_ATTRIBUTES))
        self._settings.write(saved.get("settings", NO_ATTRIBUTES))
        waiting = list(saved["callbacks"])
        for name, callback, _ in list(_stateful_callbacks(trainer)):
            found = next((entry for entry in waiting if entry[0] == name), None)
            if found is not None:
                waiting.remove(found)
                _fill_callback(callback, found[1])

    def write_state(self, saved: dict[str, Any]) -> None:
        """Only the trainer's state, which other parts look at before the first step."""
        self._objects.freeze(saved.get("objects", NO_ATTRIBUTES))
        state = self._trainer.state
        for name, item in saved["state"].items():
            setattr(state, name, item)
        text = bytes(saved["log"]).decode()
        state.log_history[:] = [json.loads(line) for line in text.splitlines()]
        self._log, self._logged = bytearray(text.encode()), len(state.log_history)

    def _read_log(self) -> "np.ndarray[Any, Any]":
        """The history, one line per entry. As an array, because it grows and must be cheap."""
        history = self._trainer.state.log_history
        if len(history) < self._logged:
            self._log, self._logged = bytearray(), 0
        for entry in history[self._logged :]:
            self._log += json.dumps(entry, default=_as_number).encode() + b"\n"
        self._logged = len(history)
        return np.frombuffer(bytes(self._log), np.uint8)


def has_own_hooks(trainer: Any) -> bool:
    """Whether callbacks of the program are called when a training or an epoch begins."""
    return any(
        not getattr(type(callback), name).__module__.startswith("transformers.")
        for callback in trainer.callback_handler.callbacks
        for name in ("on_train_begin", "on_epoch_begin")
    )


def _plain_attributes(trainer: Any) -> Iterator[tuple[str, Any]]:
    for name, item in vars(trainer).items():
        if name not in _NOT_SAVED:
            try:
                yield name, encoded(item)
            except NotPlain:
                continue


def _objects(trainer: Any) -> dict[str, Any]:
    """The callbacks of the program by their classes, its other objects, and the modules."""
    found: dict[str, Any] = {}
    for callback in trainer.callback_handler.callbacks:
        kind = type(callback)
        if not kind.__module__.startswith("transformers."):
            count = sum(type(one) is kind for one in found.values())
            found[f"{kind.__qualname__}{f' {count + 1}' if count else ''}"] = callback
    attributes = {name: one for name, one in vars(trainer).items() if name not in _NOT_SAVED}
    found |= {f"trainer.{name}": one for name, one in own_objects(attributes)}
    optimizer = _inner_optimizer(trainer)
    if is_of_program(type(optimizer)):
        found["optimizer"] = optimizer
    return found | {f"model.{name}": one for name, one in trainer.model.named_modules()}


def _functions(trainer: Any) -> Iterator[Any]:
    """All that the trainer calls and that may be of the program."""
    yield type(trainer)
    for name, item in vars(trainer).items():
        if name not in _NOT_SAVED:
            yield from item if isinstance(item, list) else [item]
    yield from trainer.callback_handler.callbacks
    optimizer, scheduler = _inner_optimizer(trainer), trainer.lr_scheduler
    yield from (optimizer, scheduler, *getattr(scheduler, "lr_lambdas", ()))
    for kind in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        yield from getattr(optimizer, kind, {}).values()
    for module in trainer.model.modules():
        yield module
        for kind in ("_forward_pre_hooks", "_forward_hooks"):
            yield from vars(module)[kind].values()


def _known(trainer: Any) -> list[Any]:
    """What callbacks and functions may refer to, and is no state of theirs."""
    optimizer = _inner_optimizer(trainer)
    names = "model_wrapped lr_scheduler accelerator args state control".split()
    names += ["train_dataset", "eval_dataset", "data_collator", "processing_class"]
    known = [getattr(trainer, name) for name in names]
    # What its state_dict contains.
    parts = [optimizer.state, optimizer.param_groups, optimizer.defaults]
    return [trainer, trainer.optimizer, optimizer, *parts, trainer.model, *known]


def _inner_optimizer(trainer: Any) -> Any:
    """The optimizer itself, which accelerate has wrapped."""
    return getattr(trainer.optimizer, "optimizer", trainer.optimizer)


def _stateful_callbacks(trainer: Any) -> Iterator[tuple[str, Any, Any]]:
    """The callbacks that keep a state, by the name of their class."""
    for callback in trainer.callback_handler.callbacks:
        name = type(callback).__qualname__
        if callable(getattr(callback, "state_dict", None)):
            if callable(getattr(callback, "load_state_dict", None)):
                yield name, callback, callback.state_dict()
        elif callable(getattr(callback, "state", None)):
            yield name, callback, callback.state()["attributes"]


def _fill_callback(callback: Any, saved: Any) -> None:
    if callable(getattr(callback, "load_state_dict", None)):
        callback.load_state_dict(saved)
        return
    for name, item in saved.items():
        setattr(callback, name, item)


def _as_number(thing: Any) -> Any:
    """What NumPy or torch has logged."""
    return thing.item() if hasattr(thing, "item") else str(thing)
