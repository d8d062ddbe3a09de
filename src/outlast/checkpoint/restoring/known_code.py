"""Whether the code that completes a part of the state is known to leave restored arrays alone.

So are the containers of Python, the arrays themselves, generators of random numbers, and torch's
own models, optimizers and schedulers: their `load_state_dict` copies an array onto itself, replaces
it, or does not touch it. What a program defines may do anything: a hook, a method in the place of
one of torch's, a dict of its own class.
"""

import sys
from collections.abc import Iterable
from typing import Any

_CONTAINERS = frozenset({"builtins", "collections"})
_ARRAYS = frozenset({"numpy", "torch", "jax", "jaxlib"})
_GENERATORS = frozenset({"random", "numpy", "torch"})
_TORCH = ("torch.nn.", "torch.optim.", "torch.amp.")
_LOADING = (
    *("load_state_dict", "_load_from_state_dict", "set_extra_state", "__setstate__"),
    *("state_dict", "_save_to_state_dict", "get_extra_state"),
)
_HOOKS = (
    *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
    *("_state_dict_pre_hooks", "_state_dict_hooks"),
    *("_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks"),
    *("_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks"),
)


def is_known(kind: str | None, live: Any) -> bool:
    """Whether this part of a live state, of this kind of node, runs only known code."""
    module = type(live).__module__
    package = module.partition(".")[0]
    match kind:
        case "d" | "l" | "t" | "s" | "fs" | "ba":
            return module in _CONTAINERS or package == "outlast"
        case "a":
            return package in _ARRAYS or package == "outlast"
        case "v":
            function = getattr(live, "set", None)
            return package in _GENERATORS or _module_of(function).startswith("outlast.")
        case "o" | "m":
            return all(map(_loads_as_in_torch, _with_submodules(live)))
        case "p" | "j" | "jo":
            return False
    return True


def _with_submodules(thing: Any) -> Iterable[object]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.nn.Module):
        modules: Iterable[object] = thing.modules()
        return modules
    return (thing,)


def _loads_as_in_torch(thing: object) -> bool:
    own = getattr(thing, "__dict__", {})
    if any(own.get(name) for name in _HOOKS) or not own.keys().isdisjoint(_LOADING):
        return False
    found = (getattr(type(thing), name, None) for name in _LOADING)
    # What Python gives to every object has no module.
    modules = [_module_of(one) for one in found if getattr(one, "__module__", None)]
    return bool(modules) and all(f"{module}.".startswith(_TORCH) for module in modules)


def _module_of(function: object) -> str:
    return getattr(function, "__module__", None) or ""
