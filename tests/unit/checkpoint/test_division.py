"""What a rank saves after a change of the state is what it would save if it remembered nothing."""

import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import outlast
from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.format.layout import lay_out
from outlast.checkpoint.saving.copying import copying_threads
from outlast.checkpoint.saving.staging import StagingBuffer
from outlast.checkpoint.state import arrays, blocks, replicas, torch_arrays
from outlast.checkpoint.state.blocks import CaptureMemory
from outlast.checkpoint.state.division import DividedTree, Division
from outlast.checkpoint.state.replicas import identity_of
from outlast.checkpoint.state.tree import capture

SIZE = 3
# Larger than what is cut, and than one piece of a copy.
LARGE = 200_000

swap_tensors: Any = torch.utils.swap_tensors

Change = Callable[[dict[str, Any], random.Random], object]


def fresh_state() -> dict[str, Any]:
    model = outlast.replicated(
        torch.nn.Sequential(torch.nn.Linear(170, 180), torch.nn.Linear(180, 3))
    )
    return {
        "model": model,
        "optimizer": torch.optim.AdamW(model.parameters()),
        "shared": outlast.replicated(torch.rand(LARGE)),
        "own": torch.rand(40),
        "numbers": np.arange(50.0),
        "plain": [1, 2.5, "three", None],
    }


def rebind(state: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(["shared", "own"])
    state[name] = torch.rand(state[name].shape)


def reshape(state: dict[str, Any], chance: random.Random) -> None:
    state["own"] = torch.rand(chance.randrange(5), chance.randrange(70))


def share_more(state: dict[str, Any], chance: random.Random) -> None:
    state["shared"] = outlast.replicated(torch.rand(chance.choice([0, 1, 9, LARGE, 2 * LARGE])))


def change_dtype(state: dict[str, Any], chance: random.Random) -> None:
    dtype = chance.choice([torch.float64, torch.bfloat16, torch.int8, torch.complex64])
    state["shared"] = outlast.replicated(torch.ones(LARGE).to(dtype))


def transpose(state: dict[str, Any], chance: random.Random) -> None:
    state["shared"] = outlast.replicated(torch.rand(400, 300).t())


def conjugate(state: dict[str, Any], chance: random.Random) -> None:
    state["shared"] = outlast.replicated(torch.rand(LARGE, dtype=torch.complex64).conj())


def reuse_address(state: dict[str, Any], chance: random.Random) -> None:
    """A tensor is freed, and another one probably gets its memory."""
    shape = state["own"].shape
    del state["own"]
    state["own"] = torch.full(shape, chance.random())


def train(state: dict[str, Any], chance: random.Random) -> None:
    state["model"](torch.rand(2, 170)).sum().backward()
    state["optimizer"].step()
    state["optimizer"].zero_grad()


def add_group(state: dict[str, Any], chance: random.Random) -> None:
    state["optimizer"].add_param_group({"params": [torch.nn.Parameter(torch.rand(7))]})


def new_optimizer(state: dict[str, Any], chance: random.Random) -> None:
    state["optimizer"] = torch.optim.SGD(state["model"].parameters(), momentum=0.9)


def freeze(state: dict[str, Any], chance: random.Random) -> None:
    state["model"][1].bias.requires_grad_(chance.random() < 0.5)


def swap_data(state: dict[str, Any], chance: random.Random) -> None:
    weight = state["model"][0].weight
    weight.data = torch.rand(weight.shape)


def tie(state: dict[str, Any], chance: random.Random) -> None:
    state["tied"] = chance.choice([state["own"], state["shared"], state["model"][0].weight])


def overlap(state: dict[str, Any], chance: random.Random) -> None:
    state["tied"] = state["shared"][1:] if len(state["shared"]) else state["own"]


def untie(state: dict[str, Any], chance: random.Random) -> None:
    state.pop("tied", None)


def change_plain(state: dict[str, Any], chance: random.Random) -> None:
    state["plain"][chance.randrange(4)] = chance.choice([0, 0.0, -0.0, True, "x", float("nan")])


def change_numbers(state: dict[str, Any], chance: random.Random) -> None:
    state["numbers"] = np.arange(float(chance.randrange(60)))[:: chance.choice([1, 2])]


def change_in_place(state: dict[str, Any], chance: random.Random) -> None:
    state["numbers"] += 1
    with torch.no_grad():
        state["model"][0].weight.add_(1)
        state["own"].mul_(2)


def resize(state: dict[str, Any], chance: random.Random) -> None:
    """In place, so that the object and its address stay."""
    state["own"] = torch.rand(40)
    capture(state)
    state["own"].resize_(chance.randrange(1, 40))


def set_storage(state: dict[str, Any], chance: random.Random) -> None:
    other = torch.rand(LARGE)
    state["own"] = torch.rand(6)
    state["own"].set_(other.untyped_storage(), chance.randrange(9), (2, 3), (3, 1))


def turn(state: dict[str, Any], chance: random.Random) -> None:
    """The same memory seen in another way, by the same object."""
    state["own"] = torch.rand(4, 4)
    capture(state)
    state["own"].t_()


def require_gradient(state: dict[str, Any], chance: random.Random) -> None:
    state["own"] = torch.rand(5, requires_grad=chance.random() < 0.5)
    if chance.random() < 0.5:
        state["own"] = state["own"] * 1


def reinterpret(state: dict[str, Any], chance: random.Random) -> None:
    """The same memory as another type, as a parameter, or as the result of a computation."""
    own = state["own"] = torch.rand(8, requires_grad=chance.random() < 0.5)
    capture(state)
    state["own"] = chance.choice(
        [
            own.detach().view(torch.int32),
            torch.nn.Parameter(own.detach(), requires_grad=own.requires_grad),
            own.view(own.shape),
            own.view(2, 4),
        ]
    )


def swap(state: dict[str, Any], chance: random.Random) -> None:
    swap_tensors(state["model"][1].bias, torch.nn.Parameter(torch.rand(3)))


def empty_parameter(state: dict[str, Any], chance: random.Random) -> None:
    """Without bytes, an array is named by what its views share."""
    empty = torch.nn.Parameter(torch.rand(0, 3))
    state["model"] = outlast.replicated(torch.nn.ParameterList([*state["model"].parameters()]))
    state["model"].append(empty)
    state["optimizer"] = torch.optim.SGD(state["model"].parameters(), momentum=0.9)
    state["optimizer"].state[empty]["momentum_buffer"] = torch.zeros(0, 3)
    state["tied"] = chance.choice([empty, empty.detach(), torch.rand(0, 3)])


def train_list(state: dict[str, Any], chance: random.Random) -> None:
    """One step of a model that is a list of parameters."""
    sum(one.sum() for one in state["model"]).backward()
    state["optimizer"].step()


def swap_list(state: dict[str, Any], chance: random.Random) -> None:
    swap_tensors(state["model"][1], torch.nn.Parameter(torch.rand(180)))


def alias_moment(state: dict[str, Any], chance: random.Random) -> None:
    """Something that the optimizer keeps is found elsewhere first, as another object."""
    moments = [
        one for kept in state["optimizer"].state.values() for one in kept.values() if one.nbytes
    ]
    if not moments:
        return
    moment = chance.choice(moments)
    alias = chance.choice([moment, moment.detach(), moment.view(moment.shape), moment.reshape(-1)])
    others = dict(state)
    state.clear()
    state["tied"] = alias
    state |= others | {"tied": alias}


CHANGES: list[Change] = [
    *(resize, set_storage, turn, require_gradient, alias_moment, swap, *[reinterpret] * 4),
    *(rebind, reshape, share_more, change_dtype, transpose, conjugate, reuse_address, train),
    *(add_group, new_optimizer, freeze, swap_data, tie, overlap, untie, change_plain),
    *(change_numbers, change_in_place),
]


def scratch(state: Any, rank: int) -> DividedTree:
    """What is saved if nothing is remembered."""
    torch_arrays._torch_form.cache_clear()
    arrays._TORCH._known.clear()
    return Division(rank, SIZE).divide(capture(state), state)


def described(divided: DividedTree) -> Any:
    leaves = [leaf._replace(array=None) for leaf in divided.tree.leaves]
    equal = [leaf.path for leaf in divided.equal()]
    # Text, because NaN is not equal to itself.
    return repr((divided.tree.root, leaves, equal, divided.layout))


def staged(divided: DividedTree, buffer: StagingBuffer) -> dict[str, bytes]:
    leaves = divided.tree.leaves
    layout = lay_out([leaf.nbytes for leaf in leaves])
    buffer.fill(list(zip(leaves, layout.places, strict=True)), layout.size_bytes)
    places = zip(leaves, layout.places, strict=True)
    return {leaf.path: bytes(buffer.view(place)) for leaf, place in places}


def equal_by_identity(state: Any) -> set[str]:
    """What the model and its optimizer have in common on all ranks, by their memory alone."""
    library = arrays._TORCH
    model, optimizer = state["model"], state["optimizer"]
    shared = [
        *model.parameters(),
        *filter(replicas._is_named, [state["shared"], state.get("tied")]),
    ]
    names = {identity_of(library, one) for one in shared}
    params = [param for group in optimizer.param_groups for param in group["params"]]
    if all(identity_of(library, param) in names for param in params):
        kept = [one for found in optimizer.state.values() for one in found.values()]
        names |= {identity_of(library, one) for one in kept if isinstance(one, torch.Tensor)}
    return {
        leaf.path
        for leaf in capture(state).leaves
        if isinstance(leaf.array, torch.Tensor) and identity_of(library, leaf.array) in names
    }


def complete(state: Any) -> dict[str, bytes]:
    """All bytes of each array, by other means than those under test."""
    found = {}
    for leaf in capture(state).leaves:
        array = leaf.array
        if isinstance(array, torch.Tensor):
            array = array.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8).numpy()
        found[leaf.path] = array.tobytes()
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_division_that_remembers_is_the_same_as_one_that_does_not(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_ARRAYS_MIN", 1)
    chance = random.Random(seed)
    torch.manual_seed(seed)
    state = fresh_state()
    divisions = [Division(rank, SIZE) for rank in range(SIZE)]
    memories = [CaptureMemory() for _ in range(SIZE)]
    buffer = StagingBuffer(threads=3)
    changes = CHANGES * 2
    chance.shuffle(changes)

    for change in changes:
        change(state, chance)
        expected = complete(state)
        parts: list[dict[str, bytes]] = []
        for rank, division in enumerate(divisions):
            divided = division.divide(capture(state, memory=memories[rank]), state)
            assert described(divided) == described(scratch(state, rank)), change.__name__
            parts.append(staged(divided, buffer))
        equal = {leaf.path for leaf in divided.equal()}
        assert equal == equal_by_identity(state), change.__name__
        for path, data in expected.items():
            saved = [part[path] for part in parts]
            if path in equal:
                assert b"".join(saved) == data, (change.__name__, path)
            else:
                assert saved == [data] * SIZE, (change.__name__, path)
    buffer.close()


def test_who_saves_an_array_is_found_out_again_only_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    of_state = replicas.ReplicatedArrays.of_state

    def asking(self: Any, state: object, leaves: Any) -> Any:
        asked.append(state)
        return of_state(self, state, leaves)

    monkeypatch.setattr(replicas.ReplicatedArrays, "of_state", asking)
    model = outlast.replicated(torch.nn.Linear(4, 4))
    optimizer = torch.optim.Adam(model.parameters())
    # Its state is in new memory each time.
    state = {"model": model, "optimizer": optimizer, "generator": torch.Generator()}
    division = Division(0, SIZE)

    def divide() -> int:
        division.divide(capture(state), state)
        return len(asked)

    assert [divide(), divide(), divide()] == [1, 1, 1]
    model(torch.ones(4)).sum().backward()
    optimizer.step()
    assert [divide(), divide()] == [2, 2], "The optimizer has created its moments."
    model.weight.data = model.weight.data.clone()
    assert [divide(), divide()] == [3, 3], "A parameter is elsewhere."
    state["generator"] = model.weight
    assert divide() == 4


def test_what_has_no_bytes_is_known_by_what_its_views_share() -> None:
    state = fresh_state()
    chance = random.Random(0)
    for change in (empty_parameter, train_list, *[empty_parameter, alias_moment, swap_list] * 3):
        change(state, chance)
        divided = Division(0, SIZE).divide(capture(state), state)
        assert {leaf.path for leaf in divided.equal()} == equal_by_identity(state), change.__name__


def test_a_division_keeps_no_array_alive() -> None:
    state: dict[str, Any] = {"shared": outlast.replicated(torch.rand(LARGE))}
    division = Division(0, SIZE)
    array = weakref.ref(state["shared"])

    division.divide(capture(state), state)
    del state["shared"]

    assert array() is None


def test_arrays_with_items_of_any_size_are_cut_between_two_of_them() -> None:
    array = outlast.replicated(np.zeros(30_000, np.dtype([("a", "i1"), ("b", "<i4"), ("c", "i2")])))
    state = {"array": array}

    cuts = [Division(rank, SIZE).divide(capture(state), state).tree.leaves[0] for rank in range(3)]

    assert [leaf.nbytes for leaf in cuts] == [7 * leaf.shape[0] for leaf in cuts]
    assert sum(leaf.nbytes for leaf in cuts) == array.nbytes
    assert all(leaf.nbytes for leaf in cuts)


def test_an_array_that_becomes_smaller_while_the_state_is_captured_is_refused() -> None:
    array = torch.zeros(1000)
    state = {"array": array, "later": outlast.value(lambda: array.resize_(1).tolist(), print)}
    tree = capture(state)
    layout = lay_out([leaf.nbytes for leaf in tree.leaves])
    buffer = StagingBuffer()

    with pytest.raises(UnsupportedState, match="'array' became smaller"):
        buffer.fill(list(zip(tree.leaves, layout.places, strict=True)), layout.size_bytes)
    buffer.close()


class Ranks:
    """As many ranks as this, of a library."""

    def __init__(self, size: int, library: str = "torch") -> None:
        self.size = size
        self.world = self
        self.library = library


@pytest.mark.parametrize(
    ("processors", "group", "local", "threads"),
    [
        (2, None, "", 2),
        (64, None, "", 4),
        (2, Ranks(2), "", 1),
        (2, Ranks(4), "4", 1),
        (64, Ranks(64), "8", 4),
        (16, Ranks(64), "8", 2),
        (64, Ranks(64), "", 1),
        (64, Ranks(64, "jax"), "", 4),
        (64, Ranks(2), "none", 4),
    ],
)
def test_ranks_of_one_machine_do_not_copy_in_more_threads_than_it_has_processors(
    monkeypatch: pytest.MonkeyPatch, processors: int, group: Any, local: str, threads: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(processors), raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", local)

    assert copying_threads(group) == threads
