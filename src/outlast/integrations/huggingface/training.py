"""One training of a durable trainer: opens the run, saves between steps, continues where it was.

A state is saved after the optimizer's step and before the trainer logs, evaluates and writes its
own checkpoints. A process that resumes does that first. So a notice never waits for an evaluation.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.runs.catalog import manifest_names
from outlast.checkpoint.state.randomness import generators
from outlast.checkpoint.state.values import value
from outlast.errors import OutlastError
from outlast.integrations.huggingface.arguments import compare_arguments, decisive_arguments
from outlast.integrations.huggingface.batches import TrainingBatches, unread
from outlast.integrations.huggingface.best import BestModel
from outlast.integrations.huggingface.evaluation import TrainerEvaluation
from outlast.integrations.huggingface.parts import state_of
from outlast.integrations.huggingface.progress import TrainerProgress, has_own_hooks
from outlast.integrations.plain import encoded
from outlast.run.driven import DrivenRun
from outlast.storage import open_store

log = get_logger(__name__)

_RESUMED = "an outlast run"


class DurableTraining:
    """What `durable` adds to a trainer."""

    def __init__(self, trainer: Any, url: str, options: Any) -> None:
        self._trainer = trainer
        self._url = url
        self._options = options
        self._stack: ExitStack | None = None
        self._run: DrivenRun | None = None
        self._progress: TrainerProgress | None = None
        self._evaluation: TrainerEvaluation | None = None
        # What was restored, until the loop begins.
        self._saved: dict[str, Any] | None = None
        self._random: Any = None
        self._arguments: dict[str, Any] = {}
        self._updates_per_epoch = 0
        self._epoch = 0
        # The optimizer's steps of this epoch.
        self._updates = 0
        # Whether the trainer has yet to log, evaluate and save after the last step.
        self._is_pending = False
        # Whether no epoch has begun in this process.
        self._is_first_epoch = True
        self._output: list[Any] | None = None
        self.batches = TrainingBatches()
        self.loader: Any = None
        self.prepared: Any = None
        self.step = 0
        """The number of completed steps."""
        self.last_step: tuple[Any, Any] = (None, None)
        """The norm of the gradient and the learning rate of the last step."""
        self.is_resumed = False
        self.is_finished = False
        """Whether the run was finished before this process."""

    @contextmanager
    def opened(self, folder: Any, trial: Any) -> Iterator[Any]:
        """Train inside; yields the folder of the trainer's own that it is to start from."""
        check_start(trial, is_used=self._stack is not None)
        with ExitStack() as self._stack:
            yield start_folder(self._url, folder)

    def start(
        self, at: tuple[int, int], max_steps: int, updates: int, epochs: int, folder: Any
    ) -> tuple[int, int]:
        """Open the run, with the trainer prepared; returns the epoch and the batch to go on with.

        `at` is where the trainer would begin by itself.
        """
        trainer = self._trainer
        self._updates_per_epoch = updates
        # Before a callback changes them.
        self._arguments = decisive_arguments(trainer.args)
        self._progress = TrainerProgress(trainer)
        self._evaluation = TrainerEvaluation(trainer)
        state = state_of(trainer) | {"trainer": value(self._read, self._write)}
        if trainer.args.load_best_model_at_end:
            state["best"] = BestModel(trainer).part()
        assert self._stack is not None, "The trainer trains inside `opened`."
        self._run = self._stack.enter_context(DrivenRun(self._url, state, **self._options))
        self._random = generators().get()
        self.is_resumed = self._saved is not None
        if self._saved is not None:
            compare_arguments(self._saved.get("arguments", {}), self._arguments)
        if not self.is_resumed:
            self._start_from(folder, at)
        elif has_own_hooks(trainer):
            # They may change the model when a training or an epoch begins, and have done so before.
            self._run.remember_restored()
        self.step = trainer.state.global_step
        if not self._run.begin(max_steps, completed=self.step):
            self.is_finished = True
            self._run.warn_finished()
            return epochs, 0
        return (self._epoch, self.batches.done) if self.is_resumed else at

    def begin_epoch(self, arguments: dict[str, Any]) -> None:
        """Begin an epoch or go on with one. Changes the arguments that the trainer gave it."""
        assert self._run is not None, "The run was opened before the first epoch."
        assert self._progress is not None, "It is made before the run is opened."
        self._epoch = arguments["epoch"]
        if self._is_first_epoch:
            self._run.undo_changes()
            self._progress.begin()
            self._is_first_epoch = False
        if self._saved is None:
            self._updates = self.batches.done // max(1, self._accumulation)
            is_over = False
        else:
            arguments["resume_from_checkpoint"] = _RESUMED
            is_over = self._go_on(arguments)
        if is_over:
            arguments["num_update_steps_per_epoch"] = 0
        loader, epoch = arguments["train_dataloader"], arguments["epoch"]
        self.batches.begin(self._run.position, loader, epoch, is_over=is_over)
        is_continued = (
            arguments["resume_from_checkpoint"] is not None
            and epoch == arguments["epochs_trained"]
            and arguments["steps_trained_in_current_epoch"] > 0
        )
        arguments["train_dataloader"] = unread(loader, is_continued=is_continued)

    def complete_step(self, grad_norm: Any, learning_rate: Any) -> None:
        """A step is complete. Saves if due; exits after a notice."""
        assert self._run is not None, "The run was opened before the first step."
        self.step += 1
        self._updates += 1
        self.last_step = (grad_norm, learning_rate)
        self._is_pending = True
        self._run.advance()
        self._is_pending = False

    def track_evaluation(self, loader: Any) -> None:
        """The trainer evaluates with this loader. It may do so before it trains."""
        if self._evaluation is not None:
            self._evaluation.track(loader)

    def end_epoch(self) -> None:
        """An epoch is over, with everything that the trainer does at its end."""
        control = self._trainer.control
        if self._updates == self._updates_per_epoch or not control.should_training_stop:
            self._epoch += 1
            self._updates = 0
            self.batches.close_epoch()

    def finish(self, output: Any) -> None:
        """The training is over, with this result."""
        self._output = [output.training_loss, encoded(output.metrics)]

    def output(self) -> Any:
        """The result of a run that was finished before this process."""
        assert self._saved is not None and self._progress is not None, "It was restored."
        self._progress.write(self._saved["progress"])
        self._restore_evaluation(self._saved)
        self._trainer.is_in_train = False
        return finished_output(self.step, self._saved["output"])

    @property
    def _accumulation(self) -> int:
        steps: int = self._trainer.args.gradient_accumulation_steps
        return steps

    def _is_epoch_over(self) -> bool:
        """Whether the step that was completed is the last one of its epoch."""
        control = self._trainer.control
        return bool(
            self._updates == self._updates_per_epoch
            or self.batches.are_over
            or control.should_epoch_stop
            or control.should_training_stop
        )

    def _start_from(self, folder: Any, at: tuple[int, int]) -> None:
        """Begin a run without checkpoints."""
        self._epoch, done = at
        if folder is None:
            return
        self._trainer._load_rng_state(folder)  # noqa: SLF001 - the trainer does it as late as this
        assert self._run is not None, "The run is open."
        self.batches.skip(self._run.position, self.loader, self._epoch, done)

    def _go_on(self, arguments: dict[str, Any]) -> bool:
        """Continue in the middle of an epoch; returns whether it was the last step of it."""
        assert self._saved is not None and self._progress is not None, "It was restored."
        assert self._run is not None, "The run is open."
        saved, self._saved = self._saved, None
        self._progress.write(saved["progress"])
        if saved["output"] is not None:
            # It was finished, and is to train longer now.
            control = self._trainer.control
            control.should_training_stop = control.should_epoch_stop = False
        self._updates = saved["updates"]
        self._restore_evaluation(saved)
        generators().set(self._random)
        if not saved["pending"]:
            return False
        trainer = self._trainer
        names = ("model", "trial", "epoch", "ignore_keys_for_eval", "start_time")
        with self.batches.lent(self._run.position, arguments["train_dataloader"]):
            trainer._maybe_log_save_evaluate(  # noqa: SLF001 - the trainer was about to do this
                trainer._tr_loss,  # noqa: SLF001
                self.last_step[0],
                *(arguments[name] for name in names),
                learning_rate=self.last_step[1],
            )
        # What follows may have told it to stop, too.
        control = trainer.control
        return bool(saved["over"] or control.should_epoch_stop or control.should_training_stop)

    def _restore_evaluation(self, saved: dict[str, Any]) -> None:
        assert self._evaluation is not None, "It is made before the run is opened."
        if "evaluation" in saved:
            self._evaluation.write(saved["evaluation"])

    def _read(self) -> dict[str, Any]:
        if self._saved is not None:
            # Not continued yet: this is still what there is to continue from.
            return self._saved
        assert self._progress is not None, "It is made before the run is opened."
        assert self._evaluation is not None, "It is made before the run is opened."
        grad_norm, learning_rate = self.last_step
        return {
            # A copy, because a restore fills it.
            "arguments": dict(self._arguments),
            "epoch": self._epoch,
            "updates": self._updates,
            "pending": self._is_pending,
            "over": self._is_pending and self._is_epoch_over(),
            "last": [encoded(grad_norm), encoded(learning_rate)],
            "batches": self.batches.record(),
            "progress": self._progress.read(),
            "evaluation": self._evaluation.read(),
            "output": self._output,
        }

    def _write(self, saved: dict[str, Any]) -> None:
        assert self._progress is not None, "It is made before the run is opened."
        self._saved = saved
        self._epoch = saved["epoch"]
        grad_norm, learning_rate = saved["last"]
        self.last_step = (grad_norm, learning_rate)
        self.batches.resume(saved["batches"])
        self._progress.write_state(saved["progress"])


def check_start(trial: Any, *, is_used: bool) -> None:
    """Raise if a training cannot start."""
    if is_used:
        raise OutlastError(
            "This trainer has already trained its run.",
            hint="Make a new trainer, and give durable another URL for another run.",
        )
    if trial is not None:
        raise OutlastError(
            "A durable trainer cannot be used in a hyperparameter search.",
            hint="Start one process with a URL of its own for each trial.",
        )


def start_folder(url: str, folder: Any) -> Any:
    """The folder of the trainer's own to start from; None if the run has checkpoints."""
    if not folder or not manifest_names(open_store(url)):
        return folder
    log.warning(
        "The run in %s has checkpoints, so it continues there; resume_from_checkpoint=%r is "
        "ignored.",
        url,
        folder,
    )
    return None


def finished_output(step: int, saved: list[Any]) -> Any:
    """The result of a run that was finished before this process."""
    loss, metrics = saved
    return import_module("transformers.trainer_utils").TrainOutput(step, loss, metrics)
