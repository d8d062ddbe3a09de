"""Where a pass over a loader is, and how it continues in the next process.

Counts batches that were consumed, not those a loader has fetched ahead. At resume the order of the
epoch is drawn again from the random state at its start, what was consumed is skipped, and the rest
is what an uninterrupted run would have got. Between two epochs the order of the previous one is
drawn again to verify it. An order that comes out differently is refused.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.position.between import can_verify, continue_after, snapshot_of
from outlast.checkpoint.position.concerns import Interleaving, check
from outlast.checkpoint.position.content_pass import ContentPass
from outlast.checkpoint.position.epoch_numbers import EpochNumbers
from outlast.checkpoint.position.epochs import EpochProgress
from outlast.checkpoint.position.index_pass import (
    IndexPass,
    draws_indices,
    has_kept_workers,
    keeps_workers,
)
from outlast.checkpoint.position.own_state import OwnState
from outlast.checkpoint.position.read_ahead import ReadAhead
from outlast.checkpoint.position.replay import Replay
from outlast.checkpoint.position.saved_position import (
    at_start_of_pass,
    generators_of,
    updated,
    without_absent,
)
from outlast.checkpoint.position.search import search
from outlast.checkpoint.position.sources import (
    NOTHING,
    Sources,
    changed,
    is_torch_loader,
)
from outlast.checkpoint.position.subsets import OTHER_PART, subset_digest
from outlast.checkpoint.position.transitions import EpochTransitions
from outlast.checkpoint.position.unsaved import OBSERVED_AFTER, UnsavedChanges
from outlast.checkpoint.position.worker_shield import shielded_workers
from outlast.checkpoint.state.randomness import generators

log = get_logger(__name__)


class Position:
    """Where a pass over a loader is. Has a state_dict, so it is saved like everything else.

    With `sets_epoch=False`, calling `set_epoch` is left to the program, or its framework.
    """

    def __init__(self, *, sets_epoch: bool = True) -> None:
        self.epochs = EpochProgress()
        self._sets_epoch = sets_epoch
        self._epoch = 0
        self._batch = 0
        self._start: dict[str, Any] | None = None
        self._now: dict[str, Any] | None = None
        self._loader: Any = None
        # The framework's loader around it, if any.
        self._ahead: ReadAhead | None = None
        self._own_state = OwnState()
        self._pass: IndexPass | ContentPass | None = None
        # The last complete epoch: how it began, and the digest of its order.
        self._previous: dict[str, Any] | None = None
        self._transitions = EpochTransitions()
        self._numbers = EpochNumbers()
        # What to continue from, and the global generators that belong to it.
        self._saved: dict[str, Any] | None = None
        self._global_now: Any = None
        # Whether the pass starts again at its first batch, when the next loop begins.
        self._is_restarted = False
        # The generators of a loader that the loop is done with.
        self._left: Sources | None = None
        # The loader whose first epochs were in an earlier process.
        self._continued: Any = None
        self._is_checked = False
        self._is_watched = False
        self._unsaved_changes: UnsavedChanges | None = None
        # Which part of the data the newest pass reads, if it is not all.
        self._subsets: str | None = None
        # Plain values as last seen, those that changed, and those that changed in an epoch.
        self._counters: dict[str, Any] = {}
        self._changed: set[str] = set()
        self._counted: set[str] = set()
        # The counters that are saved even if they never change, to explain a refusal.
        self._settings: set[str] = set()

    @property
    def passes(self) -> int:
        """The number of complete passes over loaders."""
        return self._epoch

    @property
    def batch(self) -> int:
        """The number of batches of the current pass that were handed out."""
        return self._batch

    def state_dict(self) -> dict[str, Any]:
        epochs = self.epochs.state_dict()
        return self._pass_state() | ({} if epochs is None else {"epochs": epochs})

    def _pass_state(self) -> dict[str, Any]:
        if self._saved is not None:
            # Not continued yet: this is still what there is to continue from.
            return {**self._saved, "global_now": self._global_now}
        if self._loader is not None:
            self._now = self._snapshot()
        elif self._now is not None and self._left is not None:
            # Other code may have drawn from them since the loop ended.
            self._now = self._now | {"own": self._left.states()}
        state: dict[str, Any] = {
            "epoch": self._epoch,
            "batch": self._batch,
            "start": self._start and self._saved_part(self._start),
            "subsets": self._subsets,
        }
        if self._now is not None:
            now = self._saved_part(self._now)
            state |= {
                "now": {name: now[name] for name in ("own", "counters")},
                "changed": sorted(self._changed),
                "counted": sorted(self._counted),
            }
        if self._batch and self._pass is not None:
            ahead = {} if self._ahead is None else {"ahead": self._ahead.record()}
            state["pass"] = self._pass.record() | ahead
        if self._batch and self._saves_itself(self._loader):
            state["loader"] = self._loader.state_dict()
        if self._now is not None:
            state["transitions"] = self._transitions.record()
        if not self._batch and self._previous is not None:
            previous = self._previous
            state["previous"] = previous | {"start": self._saved_part(previous["start"])}
        if (numbers := self._numbers.record()) is not None:
            state["numbers"] = numbers
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epochs.load_state_dict(state.get("epochs"))
        self._epoch = state["epoch"]
        self._batch = state["batch"]
        self._start = state["start"]
        self._previous = state.get("previous")
        self._transitions = EpochTransitions(state.get("transitions"))
        self._numbers = EpochNumbers(state.get("numbers"))
        self._changed = set(state.get("changed", ()))
        self._counted = set(state.get("counted", ()))
        self._counters = state.get("now", {}).get("counters", {})
        self._subsets = state.get("subsets")
        self._global_now = state.get("global_now") or generators().get()
        self._saved = state if self._start is not None else None

    def restart_pass(self) -> None:
        """Start the current pass again at its first batch, even if some of it was consumed.

        For a resume with another number of ranks, where each rank has other data than before: call
        it after `load_state_dict`, before any loop. The numbers of complete passes and epochs stay,
        and the order is not compared with the saved one. All batches of the pass that were consumed
        before the save are handed out again, as far as they are this rank's now, even if the pass
        had handed out its last one. Inside `Run.epochs` the loop of the current epoch starts again
        at batch 0; changes to the state by the code before that loop still take effect once.
        """
        self._is_restarted = True
        self._restart()

    def _restart(self) -> None:
        self._batch = 0
        self._pass = self._previous = None
        self._counters = {}
        if self._saved is not None:
            self._saved = at_start_of_pass(self._saved)

    def batches(
        self, loader: Iterable[Any] | ReadAhead, epochs: int, *, has_stepped: bool = False
    ) -> Iterator[Any]:
        """The batches that are left of this many epochs.

        `has_stepped`: other steps were done in this process, which may have drawn random numbers.
        """
        if has_stepped:
            self._global_now = generators().get()
        self._enter(loader, epochs)
        while self._epoch < epochs:
            yield from self._handed_out(self._rest_of_epoch())
        self._leave_loader()

    def open_pass(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Open one pass over a loader now, for a loop that asks for its batches later.

        Continues a pass that was saved. The global generators stay as they are, except for what
        opening the pass draws.
        """
        self._global_now = generators().get()
        self._enter(loader, self._epoch + 1)
        return self._handed_out(self._rest_of_epoch())

    def _handed_out(self, rest: Iterator[Any]) -> Iterator[Any]:
        for batch in rest:
            # Counted before it is handed out: when the loop asks for the next one, it is done.
            self._batch += 1
            if self._pass is not None:
                self._pass.consume(batch)
            if self._unsaved_changes is not None and self._batch in OBSERVED_AFTER:
                self._snapshot()
            yield batch
        self._end_epoch()

    def end_pass(self) -> None:
        """The epoch of the program is over, whether or not it took all batches of its pass.

        Raises `StateMismatch` if it took none of those that were left when the run was saved.
        """
        if self._batch and self._saved is not None:
            raise StateMismatch(
                f"The checkpoint is from the middle of epoch {self.epochs.done + 1}:",
                differences=(
                    f"{self._batch} batches of its loop were done, but the program ended the epoch "
                    "without calling run.batches",
                ),
                hint="Run the same program as before, or start over with another URL.",
            )
        if self._batch:
            self._end_epoch()
        self._leave_loader()

    def skip_rest(self) -> None:
        """The epoch of the program was over when it was saved: the next loop begins another pass.

        Call it after `load_state_dict`, before any loop.
        """
        if self._batch and self._saved is not None:
            self._epoch += 1
            self._batch = 0
            self._saved = self._saved | {"epoch": self._epoch, "batch": 0}
            self._saved.pop("pass", None)

    @contextmanager
    def lent(self, loader: Any) -> Iterator[None]:
        """For code that uses parts of a loader after a resume, before the loop goes on.

        An evaluation, for example, whose collator is that of the loader. Generators and counters
        are as they were at the save, and what the code does with them remains.
        """
        saved = self._saved
        if saved is None or not isinstance(saved.get("now", {}).get("own"), dict):
            yield
            return
        now, paths = saved["now"], saved["changed"]
        sources = search({"": loader})
        for path in now["own"].keys() & sources.generators.keys():
            sources.set_state(path, now["own"][path])
        for path in now["counters"].keys() & set(paths):
            sources.set_counter(path, now["counters"][path])
        yield
        states, counters = sources.states(), sources.counters()
        self._saved = saved | {
            "now": {
                "own": {path: states.get(path, one) for path, one in now["own"].items()},
                "counters": {
                    path: counters.get(path, one) if path in paths else one
                    for path, one in now["counters"].items()
                },
            }
        }

    def restore_random(self) -> None:
        """Set the global generators as they were at the save that was resumed from."""
        if self._global_now is not None:
            generators().set(self._global_now)

    def _leave_loader(self) -> None:
        if self._loader is not None:
            self._left = replace(NOTHING, generators=self._sources().generators)
        self._loader = None

    def _enter(self, loader: Any, epochs: int) -> None:
        ahead = loader if isinstance(loader, ReadAhead) else None
        loader = loader if ahead is None else ahead.loader
        if self._batch and self._saved is None and not self._goes_on(loader):
            # An earlier loop ended with `break`: continue as if this were another process.
            self._global_now = generators().get()
            self._saved = self.state_dict()
        self._loader, self._ahead = loader, ahead
        self._left = None
        if self._is_restarted:
            # The saved position may have been restored once more since.
            self._restart()
            self._is_restarted = epochs < self._epoch
        if not self._is_checked:
            self._is_checked = True
            check(loader, self._sources(), epochs=epochs, left_out=self._left_out())
        # A loader of an earlier epoch says nothing about the one to continue with.
        if self._saved is not None and not self._batch and epochs >= self._epoch:
            saved, self._saved = self._saved, None
            saved = updated(saved, loader, self._sources())
            if saved.get("restarted"):
                saved = without_absent(saved, self._sources())
            elif self._is_other_subset(saved, loader):
                # Another loader may follow, with data of its own.
                log.warning("If this is the loader of the epoch before, %s.", OTHER_PART)
            continue_after(saved, loader, self._global_now, self._sources, self._transitions)
            self._continued = loader

    def _goes_on(self, loader: Any) -> bool:
        """Whether this is the same iterator again, which continues by itself."""
        return loader is self._loader and isinstance(loader, Iterator)

    def _end_epoch(self) -> None:
        start, self._start = self._start, self._snapshot()
        if start is not None:
            self._counted |= changed(start.get("counters", {}), self._start["counters"])
        self._previous = None
        if start is not None and self._pass is not None:
            is_by_index = can_verify(self._loader) and self._is_by_index()
            record = self._pass.record() if is_by_index else {}
            evidence = (
                self._unsaved_changes.evidence(self._start)
                if self._unsaved_changes is not None
                else {}
            )
            self._previous = {
                "epoch": self._epoch,
                "batch": self._batch,
                "start": start,
                "pass": record,
                "evidence": evidence,
            }
        self._epoch += 1
        self._batch = 0
        self._pass = None
        # The loader's own generators have moved on, and only they know how far.
        self._now = self._start
        self._transitions.end(self._start)

    def _rest_of_epoch(self) -> Iterator[Any]:
        loader = self._loader
        saved, self._saved = self._saved, None
        if saved is not None:
            return self._resumed(loader, updated(saved, loader, self._sources()))
        if self._batch:
            return iter(loader)
        self._subsets = subset_digest(loader)
        if self._ahead is not None:
            self._ahead.prepare()
        elif self._sets_epoch:
            self._numbers.start(loader, self._epoch)
        self._start = self._snapshot()
        self._transitions.start(self._start)
        if self._saves_itself(loader):
            with shielded_workers(loader):
                return iter(loader)
        self._pass = self._new_pass(is_reused=self._is_kept(loader))
        return self._open(self._pass)

    def _resumed(self, loader: Any, saved: dict[str, Any]) -> Iterator[Any]:
        if self._ahead is not None:
            self._ahead.prepare((saved.get("pass") or {}).get("ahead"))
        elif self._sets_epoch:
            self._numbers.resume(loader)
        replay = Replay(saved, self._global_now, self._sources)
        if self._is_other_subset(saved, loader):
            raise replay.unlike(OTHER_PART)
        rest = self._replayed(loader, saved, replay)
        self._know_unchanged()
        return rest

    def _is_other_subset(self, saved: dict[str, Any], loader: Any) -> bool:
        """Whether a loader reads another part of the data than the saved pass. Notes which."""
        self._subsets = subset_digest(loader)
        # Earlier versions did not save it.
        return "subsets" in saved and saved["subsets"] != self._subsets

    def _replayed(self, loader: Any, saved: dict[str, Any], replay: Replay) -> Iterator[Any]:
        if "loader" in saved:
            return self._resumed_by_itself(loader, saved["loader"], replay)
        is_reused = replay.record.get("reused", self._epoch > 0)
        self._pass = self._new_pass(is_reused=is_reused and _keeps_workers(loader))
        if replay.record.get("kind", self._pass.kind) != self._pass.kind:
            raise replay.unlike("it was a torch DataLoader before, or is one only now")
        return self._open(self._pass, replay)

    def _open(self, opened: IndexPass | ContentPass, replay: Replay | None = None) -> Iterator[Any]:
        if self._ahead is None:
            return opened.open(self._loader, replay)
        self._ahead.begin(self._sources, replay)
        return opened.open(self._ahead, replay)

    def _saves_itself(self, loader: Any) -> bool:
        """Whether a loader can save its position. A torch loader that is read ahead cannot."""
        return self._ahead is None and self._own_state.is_usable(loader)

    def _resumed_by_itself(self, loader: Any, state: Any, replay: Replay) -> Iterator[Any]:
        if not self._saves_itself(loader):
            raise replay.unlike("it had a state_dict before, but has none now")
        # A sampler that the loader does not save draws its order again, from what it drew it from.
        replay.rewind()
        loader.load_state_dict(state)
        with shielded_workers(loader):
            rest: Iterator[Any] = iter(loader)
        # It finds its place by itself, but draws more, or less, than it did the first time.
        replay.settle()
        return rest

    def _know_unchanged(self) -> None:
        """Add what had not changed, and so was not saved: it may change later in this epoch."""
        assert self._start is not None, "The epoch was begun by an earlier process."
        now = self._sources().counters()
        self._counters = now | self._counters
        self._start = self._start | {"counters": now | self._start.get("counters", {})}

    def _new_pass(self, *, is_reused: bool) -> IndexPass | ContentPass:
        is_by_index = self._is_by_index()
        if self._unsaved_changes is None:
            self._unsaved_changes = UnsavedChanges(is_verified=is_by_index)
        # The first epoch of a process shows what there is to warn about.
        interleaving = None if self._is_watched else Interleaving(self._sources())
        self._is_watched = True
        kind = IndexPass if is_by_index else ContentPass
        return kind(is_reused=is_reused, interleaving=interleaving)

    def _is_by_index(self) -> bool:
        return draws_indices(self._loader) and (self._ahead is None or self._ahead.skips)

    def _is_kept(self, loader: Any) -> bool:
        """Whether an uninterrupted run would start this epoch with the workers it has."""
        if not _keeps_workers(loader):
            return False
        return has_kept_workers(loader) or (self._epoch > 0 and loader is self._continued)

    def _sources(self) -> Sources:
        """What decides the order, except what the loader saves itself."""
        loader = self._loader
        if not self._saves_itself(loader):
            return search({"": loader})
        data = {"dataset": loader.dataset} if is_torch_loader(loader) else {}
        # A loader with a state_dict takes care of the rest.
        return search({**generators_of(loader), **data}, enters_stateful=False)

    def _left_out(self) -> Sources | None:
        """What decides the order of a torch loader with a state_dict, which it does not save."""
        loader = self._loader
        if not (self._saves_itself(loader) and is_torch_loader(loader)):
            return None
        known = [*generators_of(loader).values(), *self._sources().generators.values()]
        found = search(
            {name: getattr(loader, name) for name in ("sampler", "batch_sampler")},
            enters_stateful=False,
        )
        others = {
            path: one
            for path, one in found.generators.items()
            if not any(one is other for other in known)
        }
        return replace(found, generators=others)

    def _snapshot(self) -> dict[str, Any]:
        """What decides the order, as it is now."""
        sources = self._sources()
        counters = sources.counters()
        if self._counters:
            self._changed |= changed(self._counters, counters)
        self._counters = counters
        self._settings |= sources.settings().keys()
        snapshot = snapshot_of(sources, counters)
        # Nothing is known of the start of an epoch that began in another process.
        if self._batch and self._unsaved_changes is not None and "samples" in (self._start or {}):
            assert self._start is not None, "An epoch that has batches has a start."
            self._unsaved_changes.note(self._start, snapshot)
        return snapshot

    def _saved_part(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """What a checkpoint needs of a snapshot.

        What never changes need not be restored, and text may not be meant to be saved at all.
        """
        counters = {
            path: found
            for path, found in snapshot.get("counters", {}).items()
            if path in self._changed
            or (path in self._settings and not isinstance(found, str | bytes))
        }
        kept = {name: snapshot[name] for name in ("own", "global") if name in snapshot}
        return kept | {"counters": counters}


def _keeps_workers(loader: Any) -> bool:
    return is_torch_loader(loader) and keeps_workers(loader)
