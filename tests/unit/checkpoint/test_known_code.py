"""Restored bytes are hashed again wherever code of the program could have changed them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import outlast
from outlast.checkpoint.errors import RestoreMismatch
from outlast.checkpoint.restoring import comparison
from tests.unit.checkpoint.stores import memory_url, resumed, saved

State = dict[str, Any]
# Above the size up to which arrays share a chunk.
WIDTH = 200


def halve(module: Any, *_: object) -> None:
    """In place, and unseen by torch's count of changes."""
    with torch.no_grad():
        next(module.parameters()).data.mul_(0.5)


class Halving(nn.Linear):
    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        found = super().load_state_dict(*args, **options)
        halve(self)
        return found


class HalvingInside(nn.Linear):
    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        halve(self)


class HalvingExtra(nn.Linear):
    def get_extra_state(self) -> int:
        return 1

    def set_extra_state(self, state: Any) -> None:
        halve(self)


class HalvingDict(dict[str, Any]):
    def __setitem__(self, key: str, item: Any) -> None:
        super().__setitem__(key, item)
        if isinstance(item, torch.Tensor):
            item.mul_(0.5)


def linear(kind: type[nn.Linear] = nn.Linear) -> Any:
    return kind(WIDTH, WIDTH)


def with_post_hook() -> State:
    model = nn.Sequential(nn.ReLU(), linear())
    model[1].register_load_state_dict_post_hook(halve)  # type: ignore[no-untyped-call]
    return {"model": model}


def with_own_method() -> State:
    model = linear()

    def load(state: Any) -> None:
        nn.Linear.load_state_dict(model, state)
        halve(model)

    model.load_state_dict = load
    return {"model": model}


def with_optimizer_hook() -> State:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters())
    optimizer.register_load_state_dict_post_hook(lambda _: halve(model))
    return {"model": model, "optimizer": optimizer}


def with_value() -> State:
    model = linear()
    return {"model": model, "z": outlast.value(lambda: 1, lambda _: halve(model))}


MEDDLERS: dict[str, Callable[[], State]] = {
    "an overridden load_state_dict": lambda: {"model": linear(Halving)},
    "an overridden part of it": lambda: {"model": nn.Sequential(linear(HalvingInside))},
    "an extra state": lambda: {"model": linear(HalvingExtra)},
    "a hook of a submodule": with_post_hook,
    "a method of the instance": with_own_method,
    "a hook of the optimizer": with_optimizer_hook,
    "a value": with_value,
    "a dict": lambda: {"model": HalvingDict(w=torch.rand(WIDTH, WIDTH))},
}


@pytest.mark.parametrize("make", MEDDLERS.values(), ids=MEDDLERS.keys())
def test_code_of_the_program_that_changes_an_array_in_place_is_found(
    make: Callable[[], State],
) -> None:
    url = memory_url()
    saved(url, make())

    with pytest.raises(RestoreMismatch, match="its bytes differ from those that were saved"):
        resumed(url, make())


def hashed_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the arrays whose bytes are hashed after they were restored."""
    paths: list[str] = []
    original = comparison._changed_bytes

    def note(pairs: Sequence[tuple[int, Any]], *rest: Any) -> list[str]:
        paths.extend(leaf.path for _, leaf in pairs)
        return original(pairs, *rest)

    monkeypatch.setattr(comparison, "_changed_bytes", note)
    return paths


def trained() -> State:
    model = nn.Sequential(linear(), nn.BatchNorm1d(WIDTH), linear())
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    model(torch.rand(3, WIDTH)).sum().backward()
    optimizer.step()
    schedule.step()
    average = torch.optim.swa_utils.AveragedModel(model)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "average": average}
    return {**parts, "history": [np.ones(10), {"loss": torch.ones(3)}]}


def test_a_state_of_torch_is_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    url, state = memory_url(), trained()
    saved(url, state)
    paths = hashed_again(monkeypatch)

    fresh = trained()
    resumed(url, fresh)

    assert [path for path in paths if path.startswith("state.")] == []
    for one, other in zip(state["model"].parameters(), fresh["model"].parameters(), strict=True):
        assert torch.equal(one, other)


def test_arrays_that_share_memory_are_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> State:
        whole = np.arange(100_000.0)
        return {"whole": whole, "half": whole[:50_000], "other": np.ones(100_000)}

    url = memory_url()
    saved(url, make())
    paths = hashed_again(monkeypatch)

    resumed(url, make())

    assert {"state.whole", "state.half"} <= set(paths)
    assert "state.other" not in paths
