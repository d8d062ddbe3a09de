"""Keep the worker processes of a loader alive through the signals that announce an eviction.

An eviction signals the process group, and torchrun signals the group of each of its workers. A
data-loader worker that dies first makes the step in progress, and the final save, fail.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from outlast.checkpoint.position.sources import torch_data
from outlast.checkpoint.position.stand_in import StandIn, replaced
from outlast.checkpoint.state.traits import attributes_of
from outlast.interruption.children import shield_worker


@contextmanager
def shielded_workers(loader: Any) -> Iterator[None]:
    """Workers that a torch loader, or one that it wraps, creates inside the block are shielded."""
    with ExitStack() as stack:
        for one in torch_loaders_in(loader):
            if one.num_workers > 0:
                start = _ShieldedStart(one.worker_init_fn)
                stack.enter_context(replaced(one, "worker_init_fn", start))
        yield


def shield_workers(loader: Any) -> None:
    """Shield all workers that a torch loader creates from now on."""
    for one in torch_loaders_in(loader):
        if one.num_workers > 0 and not isinstance(one.worker_init_fn, _ShieldedStart):
            one.worker_init_fn = _ShieldedStart(one.worker_init_fn)


def torch_loaders_in(loader: Any) -> list[Any]:
    """The loader itself if it is a torch `DataLoader`, or else those it has as attributes."""
    data = torch_data()
    if data is None:
        return []
    if issubclass(type(loader), data.DataLoader):
        return [loader]
    return [one for _, one in attributes_of(loader) if issubclass(type(one), data.DataLoader)]


class _ShieldedStart(StandIn):
    """In a worker, in place of worker_init_fn: calls it, then shields the worker.

    In this order, because signal handlers that the program installs there are kept.
    """

    def __init__(self, original: Callable[[int], object] | None) -> None:
        self.original = original

    def __call__(self, worker: int) -> None:
        if self.original is not None:
            self.original(worker)
        # The program may have shielded it by itself.
        if not any(thread.name == "outlast-shield" for thread in threading.enumerate()):
            shield_worker(worker)
