"""A position as it was saved: brought into the current format, or moved to the start of its pass.

Pure, except that the generators of a loader are looked at.
"""

from typing import Any

from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.position.container_state import is_scalar
from outlast.checkpoint.position.sources import Sources


def updated(saved: dict[str, Any], loader: Any, sources: Sources) -> dict[str, Any]:
    """A position in the current format. Earlier ones list the generators in the usual places."""
    if not isinstance(saved["start"]["own"], list):
        return saved
    found = generators_of(loader)

    def by_path(states: list[Any]) -> dict[str, Any]:
        if len(states) != len(found):
            raise _other_generators(
                [f"{len(states)} generators were saved, but the loader has {len(found)}"]
            )
        return {
            path: state
            for generator, state in zip(found.values(), states, strict=True)
            for path, one in sources.generators.items()
            if one is generator
        }

    current = {**saved, "start": saved["start"] | {"own": by_path(saved["start"]["own"])}}
    if saved.get("own") is not None:
        current["now"] = {"own": by_path(saved["own"]), "counters": {}}
    return current


def at_start_of_pass(saved: dict[str, Any]) -> dict[str, Any]:
    """The position before the first batch of the same pass, with nothing to verify its order by.

    Generators and plain counters go back to the start of the pass. Containers do not, because they
    may hold the part of the data that this rank had.
    """
    start = saved["start"]
    then = start if saved["batch"] else saved.get("now", start)
    left_out = ("pass", "loader", "previous", "own", "now")
    moved = {name: part for name, part in saved.items() if name not in left_out}
    moved |= {"batch": 0, "restarted": True}
    if isinstance(start["own"], dict):
        counters = then.get("counters", {})
        plain = {path: found for path, found in counters.items() if is_scalar(found)}
        moved["now"] = {"own": then["own"], "counters": plain}
    return moved


def without_absent(saved: dict[str, Any], sources: Sources) -> dict[str, Any]:
    """A restarted position without the generators that the loader does not have yet."""
    if "now" not in saved:
        return saved
    own = {path: one for path, one in saved["now"]["own"].items() if path in sources.generators}
    return saved | {"now": saved["now"] | {"own": own}}


def generators_of(loader: Any) -> dict[str, Any]:
    """The torch generators in the usual places of a loader, each once."""
    sampler = getattr(loader, "batch_sampler", None)
    owners = {
        "generator": loader,
        "sampler.generator": getattr(loader, "sampler", None),
        "batch_sampler.generator": sampler,
        "batch_sampler.sampler.generator": getattr(sampler, "sampler", None),
    }
    found: dict[str, Any] = {}
    for path, owner in owners.items():
        generator = getattr(owner, "generator", None)
        if hasattr(generator, "set_state") and not any(generator is one for one in found.values()):
            found[path] = generator
    return found


def _other_generators(differences: list[str]) -> StateMismatch:
    return StateMismatch(
        "The loader's random generators do not match those of the saved position:",
        differences=tuple(differences),
    )
