"""What a container or an array is besides its content, so that it is restored as the same kind.

A trait is recorded only where it is not the default: the class of a container or array, the
factory of a defaultdict, the plain attributes of a container or NumPy array, the order of an
array's dimensions in memory, whether a tensor requires a gradient, which parameters of a module do
not, whether an array of JAX is a random key or has a weak type (see `jax_arrays.py`), and whether
an array shares memory with others. Standard classes can be created again from their names; any
other class needs an instance in the fresh state to copy. No name is ever imported.
"""

import collections
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import numpy as np

Traits: TypeAlias = dict[str, Any]
"""`class`, `factory`, `attributes`, `order`, `grad`, `frozen`, `key`, `weak`, `memory`,
`placements`, and `mesh_axes`.

Each only where it is not the default. `memory` is the path of the largest of the arrays that share
one piece of memory, and the distance from its first byte. Earlier versions wrote `view` instead:
any one of the other arrays, and the distance from that. `placements` are those of a DTensor.
`mesh_axes` are the axes of the mesh that divide each dimension of a distributed array of JAX.
"""

_PLAIN = frozenset({dict, list, tuple, set, frozenset})
_FACTORIES: dict[str, Callable[[], object]] = {
    kind.__name__: kind for kind in (bool, bytes, dict, float, int, list, set, str, tuple)
}
_MAPPINGS: dict[str, type[dict[Any, Any]]] = {
    "collections.OrderedDict": collections.OrderedDict,
    "collections.Counter": collections.Counter,
}
_DEFAULTDICT = "collections.defaultdict"
_SIZE = "torch.Size"
_PARAMETER = "torch.nn.parameter.Parameter"
_MATRIX = "numpy.matrix"


def name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def container_traits(thing: object) -> Traits:
    """The traits of a dict, list, tuple or set."""
    kind = type(thing)
    if kind in _PLAIN:
        return {}
    torch = sys.modules.get("torch")
    traits: Traits = {"class": _SIZE if torch is not None and kind is torch.Size else name_of(kind)}
    if isinstance(thing, collections.defaultdict):
        traits["factory"] = _factory_name(thing.default_factory)
    return traits


def own_attributes(thing: object) -> dict[str, Any]:
    """What a container or NumPy array of a class of its own has besides its items."""
    kind = type(thing)
    if kind in _PLAIN or (isinstance(thing, np.ndarray) and name_of(kind).startswith("numpy.")):
        return {}
    found = dict(attributes_of(thing))
    if not found or not isinstance(thing, Mapping):
        return found
    # Some classes offer their items as attributes too, or keep them in one.
    found = {
        name: one
        for name, one in found.items()
        if thing.get(name, _NOTHING) is not one
        and not (isinstance(one, Mapping) and one.keys() == thing.keys())
    }
    if isinstance(thing, MutableMapping):
        return found
    # What cannot be changed is built again, and has only its own copies of its items.
    return {name: one for name, one in found.items() if not name.startswith("_")}


def attributes_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an instance, also those in slots. Runs no code of its class."""
    try:
        yield from list(object.__getattribute__(thing, "__dict__").items())
    except AttributeError:
        pass
    for kind in type(thing).__mro__:
        if "__slots__" not in vars(kind):
            continue
        for name, found in vars(kind).items():
            # Slots; those of classes written in C are not the program's.
            if isinstance(found, types.MemberDescriptorType):
                try:
                    yield name, found.__get__(thing)
                except AttributeError:
                    continue


_NOTHING = object()


def numpy_traits(array: "np.ndarray[Any, Any]") -> Traits:
    traits: Traits = {}
    if type(array) is not np.ndarray:
        traits["class"] = _MATRIX if type(array) is np.matrix else name_of(type(array))
    if not array.flags.c_contiguous and (order := _order(array.shape, array.strides)):
        traits["order"] = order
    return traits


def torch_traits(
    kind: type,
    shape: Sequence[int],
    strides: Sequence[int],
    *,
    is_contiguous: bool,
    grad: bool | None,
) -> Traits:
    """The traits of a tensor of this class. `grad` is None if it was computed from others."""
    torch = sys.modules["torch"]
    traits: Traits = {}
    if kind is torch.nn.Parameter:
        traits["class"] = _PARAMETER
    elif kind is not torch.Tensor:
        traits["class"] = name_of(kind)
    if not is_contiguous and (order := _order(tuple(shape), tuple(strides))):
        traits["order"] = order
    if grad is not None and grad != requires_grad(traits):
        traits["grad"] = grad
    return traits


def can_create(traits: Mapping[str, Any]) -> bool:
    """Whether something of this class can be made without an instance to copy."""
    name = traits.get("class")
    if name == _DEFAULTDICT:
        return traits.get("factory") is None or traits["factory"] in _FACTORIES
    return name is None or name in _MAPPINGS or name in (_SIZE, _PARAMETER, _MATRIX)


def new_mapping(traits: Mapping[str, Any]) -> dict[Any, Any]:
    """An empty mapping of a class that `can_create` knows."""
    name = traits.get("class")
    if name == _DEFAULTDICT:
        factory = traits.get("factory")
        return collections.defaultdict(None if factory is None else _FACTORIES[factory])
    return _MAPPINGS[name]() if name in _MAPPINGS else {}


def new_tuple(traits: Mapping[str, Any], items: Iterable[Any]) -> object:
    """A tuple of a class that `can_create` knows."""
    if traits.get("class") == _SIZE and (torch := sys.modules.get("torch")) is not None:
        return torch.Size(items)
    return tuple(items)


def requires_grad(traits: Mapping[str, Any]) -> bool:
    """Whether a tensor with these traits does: a parameter by default, any other not."""
    return bool(traits.get("grad", traits.get("class") == _PARAMETER))


def as_saved_class(array: Any, traits: Mapping[str, Any]) -> Any:
    """A new array as the class that was saved, requiring a gradient if it did."""
    name = traits.get("class")
    if name == _MATRIX:
        return array.view(np.matrix)
    if name == _PARAMETER:
        return sys.modules["torch"].nn.Parameter(array, requires_grad=requires_grad(traits))
    return array.requires_grad_(True) if requires_grad(traits) else array


def described(traits: Mapping[str, Any]) -> str:
    """Traits in words, for a message."""
    words = [str(traits["class"])] if "class" in traits else []
    if "factory" in traits:
        words.append(f"with the factory {traits['factory']}")
    if "grad" in traits:
        words.append("with a gradient" if traits["grad"] else "without a gradient")
    if "order" in traits:
        words.append(f"with its dimensions in the order {traits['order']}")
    if "key" in traits:
        words.append(f"a random key of {traits['key']}")
    if "weak" in traits:
        words.append("with a weak type")
    if "attributes" in traits:
        words.append(f"with the attributes {traits['attributes']}")
    return " ".join(words) or "plain"


def _factory_name(factory: Any) -> str | None:
    if factory is None:
        return None
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    if _FACTORIES.get(name) is factory:
        return str(name)
    return f"{getattr(factory, '__module__', '?')}.{name}"


def _order(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int] | None:
    """The dimensions from the outermost in memory to the innermost; None if it is the default.

    An array that repeats its memory has none: it is restored as one with its own memory.
    """
    if any(step == 0 and size > 1 for step, size in zip(strides, shape, strict=True)):
        return None
    order = sorted(range(len(shape)), key=lambda at: (-abs(strides[at]), at))
    return None if order == list(range(len(shape))) else order
