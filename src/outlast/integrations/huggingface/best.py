"""The best model so far, which the trainer keeps in a folder of its own until the end.

With load_best_model_at_end the trainer reads that folder after the last step. On a new machine it
would be missing, so its model is part of the run, and the folder is written again.
"""

from pathlib import Path
from typing import Any

from outlast.checkpoint.state.values import value
from outlast.integrations.huggingface.folders import read_folder, write_folder

# Only needed to continue from the folder, which a run does not.
_NOT_NEEDED = ("optimizer", "scheduler", "scaler", "rng_state")


class BestModel:
    """The files of the best model of a trainer. They are read once for each new best model."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._folder = ""
        self._files: dict[str, Any] = {}

    def part(self) -> value:
        """The part of the state that it is."""
        return value(self._read, self._write)

    def _read(self) -> dict[str, Any]:
        folder: str | None = self._trainer.state.best_model_checkpoint
        if folder is None:
            return {"folder": "", "files": {}}
        if folder != self._folder:
            if not self._trainer.args.should_save:
                # Another rank writes the folder, and saves it.
                return {"folder": folder, "files": {}}
            found = read_folder(Path(folder))
            self._files = {
                name: content for name, content in found.items() if not name.startswith(_NOT_NEEDED)
            }
            self._folder = folder
        return {"folder": folder, "files": self._files}

    def _write(self, saved: dict[str, Any]) -> None:
        self._folder, self._files = saved["folder"], saved["files"]
        if self._folder:
            write_folder(Path(self._folder), self._files)
        self._trainer.state.best_model_checkpoint = self._folder or None
