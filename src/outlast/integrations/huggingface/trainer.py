"""The methods of a trainer that change when it is durable. Each does what it did, and reports."""

from collections.abc import Iterator
from typing import Any

from outlast.integrations.huggingface.training import DurableTraining

# The class that this is mixed into; see `durable`.
_Trainer: Any = object


class DurableTrainer(_Trainer):  # type: ignore[misc]  # the base is not known before it is mixed in
    """Comes before the class of a trainer. `_outlast` is set before this class is."""

    _outlast: DurableTraining

    def train(
        self, resume_from_checkpoint: Any = None, trial: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        with self._outlast.opened(resume_from_checkpoint, trial) as folder:
            return super().train(folder, trial, *args, **kwargs)

    def set_initial_training_values(self, args: Any, dataloader: Any, *rest: Any) -> Any:
        values = super().set_initial_training_values(args, dataloader, *rest)
        self._outlast.loader = dataloader
        return values

    def _init_training_state(
        self, max_steps: int, updates: int, epochs: int, folder: Any, trial: Any
    ) -> tuple[int, int]:
        at = super()._init_training_state(max_steps, updates, epochs, folder, trial)
        outlast = self._outlast
        # The trainer does this next: it makes the optimizer and the scheduler, which are filled.
        outlast.prepared = super()._prepare_for_training(max_steps, outlast.loader, folder)
        return outlast.start(at, max_steps, updates, epochs, folder)

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Any:
        return self._outlast.prepared

    def _evaluate(self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False) -> Any:
        if skip_scheduler and self._outlast.is_resumed:
            # The evaluation before the first step: an earlier process has done it.
            return {}
        return super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)

    def get_eval_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        loader = super().get_eval_dataloader(*args, **kwargs)
        self._outlast.track_evaluation(loader)
        return loader

    def _run_epoch(self, **kwargs: Any) -> None:
        self._outlast.begin_epoch(kwargs)
        super()._run_epoch(**kwargs)
        self._outlast.end_epoch()

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, *rest: Any) -> Any:
        batches = self._outlast.batches
        found = super().get_batch_samples(batches.take(), num_batches, *rest)
        batches.handed_out(len(found[0]))
        return found

    def _load_rng_state(self, checkpoint: Any) -> None:
        if not self._outlast.is_resumed:
            super()._load_rng_state(checkpoint)

    def _maybe_log_save_evaluate(
        self, tr_loss: Any, grad_norm: Any, *rest: Any, learning_rate: Any = None
    ) -> None:
        outlast = self._outlast
        if self.state.global_step != outlast.step:
            outlast.complete_step(grad_norm, learning_rate)
        elif learning_rate is None:
            # At the end of an epoch whose last step was in another process.
            grad_norm, learning_rate = outlast.last_step
        super()._maybe_log_save_evaluate(tr_loss, grad_norm, *rest, learning_rate=learning_rate)

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        if self._outlast.is_finished:
            return self._outlast.output()
        output = super()._finalize_training(*args, **kwargs)
        self._outlast.finish(output)
        return output
