"""What a system under measurement looks like, and the fsync that all of them need."""

import abc
import os
import shutil
import time
from pathlib import Path
from typing import ClassVar

import torch

from bench.checkpoint.state import Tensors, mutate


class System(abc.ABC):
    """Saves one set of tensors again and again, a new checkpoint each time."""

    name: ClassVar[str]
    asynchronous: ClassVar[bool] = False  # writes on after save() has returned

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        self.tensors = tensors
        self.folder = folder
        self.newest = 0

    def save(self, step: int) -> float:
        """The seconds for which the loop stood still: until the tensors may change again."""
        self.newest = step
        started = time.perf_counter()
        self._save(step)
        return time.perf_counter() - started

    def wait_durable(self) -> None:
        """Return when the newest checkpoint would survive a loss of power."""
        return  # as it did when save() returned, unless a system says otherwise

    def restore(self) -> float:
        """The seconds to bring the newest checkpoint back into the tensors."""
        started = time.perf_counter()
        self._restore()
        return time.perf_counter() - started

    def mutate(self, changing: Tensors) -> None:
        """Change these tensors, which are some of its own."""
        mutate(changing)

    def snapshot(self) -> Tensors:
        """A copy of the state, to hold a restore against."""
        return {name: tensor.clone() for name, tensor in self.tensors.items()}

    def poison(self) -> None:
        """Make the tensors wrong, so that only a restore can make them right."""
        for tensor in self.tensors.values():
            tensor.fill_(-1)

    def holds(self, expected: Tensors) -> bool:
        return all(torch.equal(self.tensors[name], tensor) for name, tensor in expected.items())

    def prune(self) -> None:
        """Leave only the newest checkpoint; never inside a measured time."""
        for path in self.folder.iterdir():
            if path != self.path_of(self.newest):
                shutil.rmtree(path)

    def path_of(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def close(self) -> None:
        """Give back threads and processes."""
        return

    @abc.abstractmethod
    def _save(self, step: int) -> None: ...

    @abc.abstractmethod
    def _restore(self) -> None: ...


def fsync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def fsync_folders(path: Path) -> None:
    """The names of files that were synced by whoever wrote them."""
    for folder in [path, *(sub for sub in path.rglob("*") if sub.is_dir())]:
        fsync(folder)
    fsync(path.parent)


def fsync_everything(path: Path) -> None:
    for file in path.rglob("*"):
        if file.is_file():
            fsync(file)
    fsync_folders(path)
