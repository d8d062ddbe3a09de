"""`durable` and the call of `fit` that it makes resumable.

Saves between two batches: variables, seed generators, the position in the data, and attributes that
have changed. What cannot be resumed exactly is refused.
"""

import contextlib
import functools
import inspect
import itertools
import math
import os
import types
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from typing import Any, Unpack

import numpy as np

from outlast._base.logs import get_logger
from outlast._base.options import takes_options
from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.position.sources import is_torch_loader
from outlast.checkpoint.position.worker_shield import shield_workers
from outlast.checkpoint.state.values import value
from outlast.errors import OutlastError
from outlast.integrations.evaluation_data import EvaluationLoader, KeptWorkers
from outlast.integrations.keras.fit_state import FitState, tensor_of
from outlast.integrations.versions import require
from outlast.run.driven import DrivenRun
from outlast.run.run import RunOptions

log = get_logger(__name__)

_BACKENDS = ("jax", "torch")
_GLOBAL_SEEDS = "global_seed_generator"
_HINT = "Write the loop with model.train_on_batch and outlast.Run instead."


class AlreadyDurable(OutlastError):
    """A model was made durable twice without a call of `fit` in between."""


@takes_options(RunOptions)
def durable(
    model: Any, url: str | os.PathLike[str] | None = None, **options: Unpack[RunOptions]
) -> Any:
    """Make the next call of `fit` resumable, and return the model.

    `url` and `options` are those of `outlast.Run`. After a notice, `fit` saves and raises
    `Interrupted`; called again in a new process, it continues with the next batch. One run is one
    call of `fit`. Later calls are not durable, unless `durable` is called again with another URL.
    """
    _require_keras()
    if "outlast_fit" in vars(model):
        raise AlreadyDurable(
            f"The model {model.name!r} is already durable.",
            hint="Call durable() once before each call of fit().",
        )
    run = DrivenRun(url, {}, **options)
    fit = model.fit

    @functools.wraps(fit)
    def durable_fit(*args: Any, **keywords: Any) -> Any:
        given = inspect.signature(fit).bind(*args, **keywords)
        given.apply_defaults()
        try:
            return _DurableFit(model, given.arguments, run).call(fit)
        finally:
            for name in ("fit", "outlast_fit"):
                vars(model).pop(name, None)

    # As attributes that Keras neither tracks nor saves with the model.
    object.__setattr__(model, "fit", durable_fit)
    object.__setattr__(model, "outlast_fit", run)
    return model


def _require_keras() -> None:
    """Raise unless a supported release of Keras is installed, with a supported backend."""
    require(
        "keras",
        extra="keras",
        at_least="3.13",
        below="3.16",
        needed_for="outlast.integrations.keras",
    )
    backend = import_module("keras").config.backend()
    if backend not in _BACKENDS:
        raise UnsupportedState(
            f"Keras uses the backend {backend!r}; outlast.integrations.keras supports "
            f"{' and '.join(_BACKENDS)}.",
            hint="Set KERAS_BACKEND.",
        )


class _DurableFit:
    """One call of `fit`. The run starts when Keras has built everything, and before any batch."""

    def __init__(self, model: Any, arguments: dict[str, Any], run: DrivenRun) -> None:
        self._keras: Any = import_module("keras")
        self._model = model
        self._run = run
        self._arguments = arguments
        self._epochs = min(arguments["epochs"], self._keras.config.max_epochs() or math.inf)
        self._progress = {"epoch": arguments["initial_epoch"]}
        self._stack = contextlib.ExitStack()
        self._callbacks = self._callback_list()
        self._fit_state = FitState(self._keras, model, self._given_callbacks)
        self._batches = 0
        self._validation = _validation(self._keras, arguments["validation_data"])
        # Keras starts persistent workers before the first pass, to see what a batch is like.
        shield_workers(arguments["x"])
        self._workers = KeptWorkers(arguments["x"], name="training")
        # The global seed generator when the current pass over the data began.
        self._seeds_at_pass: list[int] | None = None
        self._refusal: OutlastError | None = None
        run.state.update(
            {
                "progress": self._progress,
                "variables": value(self._fit_state.variables, self._fit_state.set_variables),
                "callbacks": value(self._fit_state.attributes, self._fit_state.set_attributes),
                "seeds": value(self._randomness, self._set_randomness),
            }
        )

    def call(self, fit: Callable[..., Any]) -> Any:
        before = self._model._initial_epoch
        object.__setattr__(self._model, "_symbolic_build", self._build)
        with self._stack:
            try:
                return fit(**{**self._arguments, "callbacks": self._callbacks})
            except Exception as error:
                if self._refusal is None or error is self._refusal:
                    raise
                # Keras synchronizes its state on the way out, and fails before the first batch.
                raise self._refusal from None
            finally:
                vars(self._model).pop("_symbolic_build", None)
                self._model._initial_epoch = before

    def _callback_list(self) -> Any:
        """The callbacks that Keras would call, and those of this class after them."""
        own = self._keras.callbacks.LambdaCallback(
            on_train_begin=lambda logs: self._begin(),
            on_epoch_end=lambda epoch, logs: self._end_epoch(epoch),
        )
        given, verbose = self._arguments["callbacks"], self._arguments["verbose"]
        if not isinstance(given, self._keras.callbacks.CallbackList):
            given = self._keras.callbacks.CallbackList(
                given, add_history=True, add_progbar=verbose != 0, model=self._model
            )
        given.callbacks.append(own)
        self._stack.callback(given.callbacks.remove, own)
        return given

    def _given_callbacks(self) -> list[Any]:
        """Those of the program and of Keras, once they are done with what was reported so far."""
        self._callbacks._flush_futures()
        return list(self._callbacks.callbacks[:-1])

    def _build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Build the model, as Keras does, and take over the iterator of the training data."""
        del vars(self._model)["_symbolic_build"]
        _refuse_inexact(self._keras, iterator)
        self._model._symbolic_build(iterator=iterator, data_batch=data_batch)
        self._batches = iterator.num_batches
        verbose = self._arguments["verbose"]
        params = {"verbose": verbose, "epochs": self._epochs, "steps": self._batches}
        self._callbacks.set_params(params)
        iterator._enumerate_iterator = lambda: self._enumerate(iterator)

    def _begin(self) -> None:
        self._fit_state.begin()
        self._stack.enter_context(self._run)
        epochs = self._epochs - self._arguments["initial_epoch"]
        has_work = self._run.begin(max(0, epochs) * self._batches)
        if not has_work and epochs > 0:
            self._run.warn_finished()
        self._model._initial_epoch = self._progress["epoch"] if has_work else self._epochs

    def _enumerate(self, iterator: Any) -> Iterator[tuple[int, int, Iterator[Any]]]:
        """What Keras' own iterator yields, from the first batch that is left."""
        done = self._run.position.batch
        if done:
            # The callbacks at the start of this epoch have run in an earlier process.
            self._fit_state.restore_again()
        self._fit_state.forget_restored()
        batches = self._rest_of_pass(iterator)
        for step in range(done, self._batches):
            iterator._steps_seen = step + 1
            yield step, step, batches
            # After the last batch comes the end of the epoch, in which the state is inconsistent.
            if step + 1 < self._batches:
                self._run.advance()
        batches.close()
        # Keras opens one more, which draws a random number.
        iter(iterator._get_iterator())
        iterator.data_adapter.on_epoch_end()

    def _rest_of_pass(self, iterator: Any) -> Generator[Any, None, None]:
        adapter = iterator.data_adapter
        loader = getattr(adapter, "_dataloader", None)
        if loader is None:
            if self._run.position.batch == 0:
                self._seeds_at_pass = _seeds()
            yield from self._pass_over(self._source(iterator))
            return
        adapter.on_epoch_begin()
        # The adapter converts what it iterates over. torch skips what was done without loading it.
        adapter._dataloader = self._pass_over(loader)
        try:
            yield from iterator._get_iterator()
        finally:
            adapter._dataloader = loader

    def _pass_over(self, loader: Any) -> Iterator[Any]:
        try:
            yield from self._tracked(loader)
        except OutlastError as error:
            self._refusal = error
            raise

    def _tracked(self, loader: Any) -> Iterator[Any]:
        position = self._run.position
        # Between two passes, what callbacks have drawn since the resume stays drawn.
        is_between = position.batch == 0
        return position.batches(loader, position.passes + 1, has_stepped=is_between)

    def _end_epoch(self, epoch: int) -> None:
        self._run.position.end_pass()
        self._progress["epoch"] = epoch + 1
        is_last = epoch + 1 >= self._epochs or self._model.stop_training
        self._run.advance(may_exit=not is_last)

    def _randomness(self) -> dict[str, Any]:
        """What draws random numbers, besides layers and the training data."""
        validation = self._validation
        self._workers.check()
        return {
            "global": _seeds(),
            "pass": self._seeds_at_pass,
            "validation": None if validation is None else validation.state(),
        }

    def _set_randomness(self, saved: Any) -> None:
        if not isinstance(saved, dict):
            # Earlier versions saved the global generator alone, if there was one.
            saved = {"global": saved, "pass": None, "validation": None}
        if saved["global"] is not None:
            _set_seeds(saved["global"])
        self._seeds_at_pass = saved["pass"]
        if self._validation is not None and saved["validation"] is not None:
            self._validation.restore(saved["validation"])

    def _source(self, iterator: Any) -> Any:
        """What one pass goes over, and from which all that decides its order can be found."""
        adapter = iterator.data_adapter
        if isinstance(adapter, _adapters().ArrayDataAdapter):
            found = iterator._get_iterator()
            if type(found).__module__.startswith("torch."):
                # It can skip batches without reading them.
                return found
        done = self._run.position.batch

        def begin() -> Iterator[Any]:
            now = _seeds()
            if done:
                _set_seeds(self._seeds_at_pass)
            # Part of the pass, because a data set may shuffle here.
            adapter.on_epoch_begin()
            batches = iter(iterator._get_iterator())
            yield from itertools.islice(batches, done)
            if done:
                # What is left is drawn as it would have been.
                _set_seeds(now)
            yield from batches

        return _Source(begin=begin, dataset=getattr(adapter, "py_dataset", None))


class _Source(types.SimpleNamespace):
    """One pass over data. A namespace, in which the search for random generators goes on."""

    def __iter__(self) -> Iterator[Any]:
        found: Iterator[Any] = self.begin()
        return found


class _Validation(EvaluationLoader):
    """Validation data other than arrays: what they keep from one validation to the next."""

    def __init__(self, data: Any) -> None:
        super().__init__(data, name="validation data")
        shield_workers(data)
        self._workers = KeptWorkers(data, name="validation")

    def state(self, *, left_out: frozenset[int] = frozenset()) -> dict[str, Any]:
        self._workers.check()
        return super().state(left_out=left_out)


def _validation(keras: Any, given: Any) -> _Validation | None:
    """What to save of the `validation_data` of a fit. Warns if that is not possible."""
    found = given[0] if isinstance(given, tuple | list) and given else given
    if isinstance(found, keras.utils.PyDataset) or is_torch_loader(found):
        return _Validation(found)
    is_array = found is None or _adapters().array_data_adapter.can_convert_arrays(found)
    if not is_array:
        log.warning(
            "The validation data are a %s, whose position and random generators cannot be saved: "
            "after a resume, validation metrics may differ from those of an uninterrupted run. Use "
            "arrays, a keras.utils.PyDataset or a torch DataLoader.",
            type(found).__qualname__,
        )
    return None


def _refuse_inexact(keras: Any, iterator: Any) -> None:
    """Refuse data whose order cannot be resumed exactly."""
    adapter, kinds = iterator.data_adapter, _adapters()
    exact = (kinds.ArrayDataAdapter, kinds.PyDatasetAdapter, kinds.TorchDataLoaderAdapter)
    if not isinstance(adapter, exact) or iterator.num_batches is None:
        problem = f"its data comes from {type(adapter).__name__}"
        hint = "Use arrays, a keras.utils.PyDataset or a torch DataLoader whose length is known."
    elif iterator.steps_per_epoch:
        problem, hint = "steps_per_epoch is set", "Let an epoch be one pass over the data."
    elif iterator.steps_per_execution != 1:
        problem, hint = "steps_per_execution is not 1", "Set it to 1 in compile()."
    elif getattr(adapter, "enqueuer", None) is not None:
        problem = "its PyDataset loads ahead with workers"
        hint = "Create it with workers=1 and use_multiprocessing=False."
    elif keras.distribution.distribution() is not None:
        problem, hint = "a keras.distribution is set", _HINT
    else:
        return
    raise UnsupportedState(f"fit() cannot be resumed exactly: {problem}.", hint=hint)


def _seeds() -> list[int] | None:
    """The state of Keras' global seed generator, if the program has used it."""
    found = _global_state().get_global_attribute(_GLOBAL_SEEDS)
    return None if found is None else np.asarray(tensor_of(found.state)).tolist()


def _set_seeds(saved: list[int] | None) -> None:
    if saved is None:
        # It is made when it is used, with a seed from Python's generator.
        _global_state().set_global_attribute(_GLOBAL_SEEDS, None)
        return
    seeds = import_module("keras.src.random.seed_generator")
    seeds.global_seed_generator().state.assign(np.asarray(saved))


def _adapters() -> Any:
    return import_module("keras.src.trainers.data_adapters")


def _global_state() -> Any:
    return import_module("keras.src.backend.common.global_state")
