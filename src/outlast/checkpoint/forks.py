"""Know in a forked child that an open run belongs to the parent, at no cost to the parent."""

import os
import weakref
from typing import Protocol


class ForkAware(Protocol):
    """An object that only the process that created it may use."""

    def disown(self) -> None:
        """Called in a forked child: the object belongs to the parent."""
        ...


_objects: "weakref.WeakSet[ForkAware]" = weakref.WeakSet()
_hook_is_set = False


def watch_forks(thing: ForkAware) -> None:
    """Have `disown` called in every child that is forked from now on."""
    global _hook_is_set
    if not _hook_is_set:
        _hook_is_set = True
        os.register_at_fork(after_in_child=_disown_all)
    _objects.add(thing)


def _disown_all() -> None:
    for thing in list(_objects):
        thing.disown()
    _objects.clear()
