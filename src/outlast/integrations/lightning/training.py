"""One `fit` of a Lightning trainer as a run: where it resumes, saves and stops.

Lightning's loops have no hook where nothing of a step is left to do, so some of their functions are
replaced while `fit` runs. A boundary is the end of a training batch with everything that follows
it: validation, schedulers, and at the end of an epoch its hooks. A step of the run is one such
boundary; with gradient accumulation, one update of the optimizer.
"""

import importlib
import os
import threading
from collections.abc import Callable
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.state.randomness import generators
from outlast.checkpoint.state.values import value
from outlast.integrations.lightning.checks import (
    check_module,
    check_single,
    check_trainer,
    check_untrained,
    warn_of_newer_files,
)
from outlast.integrations.lightning.loaders import TrainingData
from outlast.integrations.lightning.trainer_state import TrainerState, clear_restarting
from outlast.run.driven import DrivenRun

log = get_logger(__name__)


class DurableTraining:
    """Makes the `fit` of one trainer resume, save, and exit in time."""

    def __init__(
        self, url: str | os.PathLike[str] | None, options: dict[str, Any], package: str
    ) -> None:
        self._url = url
        self._options = options
        self._package = package
        self._trainer: Any = None
        self._ckpt_path: str | os.PathLike[str] | None = None
        self._run: DrivenRun | None = None
        self._has_fitted = False
        self.follows_another = False
        """Whether a durable `fit` of the same trainer came before, whose loops are restored."""
        self.is_over = False
        """Whether `fit` has trained to its end, or found that the run had finished."""
        self._replaced: list[tuple[Any, str]] = []
        self._random: Any = None

    def begin(self, trainer: Any) -> None:
        """Called by the `setup` hook: `fit` has started, and nothing is restored yet."""
        if self._has_fitted:
            raise RuntimeError(
                "This durable trainer has already called fit, and a run is one fit. Call durable "
                "again, with another URL, for the next phase of training."
            )
        if trainer.fast_dev_run:
            log.info("With fast_dev_run, nothing is saved and nothing is resumed.")
            return
        check_single(trainer)
        if not self.follows_another:
            check_untrained(trainer)
        check_trainer(trainer)
        check_module(trainer)
        # A tuner ends a fit before the run is open.
        self._give_back()
        self._trainer = trainer
        fit_loop = trainer.fit_loop
        combined = importlib.import_module(f"{self._package}.utilities.combined_loader")
        self._data = TrainingData(fit_loop, combined)
        self._state = TrainerState(trainer, self._data, self._package)
        # Opens the run where Lightning would install its own handlers.
        self._replace(trainer._signal_connector, "register_signal_handlers", self._open)
        self._replace(fit_loop, "_load_combined_loader_states", self._data.track)
        self._replace(fit_loop, "run", self._fit)
        # Also for the sanity check, whose workers may be kept.
        self._replace(fit_loop.epoch_loop.val_loop, "setup_data", self._set_up_validation())

    def note_file(self, trainer: Any) -> None:
        """Called by the `on_fit_start` hook: a callback after it may restore a file of its own."""
        self._ckpt_path = trainer.ckpt_path

    def fail(self, error: BaseException) -> None:
        """Called by the `on_exception` hook: close the run, which is not finished."""
        try:
            self._close(error)
        finally:
            self._give_back()

    def _open(self) -> None:
        trainer = self._trainer
        if trainer.world_size > 1:
            # Lightning's own launcher does not set it, and names of runs and notes depend on it.
            os.environ.setdefault("LOCAL_WORLD_SIZE", str(trainer.num_devices))
        state = {
            "model": trainer.lightning_module,
            "optimizers": list(trainer.optimizers),
            "trainer": value(self._state.get, self._state.set),
        }
        run = DrivenRun(self._url, state, **self._options)
        self._has_fitted = True
        run.__enter__()
        self._run = run
        self._data.keep_positions()
        run.guard.on_notice(lambda _: _let_children_exit())
        self._random = generators().get()
        if self._state.pending is None:
            # The sanity check of the validation follows, but never after a resume.
            self._state.begin()
            return
        if self._ckpt_path is not None:
            log.warning(
                "The run has a checkpoint of step %d, which is resumed. ckpt_path=%r, from which "
                "it was started, is not used again.",
                run.step,
                str(self._ckpt_path),
            )
        self._state.apply_early()
        warn_of_newer_files(trainer)
        run.remember_restored()
        # Lightning's own mark of a resume: no second sanity check.
        trainer.fit_loop.epoch_loop.val_loop._restarting = True

    def _fit(self) -> None:
        """In place of `fit_loop.run`."""
        fit_loop = self._trainer.fit_loop
        if self._run is None:
            # A callback that finds a learning rate, or a batch size, trains before `fit` does.
            type(fit_loop).run(fit_loop)
            return
        run = self._run
        if self._state.has_finished:
            run.warn_finished()
            self._state.pending = None
            self._finish()
            return
        run.begin()
        epoch_loop = fit_loop.epoch_loop
        self._replace(epoch_loop, "on_advance_end", self._end_batch())
        self._replace(fit_loop, "on_advance_end", self._end_epoch())
        if self._state.pending is not None:
            self._data.is_idle = True
            if self._state.in_epoch:
                self._replace(epoch_loop, "reset", lambda: None)
                self._replace(epoch_loop, "on_run_start", self._continue_epoch())
            self._replace(fit_loop, "on_advance_start", self._resume_epoch())
            clear_restarting(fit_loop)
        else:
            self._state.note_changes()
            self._replace(epoch_loop, "on_run_start", self._begin_epoch())
        type(fit_loop).run(fit_loop)
        self._state.finished_limits = self._state.limits
        self._state.in_epoch = False
        self._finish()

    def _finish(self) -> None:
        self._close(None)
        self._give_back()
        self.is_over = True

    def _begin_epoch(self) -> Callable[[Any], None]:
        """In place of the first `epoch_loop.on_run_start` of a run that starts."""
        epoch_loop = self._trainer.fit_loop.epoch_loop

        def on_run_start(fetcher: Any) -> None:
            vars(epoch_loop).pop("on_run_start")
            self._state.begin()
            epoch_loop.on_run_start(fetcher)

        return on_run_start

    def _resume_epoch(self) -> Callable[[], None]:
        """In place of the first `fit_loop.on_advance_start` after a resume."""
        fit_loop, state = self._trainer.fit_loop, self._state

        def on_advance_start() -> None:
            vars(fit_loop).pop("on_advance_start")
            if state.in_epoch:
                self._prepare_epoch_again()
                return
            # What the hooks have done to the model, they did before the save too.
            self._opened.undo_changes()
            state.apply_late()
            assert state.pending is not None, "It is only called after a resume."
            self._data.restore(state.pending["data"])
            state.pending = None
            self._data.is_idle = False
            generators().set(self._random)
            fit_loop.on_advance_start()

        return on_advance_start

    def _prepare_epoch_again(self) -> None:
        """Call the hooks that prepare an epoch: they may set what is saved nowhere."""
        trainer, fit_loop = self._trainer, self._trainer.fit_loop
        fit_loop.setup_data()
        fabric = "lightning.fabric" if "." in self._package else "lightning_fabric"
        data = importlib.import_module(f"{fabric}.utilities.data")
        for loader in fit_loop._combined_loader.flattened:
            data._set_sampler_epoch(loader, fit_loop.epoch_progress.current.processed)
        calls = importlib.import_module(f"{self._package}.trainer.call")
        calls._call_callback_hooks(trainer, "on_train_epoch_start")
        calls._call_lightning_module_hook(trainer, "on_train_epoch_start")

    def _continue_epoch(self) -> Callable[[Any], None]:
        """In place of the first `epoch_loop.on_run_start` after a resume within an epoch."""
        fit_loop, state = self._trainer.fit_loop, self._state
        epoch_loop = fit_loop.epoch_loop

        def on_run_start(fetcher: Any) -> None:
            for name in ("on_run_start", "reset"):
                vars(epoch_loop).pop(name)
            self._opened.undo_changes()
            state.apply_late()
            saved = state.pending
            assert saved is not None, "It is only called after a resume."
            self._data.is_idle = False
            self._data.restore(saved["data"])
            self._data.reopen(saved["data"], self._random)
            state.pending = None
            # It would start another pass over the loaders otherwise.
            epoch_loop._restarting = True
            epoch_loop.on_run_start(fetcher)
            clear_restarting(fit_loop)
            generators().set(self._random)

        return on_run_start

    def _end_batch(self) -> Callable[[Any], None]:
        trainer, fit_loop, state = self._trainer, self._trainer.fit_loop, self._state
        loop, validation = fit_loop.epoch_loop, state.validation
        progress, end, advance = loop.batch_progress, loop.on_advance_end, self._opened.advance

        def on_advance_end(fetcher: Any) -> None:
            end(fetcher)
            validation.check()
            # The end of the epoch belongs to its last batch.
            if progress.is_last_batch or progress.current.ready == fit_loop.max_batches:
                return
            if loop.max_steps != -1 and loop.global_step >= loop.max_steps:
                return
            if trainer.accumulate_grad_batches != 1 and loop._should_accumulate():
                return
            if trainer.should_stop and loop.done:
                return
            state.in_epoch = True
            advance()

        return on_advance_end

    def _end_epoch(self) -> Callable[[], None]:
        fit_loop, end = self._trainer.fit_loop, self._trainer.fit_loop.on_advance_end

        def on_advance_end() -> None:
            end()
            self._data.end_epoch()
            self._state.in_epoch = False
            self._opened.advance(may_exit=not self._is_last_epoch(fit_loop))

        return on_advance_end

    def _is_last_epoch(self, fit_loop: Any) -> bool:
        """What `fit_loop.done` will be, which logs each time it is asked."""
        steps, epochs = fit_loop.max_steps, fit_loop.max_epochs
        if steps != -1 and fit_loop.epoch_loop.global_step >= steps:
            return True
        if epochs != -1 and fit_loop.epoch_progress.current.processed >= epochs:
            return True
        return bool(self._trainer.should_stop and fit_loop._can_stop_early)

    def _set_up_validation(self) -> Callable[[], None]:
        val_loop = self._trainer.fit_loop.epoch_loop.val_loop
        set_up = val_loop.setup_data

        def setup_data() -> None:
            set_up()
            self._state.validation.track()

        return setup_data

    @property
    def _opened(self) -> DrivenRun:
        assert self._run is not None, "The run is open while the loops are running."
        return self._run

    def _close(self, error: BaseException | None) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.__exit__(None if error is None else type(error), error, None)

    def _replace(self, thing: Any, name: str, function: Callable[..., Any]) -> None:
        setattr(thing, name, function)
        self._replaced.append((thing, name))

    def _give_back(self) -> None:
        """Leave Lightning's objects as they were, for `test` or `predict` with the same trainer."""
        for thing, name in self._replaced:
            vars(thing).pop(name, None)
        self._replaced.clear()
        if self._trainer is not None:
            self._data.release()
            self._state.validation.release()


def _let_children_exit() -> None:
    """Keep Lightning's launcher from killing this process because another rank has exited.

    Each rank exits with the code of an interruption, at slightly different moments.
    """
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            vars(thread)["_child_processes"] = []
