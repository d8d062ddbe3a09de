"""Tell samplers and data sets the number of the epoch, for those that shuffle by it.

torch's `DistributedSampler` and many others derive their order from a seed and from what
`set_epoch` was called with. Without a call, each epoch has the same order. `set_epoch` is called
with the number of complete passes before each pass, unless the program, or the sampler itself,
changes the epoch: from then on the number is left to them. A process that resumes decides by the
same facts as one that was not interrupted: what the sampler shows before the call, what it showed
before the first pass of the run, and what the last call left.
"""

import contextlib
import operator
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from outlast.checkpoint.position.between import samplers_of, snapshot_of
from outlast.checkpoint.position.index_pass import keeps_workers
from outlast.checkpoint.position.search import search
from outlast.checkpoint.position.sources import is_torch_loader
from outlast.checkpoint.position.transitions import digest_of
from outlast.checkpoint.state.traits import attributes_of


class EpochNumbers:
    """What the numbered parts of a loader showed. Saved with the position."""

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        saved = saved or {}
        self._kind: str = saved.get("kind", "")
        # Before the first pass, and since the last call.
        self._first: Any = saved.get("first")
        self._left: Any = saved.get("left")
        self._is_left_alone: bool = saved.get("left_alone", False)
        # What was set for the current pass; None if nothing was.
        self._current: int | None = saved.get("current")
        # The same as `_left`, for each loader that this process has numbered.
        self._left_here: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def record(self) -> dict[str, Any] | None:
        """What to save; None if no loader has had a part with `set_epoch`."""
        if not self._kind:
            return None
        return {
            "kind": self._kind,
            "first": self._first,
            "left": self._left,
            "left_alone": self._is_left_alone,
            "current": self._current,
        }

    def start(self, loader: Any, number: int) -> None:
        """A pass over the loader starts, after this number of complete ones."""
        self._current = None
        parts = _numbered_parts(loader)
        if parts and self._is_ours(parts, number):
            self._set(parts, number)

    def resume(self, loader: Any) -> None:
        """The current pass goes on, as a rule in another process."""
        parts = _numbered_parts(loader)
        if parts and self._current is not None:
            self._set(parts, self._current)

    def _is_ours(self, parts: list[Any], number: int) -> bool:
        """Whether the epoch is not chosen by the program, or by the sampler itself."""
        kind = " ".join(type(part).__qualname__ for part in parts)
        found = [_epoch_of(part) for part in parts]
        if kind != self._kind:
            self._kind, self._first, self._left, self._is_left_alone = kind, found, found, False
            # What is not as a new sampler is may have been set, and what cannot be read may be too.
            return all(epoch in (0, number) for epoch in found)
        if found not in (self._first, self._left, self._left_of(parts)):
            self._is_left_alone = True
        return not self._is_left_alone

    def _set(self, parts: list[Any], number: int) -> None:
        for part in parts:
            part.set_epoch(number)
        self._current = number
        self._left = [_epoch_of(part) for part in parts]
        # Something with slots may have no weak references. Then `_left` has to do.
        with contextlib.suppress(TypeError):
            self._left_here[id(parts[0])] = (weakref.ref(parts[0]), self._left)

    def _left_of(self, parts: list[Any]) -> Any:
        """What the last call in this process left of these; None if there was none."""
        known, left = self._left_here.get(id(parts[0]), (None, None))
        return left if known is not None and known() is parts[0] else None


def _numbered_parts(loader: Any) -> list[Any]:
    """What has `set_epoch`: samplers, from the outside in, or else the data set."""
    if not is_torch_loader(loader):
        return [loader] if _is_numbered(loader) and not isinstance(loader, Iterator) else []
    if samplers := [one for one in samplers_of(loader) if _is_numbered(one)]:
        return samplers
    data = loader.dataset
    if not _is_numbered(data) or (keeps_workers(loader) and not _is_shared(data)):
        return []
    return [data]


def _is_numbered(thing: Any) -> bool:
    return callable(getattr(thing, "set_epoch", None))


def _is_shared(data: Any) -> bool:
    """Whether workers that were made before see the number, as with Hugging Face's data sets."""
    parts = dict(attributes_of(data))
    return any(
        getattr(parts.get(name), "is_shared", lambda: False)() for name in ("epoch", "_epoch")
    )


def _epoch_of(part: Any) -> Any:
    """The epoch as far as it can be read, or a digest of everything that may depend on it."""
    epoch: Any = getattr(part, "epoch", None)
    try:
        # In a tensor, for Hugging Face's data sets.
        return operator.index(epoch)
    except TypeError:
        pass
    sources = search({"": part})
    snapshot = snapshot_of(sources, sources.counters())
    # Not what it refers to, such as the data, which may keep a cache.
    return digest_of(snapshot, is_wanted=lambda path: "." not in path)
