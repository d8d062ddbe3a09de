"""Give an object its state back as it was saved, where its own loading changes it.

A torch optimizer casts what it loads to the dtype of the parameter: moments or master weights that
were kept in float32 next to bfloat16 parameters would come back rounded. They are put back once it
has loaded everything else. The same goes for objects that wrap an optimizer.
"""

import sys
from typing import Any


def load_object(live: Any, restored: Any) -> None:
    live.load_state_dict(restored)
    torch = sys.modules.get("torch")
    is_optimizer = isinstance(restored, dict) and {"state", "param_groups"} <= restored.keys()
    if torch is None or not is_optimizer:
        return
    # The state of each parameter is the optimizer's own dict, not a copy.
    loaded = live.state_dict()
    if isinstance(loaded, dict) and isinstance(loaded.get("state"), dict):
        _exact(torch, loaded["state"], restored["state"])
    if isinstance(live, torch.optim.Optimizer):
        # It has taken steps, in another process. A scheduler that is called before the next one
        # would warn that the order of the calls is wrong.
        live._opt_called = True  # noqa: SLF001  # torch has no other way to say this


def _exact(torch: Any, now: Any, saved: Any) -> Any:
    """What was loaded, with every tensor in the dtype in which it was saved."""
    if isinstance(saved, dict) and isinstance(now, dict):
        for key in now.keys() & saved.keys():
            now[key] = _exact(torch, now[key], saved[key])
    elif type(now) is type(saved) is list and len(now) == len(saved):
        now[:] = [_exact(torch, *pair) for pair in zip(now, saved, strict=True)]
    elif type(now) is type(saved) is tuple and len(now) == len(saved):
        return tuple(_exact(torch, *pair) for pair in zip(now, saved, strict=True))
    elif torch.is_tensor(saved) and torch.is_tensor(now) and now.dtype != saved.dtype:
        return saved.to(now.device)
    return now
