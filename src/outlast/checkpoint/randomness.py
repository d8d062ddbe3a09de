"""The random generators that come along with every checkpoint, without being asked for.

Python's, NumPy's and torch's global ones, and CUDA's. JAX keeps its keys in the program's state. A
generator of the program's own travels as a part of the state that holds it.
"""

import random
import sys
from typing import Any

from outlast.checkpoint.values import value


def generators() -> value:
    """The generators that the program has loaded, as a part of the state."""
    return value(random_states, _set)


def as_value(thing: object) -> value | None:
    """What can be saved through functions: a `value`, or a generator of the program's own."""
    if isinstance(thing, value):
        return thing
    if isinstance(thing, random.Random):
        return value(thing.getstate, thing.setstate)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(thing, numpy.random.Generator):
        bits = thing.bit_generator
        return value(lambda: bits.state, lambda state: setattr(bits, "state", state))
    if torch is not None and isinstance(thing, torch.Generator):
        return value(thing.get_state, thing.set_state)
    return None


def random_states() -> dict[str, object]:
    """The states of the global generators, by library."""
    states: dict[str, object] = {"python": random.getstate()}
    if (numpy := sys.modules.get("numpy")) is not None:
        states["numpy"] = numpy.random.get_state(legacy=False)
    if (torch := sys.modules.get("torch")) is not None:
        states["torch"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def _set(states: Any) -> None:
    random.setstate(states["python"])
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(states["torch"])
        if "cuda" in states and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(states["cuda"])
