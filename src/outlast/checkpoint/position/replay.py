"""Bring a loader back to a position within an epoch: rewind, draw again, settle.

For each generator and counter two states are saved: at the start of the epoch and at the save. At
resume the first one is set, so that the order is drawn again as it was; then the second one, so
that everything after it continues as in an uninterrupted run. A generator may be drawn from:

- only when the epoch starts, as torch's samplers do: other code may use it in between;
- by the sampler alone, as it goes: drawing again leads to the saved state by itself;
- by the data set alone, in this process: skipping in the sampler does not load data, and the saved
  state is set;
- by the sampler as it goes and by anything else too: how the draws alternated is lost. That is
  noticed, because drawing again does not lead to the saved state;
- in a thread that loads ahead: how far it was at the save means nothing, and everything that was
  consumed is loaded again, so what the loader itself has drawn and counted stays as it came out.

Generators in worker processes are lost with them; `concerns` warns about those.
"""

from typing import Any

from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.position.sources import (
    Sources,
    changed,
    same,
)
from outlast.checkpoint.state.randomness import generators

HINT = (
    "Shuffle with a generator that is an attribute of the sampler or the loader, or with a seed "
    "and the epoch; or give the loader state_dict and load_state_dict. If the data has changed, "
    "start over with another URL."
)


class Replay:
    """One resumption. `find` is called each time, because drawing may make new generators."""

    def __init__(self, saved: dict[str, Any], now: Any, find: Any) -> None:
        self._saved = saved
        self._global_now = now
        self._find = find
        self._after_first: dict[str, Any] | None = None
        self._absent: list[str] = []
        self._rewound: dict[str, Any] = {}
        self._counters: dict[str, Any] = {}
        self.count: int = saved["batch"]
        self.record: dict[str, Any] = saved.get("pass") or {}

    def rewind(self) -> None:
        """Set everything as it was when the epoch started."""
        start = self._saved["start"]
        sources = self._find()
        for path, state in start["own"].items():
            if path in sources.generators:
                sources.set_state(path, state)
            else:
                # Drawing the order may make it.
                self._absent.append(path)
        self._counters = sources.counters()
        self._set_counters(sources, start.get("counters", {}))
        generators().set(start["global"])
        self._rewound = sources.states() | sources.counters()

    def drew_first(self) -> None:
        """Note the states after the first batch: later changes come with each batch."""
        self._after_first = self._find().all_states()

    def settle(self, *, is_ahead: bool = False) -> list[str]:
        """Set everything as it was at the save; if a thread `is_ahead`, only what it left alone.

        Returns the generators that were drawn from both by the loader as it went and by others.
        """
        sources = self._find()
        states = sources.all_states()
        moving = changed(self._after_first, states) if self._after_first is not None else set()
        now = self._saved.get("now", {})
        own = now.get("own", {})
        counters = now.get("counters", {})
        self._refuse_absent(sources, own)
        if is_ahead:
            own, counters = self._left_alone(own, sources), self._left_alone(counters, sources)
        for path, state in own.items():
            if not same(states[path], state):
                sources.set_state(path, state)
        self._set_counters(sources, counters)
        generators().set(self._global_now)
        settled = sources.all_states()
        # What could not be rewound is not where it was for that reason alone.
        return sorted(
            path
            for path in moving
            if path not in self._absent and not same(states.get(path), settled.get(path))
        )

    def unlike(self, what: str) -> StateMismatch:
        """The error for an order that differs from the saved one."""
        saved = self._saved["start"].get("counters", {})
        others = [
            f"{path} was {was!r} and is now {self._counters[path]!r}"
            for path, was in saved.items()
            if path in self._counters
            and path not in self._saved.get("changed", ())
            and not same(was, self._counters[path])
        ]
        absent = [f"{path} was a generator and is missing now" for path in self._absent]
        return StateMismatch(
            f"Cannot resume in the middle of epoch {self._saved['epoch'] + 1}: "
            "the loader returns its data in a different order than before the interruption:",
            differences=(what, *others, *absent),
            hint=HINT,
        )

    def _left_alone(self, saved: dict[str, Any], sources: Sources) -> dict[str, Any]:
        """The part that the loader has not changed since everything was rewound."""
        touched = changed(self._rewound, sources.states() | sources.counters())
        return {path: one for path, one in saved.items() if path not in touched}

    def _refuse_absent(self, sources: Sources, own: dict[str, Any]) -> None:
        absent = [path for path in own if path not in sources.generators]
        if absent:
            raise StateMismatch(
                "The loader's random generators do not match those of the saved position:",
                differences=tuple(f"{path}: saved, but not found in the loader" for path in absent),
                hint="Build the same loader as the run that saved it, or start over with another "
                "URL.",
            )

    def _set_counters(self, sources: Sources, saved: dict[str, Any]) -> None:
        live = sources.counters()
        for path in self._saved.get("changed", ()):
            if path in saved and path in live and not same(live[path], saved[path]):
                sources.set_counter(path, saved[path])
