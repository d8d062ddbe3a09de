"""The training data of Lightning's fit loop: where each loader is, and how it continues.

Lightning combines the training loaders in a `CombinedLoader`. Here each of them gets a position,
and the combined loader hands out their batches through it. What the program sees of its loaders
stays as it is.
"""

from collections.abc import Iterator
from typing import Any

from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.position import Position
from outlast.checkpoint.state.randomness import generators
from outlast.integrations.lightning.checks import UnsupportedTraining


class TrackedLoader:
    """One of the combined loaders, together with the position in it."""

    def __init__(self) -> None:
        self.loader: Any = None
        # Lightning calls set_epoch by itself.
        self._position = Position(sets_epoch=False)
        self._is_exhausted = False

    def __iter__(self) -> Iterator[Any]:
        """Start another pass, also if the last one has not come to its end."""
        self.end_pass()
        return self._until_exhausted(self._position.open_pass(self.loader))

    def __len__(self) -> int:
        return len(self.loader)

    def end_pass(self) -> None:
        """The pass is over. Lightning never asks a loader with a length for its end."""
        self._position.end_pass()
        self._is_exhausted = False

    def state(self) -> dict[str, Any]:
        return {"position": self._position.state_dict(), "exhausted": self._is_exhausted}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a saved position."""
        self._position.load_state_dict(state["position"])
        self._is_exhausted = state["exhausted"]

    def reopen(self) -> Iterator[Any]:
        """The rest of the pass that was saved."""
        if self._is_exhausted:
            return iter(())
        return self._until_exhausted(self._position.open_pass(self.loader))

    def _until_exhausted(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        self._is_exhausted = True


class TrainingData:
    """All training loaders of a trainer, and what Lightning has fetched from them ahead."""

    def __init__(self, fit_loop: Any, combined_module: Any) -> None:
        self._fit_loop = fit_loop
        self._modes = combined_module._SUPPORTED_MODES
        self._combined_class: type = combined_module.CombinedLoader
        self._tracked_class = _tracked_class(self._combined_class)
        self.loaders: list[TrackedLoader] = []
        # What is read before the run is open is not part of it.
        self._keeps_positions = False
        self.is_idle = False
        """Whether iterators that Lightning creates are not used: the saved ones follow."""

    def track(self) -> None:
        """Take over the loaders that the fit loop has just prepared."""
        # In place of this function, which loads what a file of `ckpt_path` has of the loaders.
        type(self._fit_loop)._load_combined_loader_states(self._fit_loop)
        combined = self._fit_loop._combined_loader
        if type(combined) not in (self._combined_class, self._tracked_class):
            raise UnsupportedTraining(
                f"The training data is a {type(combined).__qualname__}, which may combine loaders "
                "in its own way, so its position cannot be saved.",
                hint="Pass a CombinedLoader of Lightning, a loader, or a dict or list of loaders.",
            )
        if not self._keeps_positions:
            self.loaders.clear()
        while len(self.loaders) < len(combined.flattened):
            self.loaders.append(TrackedLoader())
        del self.loaders[len(combined.flattened) :]
        for tracked, loader in zip(self.loaders, combined.flattened, strict=True):
            tracked.loader = loader
        combined.__class__ = self._tracked_class
        combined._outlast_data = self

    def keep_positions(self) -> None:
        """The run is open: the loaders that are tracked from now on continue those before."""
        self._keeps_positions = True

    def release(self) -> None:
        """Give the combined loader back as it was."""
        combined = self._fit_loop._combined_loader
        if isinstance(combined, self._tracked_class):
            combined.__class__ = self._combined_class

    def end_epoch(self) -> None:
        for tracked in self.loaders:
            tracked.end_pass()

    def mode_iterator(self, combined: Any) -> Any:
        """What Lightning combines loaders with, over the tracked ones."""
        kind = self._modes[combined._mode]["iterator"]
        return kind(self.loaders, combined.limits)

    def state(self, *, in_epoch: bool) -> dict[str, Any]:
        """What to save; within an epoch, with what is in progress."""
        state: dict[str, Any] = {"loaders": [one.state() for one in self.loaders]}
        if in_epoch:
            iterator = self._fit_loop._combined_loader._iterator
            fetcher = self._fit_loop._data_fetcher
            state |= {
                "index": iterator._idx,
                "consumed": list(getattr(iterator, "_consumed", ())),
                "fetched_ahead": list(getattr(fetcher, "batches", ())),
            }
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the saved positions. Raises `StateMismatch` for another number of loaders."""
        before, now = len(state["loaders"]), len(self.loaders)
        if before != now:
            raise StateMismatch(
                "The training data differs from that of the run:",
                differences=(f"{before} training loaders were saved, but the trainer has {now}",),
                hint="Pass the same loaders to fit, or start over with another URL.",
            )
        for tracked, saved in zip(self.loaders, state["loaders"], strict=True):
            tracked.restore(saved)

    def reopen(self, state: dict[str, Any], random: Any) -> None:
        """Continue in the middle of an epoch, as the loop that was saved would have.

        `random` are the global generators at the save.
        """
        combined = self._fit_loop._combined_loader
        fetcher = self._fit_loop._data_fetcher
        iterator = self.mode_iterator(combined)
        for tracked in self.loaders:
            generators().set(random)
            iterator.iterators.append(tracked.reopen())
        iterator._idx = state["index"]
        if hasattr(iterator, "_consumed"):
            iterator._consumed = state["consumed"]
        combined._iterator = iterator
        fetcher.iterator = combined
        fetcher.reset()
        if hasattr(fetcher, "batches"):
            fetcher.batches = [tuple(batch) for batch in state["fetched_ahead"]]


def _tracked_class(combined: type) -> type:
    """Lightning's class, with iterators over tracked loaders."""
    parent: Any = combined

    def iterate(self: Any) -> Any:
        data: TrainingData = self._outlast_data
        self._iterator = data.mode_iterator(self)
        if not data.is_idle:
            iter(self._iterator)
        return self

    def advance(self: Any) -> Any:
        if self._outlast_data.is_idle:
            raise StopIteration
        return parent.__next__(self)

    return type(combined.__name__, (combined,), {"__iter__": iterate, "__next__": advance})
