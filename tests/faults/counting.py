"""A store that counts what is asked of it, and by which thread."""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from outlast.storage import ROUTINE, Buffer, Limits, StoreEntry
from tests.faults.stores import AroundStore


class CountingStore(AroundStore):
    """`calls` counts by thread, method and folder; `entries` counts what listings returned."""

    calls: Counter[tuple[str, str, str]]
    entries: Counter[tuple[str, str]]

    def reset(self) -> None:
        self.calls, self.entries = Counter(), Counter()

    def count(self, method: str, folder: str = "", *, thread: str = "") -> int:
        """The calls of a method, of one folder or of all, by threads whose names start so."""
        return sum(
            number
            for (by, called, where), number in self.calls.items()
            if called == method and where.startswith(folder) and by.startswith(thread)
        )

    def listed(self, *, thread: str = "") -> int:
        return sum(number for (by, _), number in self.entries.items() if by.startswith(thread))

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        self._note("create", name)
        super().create(name, parts, limits=limits)

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        self._note("read", name)
        return super().read(name, start=start, length=length, limits=limits)

    def read_into(
        self, name: str, *buffers: Buffer, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        self._note("read_into", name)
        super().read_into(name, *buffers, start=start, limits=limits)

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[StoreEntry]:
        self._note("list", prefix)
        found = super().list(prefix, limits=limits)
        self.entries[threading.current_thread().name, prefix] += len(found)
        return found

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        for name in names:
            self._note("delete", name)
            super().delete([name], limits=limits)

    def _note(self, method: str, name: str) -> None:
        if not hasattr(self, "calls"):
            self.reset()
        folder = name.partition("/")[0]
        self.calls[threading.current_thread().name, method, folder] += 1
