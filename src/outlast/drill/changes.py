"""What was written in the folder of a leg, and when: saves as the outside sees them."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from outlast.drill.records import Save
from outlast.drill.watch import watch

QUIET_SECONDS = 0.25
"""A save is over when nothing was written for so long."""

_RECENT_SECONDS = 1.0
_RECENT_MAX = 5
_SAVES_MAX = 20_000
_PATHS_MAX = 10_000


class Changes:
    """Remembers the last change of each file. `on_save` is called when a save begins."""

    def __init__(self, folder: Path, on_save: Callable[[str], None], *, began: float) -> None:
        self._watch = watch(folder)
        self._on_save = on_save
        self._began = began
        self._last: dict[str, float] = {}
        self._saved_at = -math.inf
        self.saves: list[Save] = []
        self.found_any = False
        """Whether the last look found a change of any kind, a journal's too."""

    @property
    def fd(self) -> int | None:
        return self._watch.fd

    def look(self, *, now: float) -> bool:
        """Take in what has changed, and say whether anything of a save has."""
        paths = self._watch.changes()
        saved = [path for path in paths if not _is_bookkeeping(path)]
        for path in saved:
            if path in self._last or len(self._last) < _PATHS_MAX:
                self._last[path] = now
        if saved:
            self._note(saved[0], now)
        self.found_any = bool(paths)
        return bool(saved)

    def recent(self, *, now: float) -> tuple[str, ...]:
        """What was written last, newest first."""
        fresh = {path: at for path, at in self._last.items() if now - at < _RECENT_SECONDS}
        return tuple(sorted(fresh, key=lambda path: -fresh[path])[:_RECENT_MAX])

    def close(self) -> None:
        self._watch.close()

    def _note(self, path: str, now: float) -> None:
        at_seconds = now - self._began
        if now - self._saved_at <= QUIET_SECONDS:
            last = self.saves[-1]
            self.saves[-1] = replace(last, lasted_seconds=at_seconds - last.at_seconds)
        elif len(self.saves) < _SAVES_MAX:
            self.saves.append(Save(at_seconds=at_seconds, path=path))
            self._on_save(path)
        else:
            return
        self._saved_at = now


def _is_bookkeeping(path: str) -> bool:
    """Whether it is written beside the work: this library's journal, SQLite's shared memory."""
    return "journal" in Path(path).parts[:-1] or path.endswith("-shm")
