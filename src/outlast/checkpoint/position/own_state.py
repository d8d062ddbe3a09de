"""Whether a loader can save its position itself.

Some wrappers have a `state_dict` that only works around certain loaders: it raises, or returns
None. Others pass on that of a torch loader, which does not include an order that is drawn from a
global generator. Such loaders are treated like those without, so their batches are counted here.
"""

from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.position.sources import is_torch_loader, torch_data
from outlast.checkpoint.state.tree import capture, has_state_dict

log = get_logger(__name__)


class OwnState:
    """Remembers what was found out about the last loader."""

    def __init__(self) -> None:
        self._loader: Any = None
        self._is_usable = False
        self._has_warned = False

    def is_usable(self, loader: Any) -> bool:
        if loader is not self._loader:
            self._loader = loader
            self._is_usable = has_state_dict(loader) and self._works(loader)
        return self._is_usable

    def _works(self, loader: Any) -> bool:
        # Those of torchdata create their iterator, and draw from generators, when asked.
        if any(kind.__module__.startswith("torchdata") for kind in type(loader).__mro__):
            return True
        problem = _problem(loader)
        if problem is not None and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s has a state_dict that cannot be used: %s. Its batches are counted instead, and "
                "a resume within an epoch loads those before it again.",
                type(loader).__qualname__,
                problem,
            )
        return problem is None


def _problem(loader: Any) -> str | None:
    """Why the state_dict of a loader cannot be used; None if it can."""
    if is_torch_loader(loader) and not issubclass(type(loader), torch_data().DataLoader):
        return "it is a wrapper around a torch loader"
    try:
        state = loader.state_dict()
        capture({"loader": state})
    except UnsupportedState as error:
        return str(error)
    except Exception as error:
        return f"it raises {type(error).__name__}: {error}"
    return "it returns None" if state is None else None
