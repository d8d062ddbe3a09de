"""States of torch: every dtype and layout, modules, optimizers and what belongs to them."""

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import outlast
from outlast.checkpoint.catalogue import manifest_names, read_manifest
from outlast.checkpoint.errors import StateMismatch, UnsupportedState
from outlast.storage import open_store
from tests.unit.checkpoint.stores import memory_url, resumed, saved

DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


def random_bytes(dtype: Any, *shape: int) -> Any:
    """A tensor of any dtype, with random bits."""
    probe = torch.empty(shape, dtype=dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape).bool()
    data = torch.randint(0, 256, (probe.nbytes,), dtype=torch.uint8)
    return data.view(dtype).reshape(shape)


def bits(tensor: Any) -> bytes:
    found: bytes = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return found


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (0, 4)], ids=str)
def test_every_dtype_comes_back_to_the_bit(name: str, shape: tuple[int, ...]) -> None:
    url, dtype = memory_url(), getattr(torch, name)
    tensor = random_bytes(dtype, *shape)
    saved(url, {"known": tensor, "late": {"tensor": tensor.clone()}})
    known = torch.empty(shape, dtype=dtype)
    state: dict[str, Any] = {"known": known, "late": {}}

    resumed(url, state)

    late = state["late"]["tensor"]
    assert state["known"] is known
    assert (late.dtype, late.shape) == (dtype, tensor.shape)
    if tensor.numel():
        assert bits(known) == bits(late) == bits(tensor)


def test_tensors_that_are_not_contiguous_keep_their_layout_and_memory() -> None:
    url = memory_url()
    base = torch.arange(24.0)
    views = {
        "transposed": base.reshape(4, 6).T,
        "strided": base[::3],
        "channels_last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "conjugate": torch.rand(3, dtype=torch.complex64).conj(),
        "expanded": torch.rand(1).expand(4),
    }
    expected = {name: view.clone() for name, view in views.items()}
    saved(url, views)
    live = {
        name: torch.empty_strided(v.shape, v.stride(), dtype=v.dtype) for name, v in views.items()
    }
    state = dict(live)

    resumed(url, state)

    for name, view in expected.items():
        assert torch.equal(state[name], view.resolve_conj()), name
    assert all(state[name] is live[name] for name in live if name != "expanded")


def test_tied_weights_are_saved_once_and_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(300, 100)
            self.head = nn.Linear(100, 300, bias=False)
            self.head.weight = self.embed.weight

    url, model, other = memory_url(), Tied(), Tied()
    saved(url, {"model": model})

    resumed(url, {"model": other})

    store = open_store(url)
    manifest = read_manifest(store, manifest_names(store)[0])
    assert manifest.size_bytes < 1.5 * model.embed.weight.nbytes
    assert other.head.weight is other.embed.weight
    assert torch.equal(other.embed.weight, model.embed.weight)


def make_training() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=50),
        "plateau": torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
        "scaler": torch.amp.GradScaler("cpu"),
        "ema": torch.optim.swa_utils.AveragedModel(model),
    }


def train(training: dict[str, Any]) -> None:
    loss = training["model"](torch.rand(6, 4)).sum()
    training["optimizer"].zero_grad()
    training["scaler"].scale(loss).backward()
    training["scaler"].step(training["optimizer"])
    training["scaler"].update()
    training["scheduler"].step()
    training["ema"].update_parameters(training["model"])


def test_a_whole_training_goes_on_to_the_same_bits() -> None:
    url = memory_url()
    training, other = make_training(), make_training()
    for _ in range(3):
        train(training)
    saved(url, training)
    train(training)

    resumed(url, other)
    train(other)

    for key in training:
        assert repr(other[key].state_dict()) == repr(training[key].state_dict()), key
    moments = other["optimizer"].state_dict()["state"][0]
    assert torch.equal(
        moments["exp_avg_sq"], training["optimizer"].state_dict()["state"][0]["exp_avg_sq"]
    )


def test_a_mismatch_lists_every_difference_and_changes_nothing() -> None:
    url = memory_url()
    saved(
        url,
        {
            "model": nn.ModuleDict({"old": nn.Linear(2, 3), "same": nn.Linear(2, 2)}),
            "array": torch.zeros(4),
            "half": torch.zeros(4),
            "number": 1,
            "gone": 5,
        },
    )
    model = nn.ModuleDict({"new": nn.Linear(2, 3), "same": nn.Linear(2, 2)})
    state: dict[str, Any] = {
        "model": model,
        "array": torch.ones(5),
        "half": torch.ones(4, dtype=torch.float16),
        "number": 2,
        "came": 6,
    }
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    with pytest.raises(StateMismatch) as caught:
        resumed(url, state)

    places = sorted(line.partition(":")[0] for line in caught.value.differences)
    assert places == [
        "state.array",
        "state.came",
        "state.gone",
        "state.half",
        "state.model.new.bias",
        "state.model.new.weight",
        "state.model.old.bias",
        "state.model.old.weight",
    ]
    assert "float32 [4] was saved, but the state has float32 [5]" in str(caught.value)
    assert "float32 [4] was saved, but the state has float16 [4]" in str(caught.value)
    assert state["number"] == 2
    assert torch.equal(state["array"], torch.ones(5))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_an_optimizer_of_other_parameters_is_refused_before_anything_is_copied() -> None:
    url = memory_url()
    saved(url, {"w": torch.ones(3), "o": torch.optim.Adam(nn.Linear(2, 2).parameters())})
    weights = torch.zeros(3)
    other = torch.optim.Adam(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).parameters())

    with pytest.raises(StateMismatch, match=r"groups of \[2\] parameters .* has \[4\]"):
        resumed(url, {"w": weights, "o": other})

    assert weights.sum() == 0


@pytest.mark.parametrize(
    ("tensor", "what"),
    [
        pytest.param(torch.eye(3).to_sparse(), "sparse", id="sparse"),
        pytest.param(torch.empty(3, device="meta"), "meta device", id="meta"),
    ],
)
def test_tensors_without_plain_memory_are_refused(tensor: Any, what: str) -> None:
    with pytest.raises(UnsupportedState, match=what):
        resumed(memory_url(), {"x": tensor})


def test_a_state_that_never_changes_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    params = torch.zeros(3)
    state = {"params": params, "large": torch.zeros(100_000)}
    with outlast.Checkpointer(memory_url(), state, every_steps=1) as checkpointer:
        checkpointer.resume()
        for step in (1, 2, 3):
            params = params + 1
            checkpointer.save(step)

    assert caplog.text.count("Nothing in the state changed between two saves") == 1


def test_a_second_save_of_the_same_step_is_no_reason_for_that_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with outlast.Checkpointer(memory_url(), {"x": torch.zeros(3)}) as checkpointer:
        checkpointer.resume()
        checkpointer.save(1)
        checkpointer.save(1)

    assert "Nothing in the state" not in caplog.text
    assert resumed(checkpointer.url, {"x": torch.zeros(3)}) == 1
