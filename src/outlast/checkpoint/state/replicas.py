"""Which arrays of a state are equal on all ranks, so that each rank saves a part of them.

Known are the parameters of torch's DistributedDataParallel, what an optimizer keeps for those or
for distributed tensors, and what the program names with `outlast.replicated`. The buffers of
DistributedDataParallel differ between two steps: those of rank 0 count, because the next forward
pass sends them to all. Anything else is saved by each rank for itself.
"""

import gc
import sys
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from outlast.checkpoint.state.arrays import library_of
from outlast.checkpoint.state.library import Library
from outlast.checkpoint.state.shards import is_sharded
from outlast.checkpoint.state.torch_arrays import (
    DTensorLibrary,
    TorchLibrary,
    identity_without_bytes,
)
from outlast.checkpoint.state.tree import Leaf

T = TypeVar("T")

_named: dict[int, "weakref.ref[Any]"] = {}
_PLAIN = frozenset({type(None), bool, int, float, str})
_DICTS = frozenset({dict})


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


class Replicas(NamedTuple):
    """Arrays that are equal on all ranks, and the identities of those of which rank 0's count.

    An optimizer keeps many arrays. `kept` are those by their ids: most are in the state as the very
    same objects. `equal` are the identities of the others, and of what is equal otherwise.
    """

    kept: Mapping[int, Any]
    equal: Collection[object]
    first: Collection[object]


class Evidence(NamedTuple):
    """From which objects, in which memory, it follows that arrays are equal on all ranks.

    While it is equal, so are the replicas among leaves that are where they were. If it
    `is_complete`, an array elsewhere than at one of these addresses is not a replica.
    """

    ids: list[object]
    addresses: list[int]
    is_complete: bool


class ReplicatedArrays:
    """Finds out which arrays are equal on all ranks, and of which those of rank 0 count.

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

    @property
    def reorders_sums(self) -> bool:
        """Whether a DistributedDataParallel changes its buckets after the first step."""
        found = (ref() for ref in self._parallel)
        return any(
            module is not None and (module.static_graph or not module.find_unused_parameters)
            for module in found
        )

    def evidence(self, state: object) -> "Evidence":
        """What `of_state` follows from, besides the leaves. Takes a fraction of the time."""
        ids: list[object] = []
        arrays: list[Any] = []
        for ref in self._parallel:
            if (module := ref()) is not None:
                ids += (id(module), module.broadcast_buffers)
                arrays += _arrays_of_module(module)
        for thing in _things_in(state):
            if _is_named(thing):
                ids += ("named", id(thing))
                arrays += _arrays_in(thing)
            if _is_optimizer(thing):
                ids.append(id(thing))
                for group in thing.param_groups:
                    arrays += group["params"]
                arrays += _arrays_in(thing)
        return Evidence([*ids, *map(id, arrays)], *_addresses_of(arrays))

    def of_state(self, state: object, leaves: Sequence[Leaf]) -> Replicas:
        """Those of a state that is now as these leaves are."""
        parameters: list[Any] = []
        buffers: list[Any] = []
        for ref in self._parallel:
            if (module := ref()) is not None:
                parameters += module.parameters()
                if module.broadcast_buffers:
                    buffers += module.buffers()
        things = _things_in(state)
        for thing in things:
            if _is_named(thing):
                parameters += _arrays_in(thing)
        equal = set(_identities(parameters))
        known = set(map(id, parameters))
        kept: dict[int, Any] = {}
        for thing in things:
            if _is_optimizer(thing) and _keeps_shared(thing, known, equal):
                kept |= {id(array): array for array in _arrays_in(thing)}
        equal.update(_identities(_not_in(leaves, kept)))
        return Replicas(kept, equal, set(_identities(buffers)) - equal)


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


def _keeps_shared(optimizer: Any, known: Collection[int], equal: Collection[object]) -> bool:
    params = [param for group in optimizer.param_groups for param in group["params"]]
    others = [param for param in params if id(param) not in known and not is_sharded(param)]
    return all(identity in equal for identity in _identities(others))


def _not_in(leaves: Sequence[Leaf], kept: Mapping[int, Any]) -> Iterable[Any]:
    """The kept arrays that may be in the state as other objects than these.

    Leaves have different identities, so that one that is the same object is no other leaf. Only
    arrays without bytes are named by more than their object.
    """
    here = {id(leaf.array) for leaf in leaves}
    if any(not leaf.nbytes and id(leaf.array) not in kept for leaf in leaves):
        return kept.values()
    return [kept[number] for number in kept.keys() - here]


def _things_in(thing: object) -> list[Any]:
    """Everything in the containers of a state."""
    found: list[Any] = []
    _collect(thing, found, 0)
    return found


def _collect(thing: object, found: list[Any], depth: int) -> None:
    if depth > 20:
        return
    if type(thing) in (list, tuple) and _PLAIN.issuperset(map(type, thing)):  # type: ignore[call-overload]  # one of the two
        return
    if (arrays := _kept_arrays(thing)) is not None:
        found += arrays
    elif library_of(thing) is not None:
        found.append(thing)
    elif isinstance(thing, Mapping):
        for item in thing.values():
            _collect(item, found, depth + 1)
    elif isinstance(thing, list | tuple):
        for item in thing:
            _collect(item, found, depth + 1)
    elif thing is not None and not isinstance(thing, str | int | float):
        found.append(thing)


def _kept_arrays(thing: object) -> list[Any] | None:
    """What an optimizer keeps of its parameters, a dict for each, if all of it are arrays."""
    if type(thing) is not list or not _DICTS.issuperset(map(type, thing)):
        return None
    found = list(chain.from_iterable(part.values() for part in thing))
    return None if None in _libraries_of(found).values() else found


def _arrays_of_module(module: Any) -> list[Any]:
    """The parameters and buffers of a module, in an order that stays the same."""
    kind = sys.modules["torch"].nn.Module
    names = ("parameters", "named_parameters", "buffers", "named_buffers")
    if any(getattr(type(module), name) is not getattr(kind, name) for name in names):
        return [*module.parameters(), *module.buffers()]
    # Naming all of them takes several times as long.
    found: list[Any] = []
    _collect_module(module, found, set())
    return found


def _collect_module(module: Any, found: list[Any], seen: set[int]) -> None:
    if id(module) in seen:
        return
    seen.add(id(module))
    for held in (module._parameters, module._buffers):  # noqa: SLF001 - as in its own functions
        found += [array for array in held.values() if array is not None]
    for part in module._modules.values():  # noqa: SLF001
        if part is not None:
            _collect_module(part, found, seen)


def _addresses_of(arrays: Sequence[Any]) -> tuple[list[int], bool]:
    """Where the memory of tensors begins, and whether all arrays are tensors with memory."""
    libraries = _libraries_of(arrays)
    if not all(isinstance(one, TorchLibrary | DTensorLibrary) for one in libraries.values()):
        return [], False
    plain = {kind for kind, library in libraries.items() if isinstance(library, TorchLibrary)}
    found = [array.data_ptr() for array in arrays if type(array) in plain]
    return found, 0 not in found


def _libraries_of(things: Sequence[Any]) -> dict[type, Library | None]:
    """The library of each class. Asked once for each, because there are thousands of things."""
    samples = dict(zip(map(type, things), things, strict=True))
    return {kind: library_of(sample) for kind, sample in samples.items()}


def _arrays_in(thing: Any) -> list[Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.nn.Module):
        return [*thing.parameters(), *thing.buffers()]
    if _is_optimizer(thing):
        return _arrays_in(_kept_by(thing))
    return [one for one in _things_in(thing) if library_of(one) is not None]


def _kept_by(optimizer: Any) -> object:
    """What is in the state_dict of an optimizer, read directly where that is the same."""
    kind = sys.modules["torch"].optim.Optimizer
    hooks = ("_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks")
    is_plain = type(optimizer).state_dict is kind.state_dict
    if not is_plain or any(getattr(optimizer, name, True) for name in hooks):
        return optimizer.state_dict()
    groups = [
        [item for name, item in group.items() if name != "params"]
        for group in optimizer.param_groups
    ]
    return [list(optimizer.state.values()), groups]


def identity_of(library: Library, array: Any) -> object:
    """What names an array. One without bytes is named by what its views share, too."""
    if isinstance(library, TorchLibrary) and not array.nbytes:
        return identity_without_bytes(array, array.shape)
    return library.identity(array)


def _identities(arrays: Iterable[Any]) -> Iterator[object]:
    for array in arrays:
        library = library_of(array)
        if library is not None and not isinstance(library, DTensorLibrary):
            yield identity_of(library, array)
