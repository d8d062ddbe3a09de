"""Modules of torch, which is looked at only if the program has loaded it itself."""

import sys
from typing import Any


def is_module(thing: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def frozen_parameters(module: Any) -> list[str]:
    """The parameters of a module that do not require a gradient."""
    if type(module).named_parameters is sys.modules["torch"].nn.Module.named_parameters:
        # Naming all of them takes several times as long.
        if not _has_frozen(module, set()):
            return []
    return [name for name, one in module.named_parameters() if not one.requires_grad]


def _has_frozen(module: Any, seen: set[int]) -> bool:
    if id(module) in seen:
        return False
    seen.add(id(module))
    for one in module._parameters.values():  # noqa: SLF001 - as in its own functions
        if one is not None and not one.requires_grad:
            return True
    parts = module._modules.values()  # noqa: SLF001
    return any(part is not None and _has_frozen(part, seen) for part in parts)
