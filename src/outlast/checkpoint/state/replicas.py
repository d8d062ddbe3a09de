"""Which arrays of a state are equal on all ranks, so that each rank saves a part of them.

Known are the parameters of torch's DistributedDataParallel, what an optimizer keeps for those or
for distributed tensors, and what the program names with `outlast.replicated`. The buffers of
DistributedDataParallel differ between two steps: those of rank 0 count, because the next forward
pass sends them to all. Anything else is saved by each rank for itself.
"""

import gc
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from outlast.checkpoint.state.arrays import library_of
from outlast.checkpoint.state.shards import is_sharded

T = TypeVar("T")

_named: dict[int, "weakref.ref[Any]"] = {}


def replicated(thing: T) -> T:
    """Say that a tensor, module or optimizer is kept equal on all ranks by the program itself.

    Returns it unchanged. With several ranks, each then saves a part of it, not all of it.
    """
    key = id(thing)

    def forget(_: object) -> None:
        _named.pop(key, None)

    try:
        _named[key] = weakref.ref(thing, forget)
    except TypeError:
        raise TypeError(
            f"outlast.replicated takes a tensor, a module or an optimizer, not a "
            f"{type(thing).__qualname__}."
        ) from None
    return thing


class ReplicatedArrays:
    """The identities of arrays that are equal on all ranks, and of those of which rank 0's count.

    `of_state` looks at the state as it is now: an optimizer creates its arrays in its first step.
    """

    def __init__(self) -> None:
        self._parallel: list[weakref.ref[Any]] = []

    def find_parallel_modules(self) -> None:
        """Find every DistributedDataParallel of the process, as it need not be in the state."""
        module = sys.modules.get("torch.nn.parallel.distributed")
        kind = getattr(module, "DistributedDataParallel", None)
        if kind is not None:
            self._parallel = [weakref.ref(one) for one in _instances(kind)]

    def of_state(self, state: object) -> tuple[set[object], set[object]]:
        """The replicated arrays, and those that are rank 0's, by their identities."""
        equal: set[object] = set()
        first: set[object] = set()
        for ref in self._parallel:
            if (module := ref()) is not None:
                equal.update(_identities(module.parameters()))
                if module.broadcast_buffers:
                    first.update(_identities(module.buffers()))
        things = list(_objects(state))
        for thing in things:
            if _is_named(thing):
                equal.update(_identities(_arrays_in(thing)))
        for thing in things:
            if _is_optimizer(thing) and _keeps_shared(thing, equal):
                equal.update(_identities(_arrays_in(thing.state_dict())))
        return equal, first - equal


def _instances(kind: type) -> Iterator[Any]:
    """All living instances of a class and its subclasses.

    Not by `gc.get_objects`, whose references disturb threads that are building a tuple.
    """
    # The type itself, because some objects compute what isinstance asks for.
    yield from (one for one in gc.get_referrers(kind) if type(one) is kind)
    derived: type
    for derived in kind.__subclasses__():
        yield from _instances(derived)


def _is_named(thing: object) -> bool:
    ref = _named.get(id(thing))
    return ref is not None and ref() is thing


def _is_optimizer(thing: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.optim.Optimizer)


def _keeps_shared(optimizer: Any, equal: set[object]) -> bool:
    params = [param for group in optimizer.param_groups for param in group["params"]]
    plain = [param for param in params if not is_sharded(param)]
    return all(identity in equal for identity in _identities(plain))


def _objects(thing: object, depth: int = 0) -> Iterator[Any]:
    """Everything in the containers of a state."""
    if depth > 20:
        return
    if isinstance(thing, Mapping):
        for item in thing.values():
            yield from _objects(item, depth + 1)
    elif isinstance(thing, list | tuple):
        for item in thing:
            yield from _objects(item, depth + 1)
    elif thing is not None and not isinstance(thing, str | int | float):
        yield thing


def _arrays_in(thing: Any) -> Iterator[Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.nn.Module):
        yield from thing.parameters()
        yield from thing.buffers()
    elif _is_optimizer(thing):
        yield from _arrays_in(thing.state_dict())
    else:
        yield from (one for one in _objects(thing) if library_of(one) is not None)


def _identities(arrays: Iterable[Any]) -> Iterator[object]:
    for array in arrays:
        library = library_of(array)
        if library is not None and not is_sharded(array):
            yield library.describe(array).identity
