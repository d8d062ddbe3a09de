"""The global random generators, which every checkpoint includes automatically.

Those of Python, NumPy, torch and CUDA. With JAX, the keys are in the program's own state. A
generator that the program creates is saved with the part of the state that holds it.
"""

import random
import sys
from typing import Any

from outlast.checkpoint.state.values import value

# Beyond what a program spawns in a run, and still spawned within a second.
_CHILDREN_MAX = 10_000
# Most of what a search for generators meets. Its classes are compared in a moment.
_NO_GENERATORS = frozenset({type(None), bool, int, float, str, bytes, dict, list, tuple})


def generators() -> value:
    """The generators that the program has loaded, as a part of the state."""
    return value(random_states, _set)


def as_value(thing: object) -> value | None:
    """What can be saved through functions: a `value`, or a generator that the program created."""
    if type(thing) in _NO_GENERATORS:
        return None
    if isinstance(thing, value):
        return thing
    # The system's generator has no state that could be saved.
    if isinstance(thing, random.Random) and not isinstance(thing, random.SystemRandom):
        return _python(thing)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(thing, numpy.random.RandomState):
        legacy: Any = thing
        return value(lambda: legacy.get_state(legacy=False), lambda state: legacy.set_state(state))
    if numpy is not None and isinstance(thing, numpy.random.Generator):
        return _bits(thing.bit_generator)
    if numpy is not None and isinstance(thing, numpy.random.BitGenerator):
        return _bits(thing)
    if torch is not None and isinstance(thing, torch.Generator):
        return value(thing.get_state, thing.set_state)
    if is_seed_generator(thing):
        return _seeds(thing)
    return None


def is_seed_generator(thing: object) -> bool:
    """Whether this is a generator of Keras, on any backend."""
    keras = sys.modules.get("keras")
    if keras is None:
        return False
    kind = getattr(getattr(keras, "random", None), "SeedGenerator", None)
    return kind is not None and isinstance(thing, kind)


def bits_of(thing: object) -> object | None:
    """What a NumPy generator draws its bits from. Two generators may draw from the same."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(thing, numpy.random.Generator):
        found: object = thing.bit_generator
        return found
    if isinstance(thing, numpy.random.RandomState):
        return getattr(thing, "_bit_generator", None)
    return thing if isinstance(thing, numpy.random.BitGenerator) else None


def _python(generator: random.Random) -> value:
    """Python's generators, and subclasses that draw from attributes of their own."""
    kind = type(generator)
    draws = (kind.random, kind.getrandbits) != (random.Random.random, random.Random.getrandbits)
    if not draws or kind.getstate is not random.Random.getstate:
        return value(generator.getstate, generator.setstate)

    def get() -> dict[str, Any]:
        return {"state": generator.getstate(), "attributes": dict(vars(generator))}

    def set_(saved: Any) -> None:
        # Earlier versions saved the state alone.
        attributes, state = {}, saved
        if isinstance(saved, dict):
            attributes, state = saved["attributes"], saved["state"]
        generator.setstate(state)
        for name, item in attributes.items():
            setattr(generator, name, item)

    return value(get, set_)


def _bits(bits: Any) -> value:
    """NumPy's generators, with how many children one has spawned: the next one depends on it."""

    def get() -> dict[str, Any]:
        seed = bits.seed_seq
        spawned = getattr(seed, "n_children_spawned", None)
        found = {"bits": bits.state, "spawned": spawned}
        # Children also depend on the seed, which cannot be set, only compared.
        return found | {"seed": repr((seed.entropy, seed.spawn_key))} if spawned else found

    def set_(saved: dict[str, Any]) -> None:
        # Earlier versions saved the bits alone.
        bits.state = saved.get("bits", saved)
        missing = (saved.get("spawned") or 0) - getattr(bits.seed_seq, "n_children_spawned", 0)
        if 0 < missing <= _CHILDREN_MAX:
            # The count can only be raised, by children that nobody uses.
            bits.seed_seq.spawn(missing)

    return value(get, set_)


def _seeds(generator: Any) -> value:
    """The variable of a SeedGenerator. While `fit` runs on JAX, those of the model are empty."""

    def get() -> list[int] | None:
        found = generator.state._value  # noqa: SLF001 - `value` fails if it is empty
        if found is None:
            return None
        detached = found.detach().cpu() if hasattr(found, "detach") else found
        return [int(number) for number in detached]

    def set_(saved: list[int] | None) -> None:
        if saved is not None:
            numpy = sys.modules["numpy"]
            generator.state.assign(numpy.asarray(saved, generator.state.dtype))

    return value(get, set_)


def random_states() -> dict[str, object]:
    """The states of the global generators, by library."""
    states: dict[str, object] = {"python": random.getstate()}
    if (numpy := sys.modules.get("numpy")) is not None:
        states["numpy"] = numpy.random.get_state(legacy=False)
    if (torch := sys.modules.get("torch")) is not None:
        states["torch"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            states["cuda"] = _cuda_states(torch)
    return states


def derive_for_rank(rank: int, step: int) -> None:
    """Seed the global generators of a rank that has no saved state, from another rank's.

    The result depends only on that state, the step and the rank.
    """
    seed = random.Random(f"{random.getstate()[1][-2:]}/{step}/{rank}").randrange(2**32)
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)


def _set(states: Any) -> None:
    random.setstate(states["python"])
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(states["torch"])
        if "cuda" in states and torch.cuda.is_available():
            _set_cuda_states(torch, states["cuda"])


def _cuda_states(torch: Any) -> Any:
    """Those of all GPUs; of the current one only, if other ranks use the others."""
    if _is_one_of_several(torch):
        return [torch.cuda.get_rng_state()]
    return torch.cuda.get_rng_state_all()


def _set_cuda_states(torch: Any, states: Any) -> None:
    if _is_one_of_several(torch):
        torch.cuda.set_rng_state(states[0])
    else:
        torch.cuda.set_rng_state_all(states)


def _is_one_of_several(torch: Any) -> bool:
    # Asking for the generator of another rank's GPU would take memory there.
    distributed = torch.distributed
    return bool(
        distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )
