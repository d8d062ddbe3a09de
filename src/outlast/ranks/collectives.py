"""Tell the failure of a collective, which another rank may have caused, from other errors."""

import sys

_SIGNS = (
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "gloo",
    "nccl",
    "process group",
    "processgroup",
    "collective",
)


def is_collective_failure(error: BaseException) -> bool:
    """Whether an error was raised because the ranks could not communicate."""
    distributed = sys.modules.get("torch.distributed")
    kind = getattr(distributed, "DistError", None)
    if kind is not None and isinstance(error, kind):
        return True
    # gloo raises plain RuntimeErrors, and JAX a class of its own that is one.
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in text for sign in _SIGNS)
