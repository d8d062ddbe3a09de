"""Files mode: the trainer writes its own checkpoints, and the run stores their files.

For trainers whose state is not in this process, or not known. What a resume restores is what the
trainer itself restores from its folder.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.state.values import value
from outlast.integrations.huggingface.folders import read_folder, write_folder
from outlast.integrations.huggingface.training import check_start, finished_output, start_folder
from outlast.integrations.plain import encoded
from outlast.run.driven import DrivenRun

log = get_logger(__name__)

_Trainer: Any = object


class FilesTraining:
    """What `durable` adds to a trainer in files mode."""

    def __init__(self, trainer: Any, url: str, options: Any) -> None:
        self._trainer = trainer
        self._url = url
        self._options = options
        self._stack: ExitStack | None = None
        self._run: DrivenRun | None = None
        self._saved: dict[str, Any] = {"step": 0, "files": {}, "best": "", "output": None}
        self._scratch = Path(trainer.args.output_dir) / ".outlast"
        self._updates_per_epoch = 0
        self._at_boundary = False
        self._is_due = False
        self._output: list[Any] | None = None
        self.step = 0
        self.writes_to: str | None = None
        """Where the trainer writes a checkpoint for the run; None if it writes its own."""
        self.is_finished = False

    @contextmanager
    def opened(self, folder: Any, trial: Any) -> Iterator[Any]:
        """Train inside; yields the folder that the trainer starts from."""
        check_start(trial, is_used=self._stack is not None)
        with ExitStack() as self._stack:
            folder = start_folder(self._url, folder)
            shutil.rmtree(self._scratch, ignore_errors=True)
            state = {"trainer": value(self._read, self._write)}
            self._run = self._stack.enter_context(DrivenRun(self._url, state, **self._options))
            if self._saved["files"]:
                folder = self._bring_back()
            yield folder

    def begin(self, max_steps: int, updates_per_epoch: int) -> None:
        """The trainer knows how many steps there are."""
        assert self._run is not None, "The run is open."
        self._updates_per_epoch = updates_per_epoch
        self.is_finished = not self._run.begin(max_steps, completed=self.step)
        if self.is_finished:
            self._run.warn_finished()

    def complete_step(self) -> None:
        """The trainer has logged, evaluated and saved, after a step or at the end of an epoch."""
        assert self._run is not None, "The run was opened before the first step."
        step: int = self._trainer.state.global_step
        control = self._trainer.control
        if step != self.step:
            self._is_due = True
            is_last = step % self._updates_per_epoch == 0 or control.should_epoch_stop
            if is_last or control.should_training_stop:
                # The trainer comes back at the end of the epoch, which it would not repeat.
                self.step = step
                return
        if self._is_due:
            self.step = step
            self._is_due = False
            self._at_boundary = True
            self._run.advance(may_exit=not control.should_training_stop)
            self._at_boundary = False

    def finish(self, output: Any) -> None:
        """The training is over, with this result."""
        self._output = [output.training_loss, encoded(output.metrics)]
        self._at_boundary = True

    def output(self) -> Any:
        """The result of a run that was finished before this process."""
        return finished_output(self.step, self._saved["output"])

    def _read(self) -> dict[str, Any]:
        is_new = self._saved["step"] != self.step or self._saved["output"] is not self._output
        if self._at_boundary and is_new:
            self._saved = {
                "step": self.step,
                "files": self._files_now(),
                "best": self._trainer.state.best_model_checkpoint or "",
                "output": self._output,
            }
        return self._saved

    def _write(self, saved: dict[str, Any]) -> None:
        self._saved = saved
        self.step = saved["step"]

    def _files_now(self) -> dict[str, Any]:
        trainer = self._trainer
        args = trainer.args
        kept = {name: getattr(args, name) for name in ("push_to_hub", "save_only_model")}
        self.writes_to = str(self._scratch)
        try:
            for name in kept:
                setattr(args, name, False)
            trainer._save_checkpoint(trainer.model_wrapped, None)  # noqa: SLF001 - its own format
        finally:
            self.writes_to = None
            for name, item in kept.items():
                setattr(args, name, item)
        trainer.accelerator.wait_for_everyone()
        if not trainer.is_local_process_zero():
            return {}
        files = read_folder(self._scratch / f"checkpoint-{self.step}")
        best = trainer.state.best_model_checkpoint
        if best is not None and Path(best).is_dir():
            found = read_folder(Path(best))
            files |= {f"best/{name}": content for name, content in found.items()}
        shutil.rmtree(self._scratch, ignore_errors=True)
        return files

    def _bring_back(self) -> str:
        """Write the files of the run; returns the folder that the trainer resumes from."""
        trainer = self._trainer
        folder = self._scratch / f"checkpoint-{self.step}"
        if trainer.is_local_process_zero():
            own, best = {}, {}
            for name, content in self._saved["files"].items():
                if name.startswith("best/"):
                    best[name.removeprefix("best/")] = content
                else:
                    own[name] = content
            write_folder(folder, own)
            if best:
                write_folder(Path(self._saved["best"]), best)
        trainer.accelerator.wait_for_everyone()
        # They are on the disk now, and the next save reads others.
        self._saved = self._saved | {"files": {}}
        return str(folder)


class FilesTrainer(_Trainer):  # type: ignore[misc]  # the base is not known before it is mixed in
    """Comes before the class of a trainer. `_outlast` is set before this class is."""

    _outlast: FilesTraining

    def train(
        self, resume_from_checkpoint: Any = None, trial: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        with self._outlast.opened(resume_from_checkpoint, trial) as folder:
            return super().train(folder, trial, *args, **kwargs)

    def _init_training_state(
        self, max_steps: int, updates: int, epochs: int, folder: Any, trial: Any
    ) -> tuple[int, int]:
        at: tuple[int, int] = super()._init_training_state(
            max_steps, updates, epochs, folder, trial
        )
        self._outlast.step = self.state.global_step
        self._outlast.begin(max_steps, updates)
        return (epochs, 0) if self._outlast.is_finished else at

    def _get_output_dir(self, trial: Any) -> str:
        found: str = super()._get_output_dir(trial)
        return self._outlast.writes_to or found

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        super()._maybe_log_save_evaluate(*args, **kwargs)
        self._outlast.complete_step()

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        if self._outlast.is_finished:
            return self._outlast.output()
        output = super()._finalize_training(*args, **kwargs)
        self._outlast.finish(output)
        return output
