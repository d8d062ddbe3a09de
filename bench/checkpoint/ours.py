"""Outlast itself, through its public interface."""

import importlib
import time
from pathlib import Path
from typing import Any

from bench.checkpoint.state import Tensors
from bench.checkpoint.system import System

NEVER = 10**9
TICKS = 200_000


class Ours(System):
    """It syncs, verifies and prunes by itself: nothing is added here."""

    name = "Outlast"
    asynchronous = True

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        super().__init__(tensors, folder)
        self._checkpointer = self._open()
        self._checkpointer.resume()

    def _open(self, **options: Any) -> Any:
        # A state as a user has it: the model, and the optimizer with its two moments.
        state: dict[str, dict[str, Any]] = {"model": {}, "optimizer": {}}
        for name, tensor in self.tensors.items():
            state["model" if name.startswith("model.") else "optimizer"][name] = tensor
        outlast: Any = importlib.import_module("outlast")
        return outlast.Checkpointer(
            str(self.folder), state, every_steps=NEVER, keep_last=2, **options
        )

    def _save(self, step: int) -> None:
        self._checkpointer.save(step)

    def wait_durable(self) -> None:
        self._checkpointer.wait()

    def restore(self, **options: Any) -> float:
        """As a restarted job does it. Opening is measured apart, with the first open."""
        self._checkpointer.close()
        self._checkpointer = self._open(**options)
        started = time.perf_counter()
        step = self._checkpointer.resume()
        seconds = time.perf_counter() - started
        if step != self.newest:
            raise AssertionError(f"resumed at {step}, not at {self.newest}")
        return seconds

    def restore_uncompared(self) -> float:
        """The same without the comparison of the restored state."""
        return self.restore(compare_restored=False)

    def _restore(self) -> None:
        raise NotImplementedError

    def prune(self) -> None:
        """Its own retention has done it."""

    def close(self) -> None:
        self._checkpointer.close()

    def tick(self) -> float:
        """The seconds that one tick with nothing due adds to a loop."""
        tick = self._checkpointer.tick
        started = time.perf_counter()
        for _ in range(TICKS):
            pass
        empty = time.perf_counter() - started
        started = time.perf_counter()
        for step in range(TICKS):
            tick(step)
        return (time.perf_counter() - started - empty) / TICKS
