"""Random states, saved, killed and resumed: each one comes back equal, or is refused by name.

Each case builds a fresh state, lets the "run" change it at random (values, late keys and types,
growth, arrays and containers that become shared or come apart), saves it in a process of its own
that is killed afterwards, and resumes into another fresh state. Then both states are changed in
the same way in place, which shows what is shared. A failure prints the seed that repeats it.
"""

import collections
import copy
import os
import random
import re
import signal
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import CheckpointError, StateMismatch

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

CASES = 5_000
_NEVER = 10**9
_DTYPES: tuple[Any, ...] = (
    *("?", "i1", "u1", "<i2", ">u2", "i4", "u4", "<i8", ">i8", "u8"),
    *(
        "f2",
        "<f4",
        ">f4",
        "<f8",
        ">f8",
        "g",
        "c8",
        "<c16",
        ">c16",
        "U3",
        "S5",
        "V3",
        "M8[s]",
        "m8[ms]",
    ),
    [("a", "<f8"), ("b", ">i2")],
    np.dtype([("a", "i1"), ("b", "c16"), ("c", "f4", (2,))], align=True),
)
_TORCH_DTYPES = (
    *("bool", "uint8", "int8", "int16", "uint16", "int32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2"),
)


class Pair(NamedTuple):
    left: Any
    right: Any


class Holder:
    """An object with a state_dict that keeps what it is given."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def state_dict(self) -> dict[str, Any]:
        return {"inside": self.inside}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inside = state["inside"]


class Copier(Holder):
    """The same, but keeps a copy of what it loads."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inside = copy.deepcopy(state["inside"])


class Tagged(dict[str, Any]):
    """A dict with an attribute."""

    tag = 0


class Tags(set[int]):
    pass


class Layers(torch.nn.Module):
    """Two layers whose weights may be tied, and a slice of one as a buffer."""

    def __init__(self, *, is_tied: bool) -> None:
        super().__init__()
        self.a = torch.nn.Linear(2, 2)
        self.b = torch.nn.Linear(2, 2, bias=False)
        if is_tied:
            self.b.weight = self.a.weight
        self.register_buffer("row", self.a.weight.detach()[0])


class Growth:
    """Builds parts and changes them, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.bits = np.random.default_rng(seed)

    def part(self, depth: int = 0) -> Any:
        makers: list[Callable[[int], Any]] = [self._scalar, self._array, self._tensor]
        if depth < 3:
            makers += [
                self._dict,
                self._list,
                self._tuple,
                self._mapping,
                self._object,
                self._views,
            ]
        return self.chance.choice(makers)(depth)

    def _scalar(self, _: int) -> Any:
        numbers = [0, -1, 2**70, 0.0, -0.0, float("nan"), -float("inf"), 1.5, 1 - 2j]
        plain = [None, True, "text", b"bytes", bytearray(b"xy"), {1, 2}, frozenset("a")]
        numpy = [np.float32(1.5), np.int64(7), np.str_("s"), np.datetime64("2026-01-01")]
        return copy.copy(self.chance.choice([*numbers, *plain, *numpy]))

    def _array(self, _: int) -> Any:
        kind = np.dtype(self.chance.choice(_DTYPES))
        shape = tuple(self.chance.randrange(4) for _ in range(self.chance.randrange(3)))
        count = int(np.prod(shape, dtype=int)) * kind.itemsize
        limit = 2 if kind.kind == "b" else 100
        if kind.kind == "g" or kind.char == "g":
            return self.bits.integers(0, 100, shape).astype(kind)
        data = self.bits.integers(0, limit, count, dtype=np.uint8)
        if kind.kind == "U":
            return np.full(shape, "ab", kind)
        array = data.view(kind).reshape(shape).copy() if count else np.empty(shape, kind)
        if array.ndim > 1 and self.chance.random() < 0.3:
            return np.asfortranarray(array)
        return array.view(np.matrix) if array.ndim == 2 and self.chance.random() < 0.1 else array

    def _tensor(self, _: int) -> Any:
        kind = getattr(torch, self.chance.choice(_TORCH_DTYPES))
        shape = tuple(self.chance.randrange(4) for _ in range(self.chance.randrange(3)))
        tensor = torch.from_numpy(self.bits.integers(0, 2, shape)).to(kind)
        if kind.is_floating_point and self.chance.random() < 0.3:
            return (
                torch.nn.Parameter(tensor)
                if self.chance.random() < 0.5
                else tensor.requires_grad_()
            )
        return tensor

    def _dict(self, depth: int) -> Any:
        keys = self.chance.sample(
            ["a", "b", "c.d", 1, 2.5, (1, "x"), b"k", True, 0.0], self.chance.randrange(4)
        )
        return {key: self.part(depth + 1) for key in keys}

    def _list(self, depth: int) -> Any:
        items = [self.part(depth + 1) for _ in range(self.chance.randrange(4))]
        return items * 2 if self.chance.random() < 0.2 else items

    def _tuple(self, depth: int) -> Any:
        if self.chance.random() < 0.5:
            return Pair(self.part(depth + 1), self.part(depth + 1))
        return tuple(self.part(depth + 1) for _ in range(self.chance.randrange(3)))

    def _mapping(self, depth: int) -> Any:
        items = {key: self.part(depth + 1) for key in self.chance.sample("xyz", 2)}
        kinds: list[Callable[[], Any]] = [
            lambda: collections.OrderedDict(items),
            lambda: collections.Counter("hello"),
            lambda: collections.defaultdict(list, items),
            lambda: torch.Size([1, 2]),
            lambda: Tags([1, 2]),
            lambda: self._tagged(items),
        ]
        return self.chance.choice(kinds)()

    def _tagged(self, items: dict[str, Any]) -> Any:
        tagged = Tagged(items)
        if self.chance.random() < 0.5:
            tagged.tag = self.chance.randrange(5)
        return tagged

    def _views(self, _: int) -> Any:
        """An array and slices of it, in any order, and slices that only look like it."""
        is_torch = self.chance.random() < 0.5
        base: Any = torch.arange(8.0) if is_torch else np.arange(8.0)
        parts = [base, base[:4], base[3:6], base[6:], base[::2]]
        parts = [
            _copied(part) if self.chance.random() < 0.3 else part
            for part in self.chance.sample(parts, self.chance.randrange(1, 5))
        ]
        return parts if self.chance.random() < 0.5 else dict(zip("pqrst", parts, strict=False))

    def _generators(self) -> Any:
        first = np.random.default_rng(self.chance.randrange(99))
        other = np.random.Generator(first.bit_generator)
        return [first, other if self.chance.random() < 0.5 else np.random.default_rng(5)]

    def _trained(self) -> Any:
        model = torch.nn.Linear(2, 2).to(self.chance.choice([torch.float32, torch.bfloat16]))
        optimizer = torch.optim.Adam(model.parameters())
        if self.chance.random() < 0.5:
            _step(model, optimizer)
        return {"model": model, "optimizer": optimizer}

    def _object(self, depth: int) -> Any:
        kinds: list[Callable[[], Any]] = [
            lambda: Holder(self.part(depth + 1)),
            lambda: Copier(self.part(depth + 1)),
            lambda: torch.nn.Linear(2, 2),
            lambda: Layers(is_tied=self.chance.random() < 0.5),
            self._generators,
            self._trained,
            lambda: random.Random(self.chance.random()),
            lambda: np.random.default_rng(self.chance.randrange(99)),
        ]
        return self.chance.choice(kinds)()

    def change(self, state: dict[str, Any]) -> None:
        """What a run does to its state: new values, late parts, sharing and its end."""
        for _ in range(self.chance.randrange(1, 6)):
            places = list(_places(state))
            container, key = self.chance.choice(places)
            act = self.chance.choices(range(9), weights=(1, 3, 3, 1, 1, 3, 2, 3, 1))[0]
            if act < 3:
                other = _value(*self.chance.choice(places))
                container[key] = [self.part(1), other, _copied(container[key])][act]
            elif act == 6:
                self._use(container[key])
            elif act == 7:
                container[key] = _slice_of(_value(*self.chance.choice(places)))
            elif act == 4 and isinstance(container, list):
                container.append(self.part(1))
            elif isinstance(container, dict):
                self._rekey(container, key, act)

    def _rekey(self, container: Any, key: Any, act: int) -> None:
        if act == 3:
            container[self.chance.choice(["late", "later", key])] = self.part(1)
        elif act == 8:
            container[self.chance.choice([Pair(1, "k"), True, -0.0])] = 1
        else:
            container[key] = container.pop(key)

    def _use(self, thing: Any) -> None:
        """What a program does with the objects in its state."""
        if isinstance(thing, Layers):
            is_tied = thing.a.weight is thing.b.weight
            thing.b.weight = torch.nn.Parameter(torch.ones(2, 2)) if is_tied else thing.a.weight
        elif isinstance(thing, Holder):
            thing.inside = self.part(2) if self.chance.random() < 0.3 else _copied(thing.inside)
        elif isinstance(thing, Tagged):
            thing.tag = self.chance.randrange(5)
        elif isinstance(thing, np.random.Generator | random.Random):
            thing.random()
        elif isinstance(thing, dict) and "optimizer" in thing and "model" in thing:
            if isinstance(thing["optimizer"], torch.optim.Optimizer):
                _step(thing["model"], thing["optimizer"])


def _step(model: Any, optimizer: Any) -> None:
    if not isinstance(model, torch.nn.Linear):
        return
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for parameter in model.parameters():
        if parameter in optimizer.state:
            master = parameter.detach().float() + 1 / 3
            optimizer.state[parameter].update(master=master, masters=[master + 1])


def _slice_of(thing: Any) -> Any:
    """A part of an array, in its memory."""
    if isinstance(thing, np.ndarray) and thing.ndim and len(thing) > 1:
        return thing[1:]
    if isinstance(thing, torch.Tensor) and thing.ndim and len(thing) > 1:
        return thing.detach()[1:]
    return thing


def _value(container: Any, key: Any) -> Any:
    return container[key]


def _copied(thing: Any) -> Any:
    return thing.detach().clone() if isinstance(thing, torch.Tensor) else copy.copy(thing)


def _places(container: Any, depth: int = 0) -> Any:
    items = container.items() if isinstance(container, dict) else enumerate(container)
    for key, item in list(items):
        yield container, key
        # A container may have been put into itself, which a save refuses.
        if isinstance(item, dict | list) and depth < 5:
            yield from _places(item, depth + 1)


def nudge(thing: Any, seen: set[int], *, grows: bool = True) -> None:
    """Change everything that can be changed in place, each once; lists grow as well."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray) and thing.size and thing.dtype.kind in "uif":
        thing += 1
    elif isinstance(thing, torch.Tensor) and thing.numel() and thing.dtype in _ADDABLE:
        with torch.no_grad():
            thing.add_(1)
    elif isinstance(thing, np.random.Generator):
        thing.random()
    for item in _inside(thing):
        nudge(item, seen, grows=grows)
    if grows and isinstance(thing, list):
        thing.append(len(thing))


_ADDABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _inside(thing: Any) -> list[Any]:
    if isinstance(thing, torch.nn.Module):
        return [*thing.parameters(), *thing.buffers()]
    if isinstance(thing, torch.optim.Optimizer):
        return [thing.state_dict()["state"]]
    if isinstance(thing, Holder):
        return [thing.inside]
    if isinstance(thing, dict):
        return list(thing.values())
    return list(thing) if isinstance(thing, list | tuple) else []


def described(thing: Any) -> Any:
    """Everything about a part, as text and bytes that can be compared."""
    if isinstance(thing, np.ndarray | np.generic):
        # What is in the gaps of a structure or a long double belongs to no value.
        has_gaps = thing.dtype.names is not None or thing.dtype.char == "g"
        data = repr(thing.tolist()) if has_gaps else thing.tobytes()
        return type(thing), repr(thing.dtype.descr), thing.shape, data
    if isinstance(thing, torch.Tensor):
        plain = thing.detach().contiguous().reshape(-1)
        data = plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
        return type(thing), str(thing.dtype), tuple(thing.shape), thing.requires_grad, data
    if isinstance(thing, torch.nn.Module | Holder | torch.optim.Optimizer):
        return type(thing), described(dict(thing.state_dict()))
    if isinstance(thing, random.Random):
        return type(thing), thing.getstate()
    if isinstance(thing, np.random.Generator):
        return type(thing), repr(thing.bit_generator.state)
    if isinstance(thing, dict):
        factory = getattr(thing, "default_factory", None)
        items = [(repr(key), described(item)) for key, item in thing.items()]
        return type(thing), factory, getattr(thing, "tag", None), items
    if isinstance(thing, list | tuple):
        return type(thing), [described(item) for item in thing]
    if isinstance(thing, set | frozenset):
        return type(thing), sorted(map(repr, thing))
    if isinstance(thing, float):
        return float, np.float64(thing).tobytes()
    return type(thing), repr(thing)


def fresh(seed: int) -> dict[str, Any]:
    growth = Growth(seed)
    torch.manual_seed(seed)
    return {name: growth.part() for name in "uvw"}


def grown(seed: int) -> dict[str, Any]:
    state = fresh(seed)
    torch.manual_seed(seed + 1)
    Growth(seed + 1).change(state)
    return state


def save_and_die(url: str, seed: int, log: Path) -> None:
    """In a child: open the run as a fresh process does, change, save, and be killed.

    Notes in the log whether the save was reported as one that cannot be resumed.
    """
    state = fresh(seed)
    checkpointer = Checkpointer(url, state, every_steps=_NEVER, on_error="warn")
    checkpointer.resume()
    torch.manual_seed(seed + 1)
    Growth(seed + 1).change(state)
    checkpointer.save(1)
    checkpointer.wait()
    growth = checkpointer._session._growth
    assert growth is not None
    log.write_text("reported" if growth._has_found else "")
    os.kill(os.getpid(), signal.SIGKILL)


def killed_after_save(url: str, seed: int, log: Path) -> bool:
    """Whether a child saved before it was killed; False if the state was refused by name."""
    pid = os.fork()
    if pid == 0:
        try:
            save_and_die(url, seed, log)
        except CheckpointError:
            os._exit(3)
        except BaseException:
            log.write_text(traceback.format_exc())
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (3, -signal.SIGKILL), f"seed {seed}: {log.read_text()}"
    return code != 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("share", range(10))
def test_every_random_state_comes_back_equal_or_is_refused_by_name(
    tmp_path: Path, share: int
) -> None:
    equal = refused = late = unsaved = 0
    for number in range(CASES // 10):
        seed = 1_000_000 * (share + 1) + 2 * number
        url = str(tmp_path / str(number))
        if not killed_after_save(url, seed, tmp_path / "log"):
            unsaved += 1
            continue
        state = fresh(seed)
        # Nothing is equal by having never been changed.
        nudge(state, set(), grows=False)
        try:
            with Checkpointer(url, state, every_steps=_NEVER, on_error="warn") as checkpointer:
                checkpointer.resume()
        except CheckpointError as error:
            assert re.search(r"\bstate[.\[]", str(error)), f"seed {seed}"
            is_reported = (tmp_path / "log").read_text() == "reported"
            # Only what an object does while it loads cannot be known at the save.
            assert is_reported or not isinstance(error, StateMismatch), f"seed {seed}: {error}"
            refused += 1
            late += not is_reported
            continue
        expected = grown(seed)
        assert described(state) == described(expected), f"seed {seed}"
        nudge(state, set())
        nudge(expected, set())
        assert described(state) == described(expected), f"seed {seed}, after a change in place"
        equal += 1
    print(f"{equal} equal, {refused} refused ({late} only at resume), {unsaved} not saved")
    assert equal >= CASES // 50, "Too few cases show anything."
