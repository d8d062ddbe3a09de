"""Make a loop with Hugging Face accelerate durable.

    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with durable(accelerator, "gs://runs/tiny") as run:
        for batch in run.batches(loader, epochs=3):
            ...

The run saves everything that was prepared or registered, and the position in prepared loaders. It
does not use the `save_state` of accelerate, which works as before. Nothing is saved in the middle
of gradient accumulation.
"""

import gc
import os
import sys
import weakref
from collections.abc import Iterable, Iterator
from types import GeneratorType, TracebackType
from typing import Any, Self, Unpack

from outlast._base.logs import get_logger
from outlast._base.options import takes_options
from outlast.checkpoint.errors import StateMismatch, UnsupportedState
from outlast.checkpoint.position.read_ahead import ReadAhead
from outlast.checkpoint.state.values import value
from outlast.integrations.attributes import NO_ATTRIBUTES, ChangedAttributes
from outlast.integrations.evaluation_data import EvaluationLoader, parts_of
from outlast.integrations.schedulers import inner, schedulers_of
from outlast.integrations.versions import require
from outlast.run.run import Run, RunOptions

log = get_logger(__name__)

_LOOKS_MAX = 3
_TYPES = (
    "NO MULTI_CPU MULTI_GPU MULTI_NPU MULTI_MLU MULTI_SDAA MULTI_MUSA MULTI_XPU MULTI_HPU"
).split()
_open: "weakref.WeakKeyDictionary[Any, Run]" = weakref.WeakKeyDictionary()


@takes_options(RunOptions)
def durable(
    accelerator: Any, url: str | os.PathLike[str] | None = None, **options: Unpack[RunOptions]
) -> Run:
    """A run over all that an `Accelerator` has prepared or registered for checkpointing.

    Call it after `prepare` and `register_for_checkpointing`. Learning-rate schedulers of prepared
    optimizers are saved whether they were prepared or not. Loop with `run.batches(loader)`,
    `run.epochs` or `run.steps`; do not skip batches yourself.

    Raises `UnsupportedVersion` for a release of accelerate that was not tested, and
    `UnsupportedState` for DeepSpeed, FSDP, Megatron-LM and others whose state accelerate
    does not keep in the prepared objects.
    """
    require(
        "accelerate",
        extra="accelerate",
        at_least="1.12",
        below="1.16",
        needed_for="outlast.integrations.accelerate",
    )
    _refuse_unsupported(accelerator)
    return AcceleratedRun(accelerator, url, **options)


class AcceleratedRun(Run):
    """What `durable` returns."""

    def __init__(
        self,
        accelerator: Any,
        url: str | os.PathLike[str] | None,
        **options: Unpack[RunOptions],
    ) -> None:
        self._accelerator = accelerator
        self._loaders = list(accelerator._dataloaders)  # noqa: SLF001 - nothing public has them
        self._saved_things = _prepared(accelerator)
        # By the loader's id, as long as this holds the loader.
        self._read_aheads: dict[int, ReadAhead] = {}
        self._evaluation = [
            EvaluationLoader(getattr(one, "base_dataloader", one), name="evaluation loader")
            for one in self._loaders
        ]
        # What decides the order of those that the run goes through, by their numbers.
        self._trained: dict[int, frozenset[int]] = {}
        self._looks_left = _LOOKS_MAX
        self._attributes = ChangedAttributes(
            lambda: _modules_of(accelerator),
            known=lambda: [accelerator, *self._saved_things],
            ignored=frozenset(vars(sys.modules["torch"].nn.Module())) - {"training"},
        )
        evaluation = value(self._read_evaluation, self._write_evaluation)
        state = _state_of(accelerator, self._loaders, evaluation, self._attributes)
        super().__init__(url, state, **options)
        gradients = accelerator.gradient_state
        self._loops.is_complete = lambda: gradients.sync_gradients

    def __enter__(self) -> Self:
        _refuse_second(self._accelerator)
        self._attributes.begin()
        found = super().__enter__()
        _open[self._accelerator] = self
        return found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _open.pop(self._accelerator, None)
        super().__exit__(kind, error, trace)

    def epochs(self, count: int) -> Iterator[int]:
        self._refuse_late()
        return super().epochs(count)

    def steps(self, count: int, *, accumulate: int = 1) -> Iterator[int]:
        self._refuse_late()
        return super().steps(count, accumulate=accumulate)

    def batches(
        self, loader: Iterable[Any], *, epochs: int = 1, accumulate: int = 1
    ) -> Iterator[Any]:
        self._refuse_late()
        if _is_prepared(loader):
            is_known = any(loader is one for one in self._loaders)
            _refuse_loader(loader, is_known=is_known)
            ahead = self._read_aheads.get(id(loader)) or _read_ahead(loader)
            for number, one in enumerate(self._loaders):
                if one is loader and number not in self._trained:
                    self._trained[number] = parts_of(ahead.loader)
            self._read_aheads[id(loader)] = loader = ahead
        return super().batches(loader, epochs=epochs, accumulate=accumulate)

    def _read_evaluation(self) -> list[dict[str, Any] | None]:
        """What the prepared loaders keep that the program goes through by itself."""
        self._warn_of_other_passes()
        left_out = frozenset[int]().union(*self._trained.values())
        return [
            None if number in self._trained else one.state(left_out=left_out)
            for number, one in enumerate(self._evaluation)
        ]

    def _warn_of_other_passes(self) -> None:
        """Warn of a loader, other than the run's, that the program is in the middle of."""
        # accelerate also lists loaders whose loop has ended with `break`.
        begun = self._accelerator.gradient_state.dataloader_references
        others = [one for one in begun if one is not None and id(one) not in self._read_aheads]
        if not others or not self._looks_left:
            return
        self._looks_left -= 1
        if any(map(_is_in_progress, others)):
            self._looks_left = 0
            log.warning(
                "A prepared loader is in the middle of a pass that the program makes by itself. "
                "Its position is not saved, so after a resume it begins again, and the result "
                "differs from that of an uninterrupted run. Combine the data sets in one loader, "
                "and go through it with run.batches."
            )

    def _write_evaluation(self, saved: list[dict[str, Any] | None]) -> None:
        for number, (one, found) in enumerate(zip(self._evaluation, saved, strict=True)):
            if found is None:
                self._trained[number] = parts_of(one.loader)
            else:
                one.restore(found)

    def _refuse_late(self) -> None:
        """What is prepared once the run has resumed is not in its state."""
        for thing in _prepared(self._accelerator):
            if not any(thing is one for one in self._saved_things):
                raise UnsupportedState(
                    f"An object of class {type(thing).__qualname__} was prepared or registered "
                    "after durable(), so it would not be saved.",
                    hint="Call durable() after accelerator.prepare and register_for_checkpointing.",
                )


def _refuse_unsupported(accelerator: Any) -> None:
    _refuse_second(accelerator)
    kind = accelerator.distributed_type.value
    parallel = getattr(accelerator, "parallelism_config", None)
    if kind not in _TYPES or parallel is not None:
        raise UnsupportedState(
            f"The accelerator uses {kind if kind not in _TYPES else 'a parallelism_config'}, which "
            "outlast.integrations.accelerate does not support.",
            hint="Use accelerate with one process or with DistributedDataParallel. For FSDP2, use "
            "torch's fully_shard with outlast.Run.",
        )
    if accelerator.mixed_precision == "fp8":
        raise UnsupportedState(
            "The accelerator uses mixed_precision='fp8', whose scaling factors cannot be saved.",
            hint="Use mixed_precision='bf16'.",
        )
    hook = getattr(getattr(accelerator.ddp_handler, "comm_hook", None), "name", "")
    if "POWER_SGD" in hook:
        raise UnsupportedState(
            f"The accelerator uses the communication hook {hook}, whose state cannot be saved.",
            hint="Use the hook FP16 or BF16, or none.",
        )
    if not _prepared(accelerator):
        raise UnsupportedState(
            "The accelerator has nothing to save: no model, optimizer or other object was prepared "
            "or registered.",
            hint="Call durable() after accelerator.prepare(model, optimizer, loader).",
        )


def _refuse_second(accelerator: Any) -> None:
    if accelerator in _open:
        raise RuntimeError(
            "This accelerator already has an open run. Leave its `with` block before opening "
            "another one."
        )


def _prepared(accelerator: Any) -> list[Any]:
    """Everything with a state, except loaders."""
    return [
        *accelerator._models,  # noqa: SLF001 - here and below: nothing public has them
        *accelerator._optimizers,  # noqa: SLF001
        *accelerator._schedulers,  # noqa: SLF001
        *accelerator._custom_objects,  # noqa: SLF001
    ]


def _state_of(
    accelerator: Any, loaders: list[Any], evaluation: value, attributes: ChangedAttributes
) -> dict[str, Any]:
    # Without accelerate's wrappers, so that a checkpoint does not depend on how it was launched.
    optimizers = [one.optimizer for one in accelerator._optimizers]  # noqa: SLF001
    schedulers = [one.scheduler for one in accelerator._schedulers]  # noqa: SLF001
    custom = list(accelerator._custom_objects)  # noqa: SLF001
    state: dict[str, Any] = {
        "models": [_unwrapped(one) for one in _models_of(accelerator)],
        "optimizers": optimizers,
        "schedulers": schedulers,
        "registered": custom,
        "other_schedulers": _other_schedulers(optimizers, [*schedulers, *custom]),
        "accelerator": _counters(accelerator, loaders, evaluation, attributes),
    }
    if accelerator.scaler is not None:
        state["scaler"] = accelerator.scaler
    return state


def _unwrapped(model: Any) -> Any:
    distributed = sys.modules["torch"].nn.parallel.DistributedDataParallel
    while isinstance(model, distributed) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, distributed) else model._orig_mod  # noqa: SLF001 - a compiled model has no public name for it
    return model


def _modules_of(accelerator: Any) -> dict[str, Any]:
    """The prepared models with all inside, by names that do not depend on how it was launched."""
    return {
        f"models.{number}.{name}": one
        for number, model in enumerate(_models_of(accelerator))
        for name, one in _unwrapped(model).named_modules()
    }


def _models_of(accelerator: Any) -> list[Any]:
    found: list[Any] = accelerator._models  # noqa: SLF001 - as above
    return found


def _distributed(accelerator: Any) -> list[Any]:
    """The DistributedDataParallel around each prepared model, to which accelerate has no path."""
    kind: Any = sys.modules["torch"].nn.parallel.DistributedDataParallel
    found = {id(one.module): one for one in gc.get_referrers(kind) if type(one) is kind}
    return [found.get(id(model)) for model in _models_of(accelerator)]


def _other_schedulers(optimizers: list[Any], known: list[Any]) -> list[Any]:
    """The schedulers of prepared optimizers that accelerate does not know of.

    They change the learning rate, so a run that lost them would go on with another one.
    """
    found = schedulers_of(optimizers, known)
    names = [f"{optimizers.index(inner(one.optimizer))} {type(one).__name__}" for one in found]
    if len(set(names)) < len(names):
        raise UnsupportedState(
            f"An optimizer has several schedulers of the class {type(found[0]).__qualname__} that "
            "were not prepared, so they cannot be told apart in another process.",
            hint="Pass them to accelerator.prepare or accelerator.register_for_checkpointing.",
        )
    return [one for _, one in sorted(zip(names, found, strict=True), key=lambda pair: pair[0])]


def _counters(
    accelerator: Any, loaders: list[Any], evaluation: value, attributes: ChangedAttributes
) -> value:
    """What accelerate counts itself: accumulated steps, epochs of each loader, its own saves.

    And what loaders keep that are not trained with, what has changed in attributes of models, and
    whether DistributedDataParallel sends the buffers of the first process to the others before the
    next forward pass: not after one without gradients, such as an evaluation.
    """
    distributed = _distributed(accelerator)

    def get() -> dict[str, Any]:
        return {
            "step": accelerator.step,
            "save_iteration": accelerator.project_configuration.iteration,
            "iterations": [getattr(one, "iteration", 0) for one in loaders],
            "has_first_iterators": [_has_first_iterator(one) for one in loaders],
            "evaluation": evaluation.get(),
            "attributes": attributes.read(),
            "sends_buffers": [
                None if one is None else one.require_forward_param_sync for one in distributed
            ],
        }

    def set_(saved: dict[str, Any]) -> None:
        count = len(saved["iterations"])
        if count != len(loaders):
            difference = f"prepared loaders: {count} saved, {len(loaders)} in this program"
            raise StateMismatch(
                "The checkpoint does not match the accelerator:", differences=(difference,)
            )
        accelerator.step = saved["step"]
        accelerator.project_configuration.iteration = saved["save_iteration"]
        for one, iteration in zip(loaders, saved["iterations"], strict=True):
            if hasattr(one, "iteration"):
                one.iteration = iteration
        for one, has_first in zip(loaders, saved["has_first_iterators"], strict=True):
            _set_first_iterator(one, has_first)
        if "evaluation" in saved:
            evaluation.set(saved["evaluation"])
        attributes.write(saved.get("attributes", NO_ATTRIBUTES))
        for one, sends in zip(distributed, saved.get("sends_buffers", ()), strict=False):
            if one is not None and sends is not None:
                one.require_forward_param_sync = sends

    return value(get, set_)


def _is_prepared(loader: Any) -> bool:
    data: Any = sys.modules["accelerate"].data_loader
    # The type itself: these loaders claim to be of the class that they wrap.
    return issubclass(type(loader), data.DataLoaderAdapter)


def _refuse_loader(loader: Any, *, is_known: bool) -> None:
    batches = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    if getattr(batches, "even_batches", True) is False and not batches.drop_last:
        raise UnsupportedState(
            "With even_batches=False, processes may get different numbers of batches, so they "
            "cannot save at the same step.",
            hint="Use even_batches=True, or drop_last=True.",
        )
    parts = [batches, getattr(batches, "sampler", None), loader.dataset]
    parts.append(getattr(getattr(batches, "batch_sampler", None), "sampler", None))
    numbered = [one for one in parts if callable(getattr(one, "set_epoch", None))]
    if numbered and not is_known:
        raise UnsupportedState(
            "The loader was not prepared before durable(), and its "
            f"{type(numbered[0]).__qualname__} depends on the number of the epoch, which would not "
            "be saved.",
            hint="Prepare the loader before durable().",
        )


def _is_in_progress(loader: Any) -> bool:
    """Whether an iterator of a prepared loader is between its first and its last batch."""
    return any(
        type(one) is GeneratorType
        and one.gi_code is type(loader).__iter__.__code__
        and one.gi_frame is not None
        for one in gc.get_referrers(loader)
    )


def _read_ahead(loader: Any) -> ReadAhead:
    data: Any = sys.modules["accelerate"].data_loader
    is_dispatcher = type(loader) is data.DataLoaderDispatcher

    def skipped() -> None:
        # As at the end of a pass that hands out batches.
        loader.iteration += 1

    return ReadAhead(
        loader,
        name="base_dataloader",
        fetch=1 if not is_dispatcher or loader.split_batches else loader.state.num_processes,
        # A dispatcher completes its last batch with its first one.
        skips=type(loader) is data.DataLoaderShard and not loader.skip_batches,
        prepare=lambda saved: _prepare(loader, saved),
        skipped=skipped,
    )


def _prepare(loader: Any, saved: dict[str, Any] | None) -> dict[str, Any]:
    """Do what a prepared loader does to the loader inside when it is iterated over."""
    has_first = _has_first_iterator(loader)
    if saved is not None:
        _set_first_iterator(loader, has_first := saved["has_first_iterator"])
        if hasattr(loader, "iteration"):
            loader.iteration = saved["iteration"]
    if getattr(loader, "rng_types", None) is not None:
        data: Any = sys.modules["accelerate"].data_loader
        data.synchronize_rng_states(loader.rng_types, loader.synchronized_generator)
    if hasattr(loader, "iteration"):
        loader.set_epoch(loader.iteration)
    return {"iteration": getattr(loader, "iteration", 0), "has_first_iterator": has_first}


def _has_first_iterator(loader: Any) -> bool:
    """Whether a stateful loader has the iterator that it made, with a seed, when it was prepared.

    Its first pass then draws no seed, unlike all others.
    """
    return bool(getattr(loader.base_dataloader, "_initial_iter_for_state_dict", False))


def _set_first_iterator(loader: Any, should_have: bool) -> None:
    has = _has_first_iterator(loader)
    if has and not should_have:
        loader.base_dataloader.load_state_dict({})
    elif should_have and not has:
        # Makes one, and draws a seed: the generators are set again before they are used.
        loader.base_dataloader.load_state_dict({})
        loader.base_dataloader.state_dict()
