"""Captures that remember the blocks of the last one: what they reuse, and what they must see."""

import gc
import random
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.state.blocks import CaptureMemory, block_of
from outlast.checkpoint.state.extents import are_apart, overlapping
from outlast.checkpoint.state.tree import Tree, capture

torch = pytest.importorskip("torch")

COUNT = 9


def tensors(count: int = COUNT) -> dict[Any, Any]:
    return {f"t{number}": torch.rand(4, 6) for number in range(count)}


def kept(count: int = COUNT) -> dict[Any, Any]:
    return {number: {"step": torch.rand(1), "mean": torch.rand(5)} for number in range(count)}


def fresh_state() -> dict[str, Any]:
    return {"rate": 0.5, "model": OrderedDict(tensors()), "kept": kept(), "log": [1]}


def described(found: Tree) -> Any:
    leaves = [leaf._replace(array=None) for leaf in found.leaves]
    arrays = [leaf.array.data_ptr() for leaf in found.leaves if hasattr(leaf.array, "data_ptr")]
    return repr((found.root, leaves, arrays, sorted(found.attribute_objects)))


def reused_paths(state: object, memory: CaptureMemory) -> set[str]:
    """The blocks that a capture reuses."""
    before = dict(memory.blocks)
    capture(state, memory=memory)
    return {path for path, block in memory.blocks.items() if before.get(path) is block}


def test_blocks_that_are_as_before_are_reused_and_their_arrays_are_those_of_now() -> None:
    state, memory = fresh_state(), CaptureMemory()
    capture(state, memory=memory)

    state["rate"], state["log"] = 0.25, [1, 2, 3]
    state["model"]["t1"].add_(1)

    assert reused_paths(state, memory) == {"model", "kept"}
    assert described(capture(state, memory=memory)) == described(capture(state))
    leaves = {leaf.path: leaf.array for leaf in capture(state, memory=memory).leaves}
    assert leaves["model.t1"] is state["model"]["t1"]


def rename(state: Any) -> None:
    state["model"] = OrderedDict((f"{name}x", one) for name, one in state["model"].items())


def reorder(state: Any) -> None:
    state["model"].move_to_end("t0")


def other_class_of_dict(state: Any) -> None:
    state["model"] = dict(state["model"])


def drop(state: Any) -> None:
    state["model"].popitem()


def move_between_parts(state: Any) -> None:
    state["kept"][0]["more"] = state["kept"][1].pop("step")


def number_as_text(state: Any) -> None:
    state["kept"] = {str(number): part for number, part in state["kept"].items()}


def number_as_bool(state: Any) -> None:
    state["kept"] = {bool(n) if n < 2 else n: part for n, part in state["kept"].items()}


def share_part(state: Any) -> None:
    state["kept"][1] = state["kept"][0]


def share_part_before(state: Any) -> None:
    state["log"], state["kept"] = state.pop("kept"), state["log"]
    others = dict(state)
    state.clear()
    state |= {"first": others["log"][3]} | others


def container_before(state: Any) -> None:
    others = dict(state)
    state.clear()
    state |= {"new": []} | others


def array_before(state: Any) -> None:
    others = dict(state)
    state.clear()
    state |= {"new": torch.ones(3)} | others


def tie_before(state: Any) -> None:
    others = dict(state)
    state.clear()
    state |= {"tied": others["model"]["t2"]} | others


def tie_after(state: Any) -> None:
    state["tied"] = state["model"]["t2"]


def tie_inside(state: Any) -> None:
    state["model"]["t3"] = state["model"]["t2"]


def view_after(state: Any) -> None:
    state["view"] = state["model"]["t2"].view(-1)[3:]


def view_inside(state: Any) -> None:
    state["model"]["t3"] = state["model"]["t2"].view(-1)[3:]


def view_in_another(state: Any) -> None:
    state["kept"][2]["mean"] = state["model"]["t2"].view(-1)[3:]


def two_views(state: Any) -> None:
    one = torch.ones(8)
    state["views"] = [one[:5], one[3:]]


def not_a_tensor(state: Any) -> None:
    state["kept"][4]["step"] = 4


def nothing_in_it(state: Any) -> None:
    state["model"]["t2"] = torch.empty(0)


def of_numpy(state: Any) -> None:
    state["model"]["t2"] = state["model"]["t2"].numpy()


def as_parameter(state: Any) -> None:
    state["model"]["t2"] = torch.nn.Parameter(state["model"]["t2"])


def require_gradient(state: Any) -> None:
    state["model"]["t2"].requires_grad_()


def compute(state: Any) -> None:
    state["model"]["t2"] = state["model"]["t2"].requires_grad_().view(6, 4)


def transpose(state: Any) -> None:
    state["model"]["t2"].t_()


def reshape(state: Any) -> None:
    state["model"]["t2"] = state["model"]["t2"].view(6, 4)


def change_dtype(state: Any) -> None:
    state["model"]["t2"] = state["model"]["t2"].view(torch.int32)


def swap_data(state: Any) -> None:
    state["model"]["t2"].data = torch.zeros(4, 6)


def shrink(state: Any) -> None:
    state["model"]["t2"].resize_(3, 6)


def conjugate(state: Any) -> None:
    for name in ("t2", "t3"):
        state["model"][name] = torch.rand(4, dtype=torch.complex64).conj()


CHANGES: list[Callable[[Any], None]] = [
    *(rename, reorder, other_class_of_dict, drop, move_between_parts, number_as_text),
    *(number_as_bool, share_part, share_part_before, container_before, array_before),
    *(tie_before, tie_after, tie_inside, view_after, view_inside, view_in_another, two_views),
    *(not_a_tensor, nothing_in_it, of_numpy, as_parameter, require_gradient, compute),
    *(transpose, reshape, change_dtype, swap_data, shrink, conjugate),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_every_change_is_seen(change: Callable[[Any], None]) -> None:
    state, memory = fresh_state(), CaptureMemory()
    capture(state, memory=memory)
    before = described(capture(state, memory=memory))

    change(state)

    changed = described(capture(state))
    assert changed != before
    assert described(capture(state, memory=memory)) == changed
    assert described(capture(state, memory=memory)) == changed
    # And that it is gone again.
    again = fresh_state()
    assert described(capture(again, memory=memory)) == described(capture(again))


@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_of_changes_is_captured_as_without_a_memory(seed: int) -> None:
    chance, state, memory = random.Random(seed), fresh_state(), CaptureMemory()
    for _ in range(12):
        change = chance.choice([*CHANGES, None])
        if change is None:
            state = fresh_state()
        else:
            try:
                change(state)
            except (KeyError, IndexError, AttributeError, RuntimeError, TypeError):
                # Not possible after the changes before.
                state = fresh_state()
        assert described(capture(state, memory=memory)) == described(capture(state)), change


def test_a_memory_keeps_no_array_alive() -> None:
    state, memory = fresh_state(), CaptureMemory()
    for _ in range(2):
        capture(state, memory=memory)
    arrays = [weakref.ref(one) for one in state["model"].values()]
    parts = [weakref.ref(part["mean"]) for part in state["kept"].values()]

    state.clear()
    gc.collect()

    assert not any(ref() is not None for ref in (*arrays, *parts))


def test_with_paths_to_pickle_nothing_is_reused() -> None:
    state, memory = fresh_state(), CaptureMemory()
    capture(state, memory=memory)

    found = capture(state, may_pickle={"model.t2"}, memory=memory)

    assert described(found) == described(capture(state, may_pickle={"model.t2"}))
    assert dict(found.root["d"])["model"] != dict(capture(state).root["d"])["model"]


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", ["sparse", "sparse_csr", "mkldnn"])
def test_tensors_without_an_address_are_no_block(layout: str) -> None:
    found = tensors()
    found["t2"] = getattr(torch.ones(4, 6), f"to_{layout}")()

    assert block_of(found) is None
    with pytest.raises(UnsupportedState, match=r"model\.t2"):
        capture({"model": found}, memory=CaptureMemory())


@pytest.mark.parametrize("seed", range(50))
def test_arrays_are_apart_if_none_overlap(seed: int) -> None:
    chance = random.Random(seed)

    def extents(count: int) -> list[tuple[str, int, int]]:
        starts = [(chance.choice("ab"), chance.randrange(60)) for _ in range(count)]
        return [(device, start, start + chance.randint(1, 6)) for device, start in starts]

    apart: list[tuple[str, int, int]] = []
    for extent in extents(8):
        if not list(overlapping([*apart, extent])):
            apart.append(extent)
    others = extents(chance.randrange(4))

    assert are_apart(sorted(apart), others) == (not list(overlapping([*apart, *others])))
