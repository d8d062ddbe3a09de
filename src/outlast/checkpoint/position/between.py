"""Continue after a complete epoch: restore what is known, and verify what can be verified.

Nothing of the next epoch was drawn before the save, so its order cannot be compared. Instead the
order of the epoch before is drawn again, where a sampler of the program's own decides it: if that
comes out the same, the sampler is where it was. For other loaders, what they keep is compared.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.position.index_pass import IndexPass, draws_indices
from outlast.checkpoint.position.replay import HINT, Replay
from outlast.checkpoint.position.sources import (
    Sources,
    changed,
    torch_data,
)
from outlast.checkpoint.position.transitions import EpochTransitions, is_of_order, seed_of
from outlast.checkpoint.position.unsaved import differing, listed
from outlast.checkpoint.state.randomness import generators

log = get_logger(__name__)

# These keep nothing from one epoch to the next but their generators and the epoch.
_KNOWN_SAMPLERS = (
    "BatchSampler DistributedSampler RandomSampler Sampler SequentialSampler "
    "SubsetRandomSampler WeightedRandomSampler"
).split()


def can_verify(loader: Any) -> bool:
    """Whether the order of an epoch can, and should, be drawn again without loading data."""
    return draws_indices(loader) and not all(map(_is_known, samplers_of(loader)))


def snapshot_of(sources: Sources, counters: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the order of a loader, as it is now. Samples and seeds are not saved."""
    return {
        "own": sources.states(),
        "counters": counters,
        "global": generators().get(),
        "samples": sources.samples(counters),
        "borrowed": sources.borrowed,
        "seeds": {path: seed_of(found) for path, found in sources.generators.items()},
    }


def continue_after(
    saved: dict[str, Any],
    loader: Any,
    global_now: Any,
    find: Callable[[], Sources],
    transitions: EpochTransitions,
) -> None:
    """Bring a loader to where it was after a complete epoch.

    Raises `StateMismatch` if it would return its data in a different order than it would have.
    """
    now = saved.get("now") or {"own": saved["start"]["own"], "counters": {}}
    previous = saved.get("previous") or {}
    sources = find()
    before = snapshot_of(sources, sources.counters())
    problem = None
    if previous.get("pass") and can_verify(loader) and _is_same_loader(transitions, before):
        problem = _drawn_again(previous | {"now": now, "changed": saved["changed"]}, loader, find)
    if doubtful := transitions.doubtful(before):
        log.warning(
            "The random generators at %s do not start as they did in the first epoch. They were "
            "restored to where that epoch ended, as if the program used one loader for all epochs. "
            "If it creates a loader for each epoch, seed a torch.Generator or a NumPy Generator "
            "instead, whose seed can be recognized.",
            listed(doubtful),
        )
    counted = [path for path in saved.get("counted", ()) if not transitions.is_reset(path)]
    _restore(find(), now, before, transitions, counted)
    generators().set(global_now)
    if problem is not None:
        raise StateMismatch(
            f"Cannot resume after epoch {previous['epoch'] + 1}: the loader returns the data of "
            "that epoch in a different order than before the interruption:",
            differences=(problem,),
            hint=HINT,
        )
    _check_evidence(previous, loader, find(), transitions)


def _is_same_loader(transitions: EpochTransitions, before: Mapping[str, Any]) -> bool:
    """Whether the loader, but for what is restored, is the one of the epoch before.

    After a single epoch, one that does not start like the first was made for the next epoch, or
    draws from a generator without a seed: either way its order cannot be verified.
    """
    if transitions.is_observed:
        return not transitions.is_driven_by_program(is_of_order)
    return transitions.is_untouched(before)


def _drawn_again(saved: dict[str, Any], loader: Any, find: Callable[[], Sources]) -> str | None:
    """How the order of the last epoch differs when it is drawn again; None if it does not."""
    replay = Replay(saved, generators().get(), find)
    replay.rewind()
    again = IndexPass(is_reused=replay.record.get("reused", False), interleaving=None)
    problem = again.draw_again(loader, replay)
    if problem is not None and replay.settle():
        # The sampler and other code took turns in drawing: that cannot be repeated, and need not.
        return None
    return problem


def _restore(
    sources: Sources,
    now: Mapping[str, Any],
    before: Mapping[str, Any],
    transitions: EpochTransitions,
    counted: Collection[str],
) -> None:
    """Set what the loader left at the end of the epoch, but not what the program sets itself."""
    own = {
        path: before["own"][path] if transitions.keeps_generator(path, before) else state
        for path, state in now["own"].items()
        if path in before["own"] or not transitions.is_reset(path)
    }
    absent = [path for path in own if path not in sources.generators]
    if absent:
        raise StateMismatch(
            "The loader's random generators do not match those of the saved position:",
            differences=tuple(f"{path}: saved, but not found in the loader" for path in absent),
        )
    for path, state in own.items():
        sources.set_state(path, state)
    # Drawing the epoch again may have changed what the program has set.
    wanted = before["counters"] | {
        path: now["counters"][path] for path in counted if path in now["counters"]
    }
    live = sources.counters()
    for path in changed(live, wanted):
        sources.set_counter(path, wanted[path])


def _check_evidence(
    previous: Mapping[str, Any], loader: Any, sources: Sources, transitions: EpochTransitions
) -> None:
    is_by_index = draws_indices(loader)
    evidence = {
        path: one
        for path, one in previous.get("evidence", {}).items()
        if not transitions.is_reset(path) and not (is_by_index and is_of_order(path))
    }
    decisive, caches = differing(evidence, sources)
    if is_by_index:
        # The order has been verified. What the data set keeps is its cache, as a rule.
        decisive, caches = [], [*decisive, *caches]
    if decisive:
        raise StateMismatch(
            f"Cannot resume after epoch {previous['epoch'] + 1}: the loader had changed what could "
            "not be saved, so it may return its data in a different order:",
            differences=tuple(f"{path} is not as it was at the save" for path in decisive),
            hint=HINT,
        )
    if caches:
        log.warning(
            "The loader had changed %s before the interruption, which could not be saved. If the "
            "data depend on it, they are different now.",
            listed(caches),
        )


def samplers_of(loader: Any) -> list[Any]:
    """What decides the order of a torch loader, from the outside in."""
    found: list[Any] = []
    waiting = [loader.batch_sampler, loader.sampler]
    while waiting and len(found) < 10:
        one = waiting.pop(0)
        if one is not None and not any(one is other for other in found):
            found.append(one)
            waiting.append(getattr(one, "sampler", None))
    return found


def _is_known(sampler: Any) -> bool:
    data = torch_data()
    kind = type(sampler)
    # A sequence of indices that cannot change is as good.
    return kind in (tuple, range) or any(
        kind is getattr(data, name, None) for name in _KNOWN_SAMPLERS
    )
