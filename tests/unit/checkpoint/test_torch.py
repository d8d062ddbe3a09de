"""States of torch: every dtype and layout, modules, optimizers and what belongs to them."""

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import outlast
from outlast.checkpoint.errors import (
    StateMismatch,
    UnresumableState,
    UnsupportedState,
)
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import open_store
from tests.unit.checkpoint.stores import memory_url, resumed, saved

_PLATEAU = torch.optim.lr_scheduler.ReduceLROnPlateau

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
        "strided": base.clone()[::3],
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

    assert caplog.text.count("The state did not change between two saves") == 1


def test_a_second_save_of_the_same_step_is_no_reason_for_that_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with outlast.Checkpointer(memory_url(), {"x": torch.zeros(3)}) as checkpointer:
        checkpointer.resume()
        checkpointer.save(1)
        checkpointer.save(1)

    assert "Nothing in the state" not in caplog.text
    assert resumed(checkpointer.url, {"x": torch.zeros(3)}) == 1


def test_the_best_weights_and_the_model_do_not_meet_in_the_models_memory() -> None:
    url = memory_url()
    model = nn.Linear(2, 2)
    best = {name: tensor.clone() + 1 for name, tensor in model.state_dict().items()}
    saved(url, {"best": best, "model": model})
    fresh = nn.Linear(2, 2)
    state: dict[str, Any] = {"best": fresh.state_dict(), "model": fresh}

    resumed(url, state)

    assert torch.equal(fresh.weight, model.weight)
    assert torch.equal(state["best"]["weight"], best["weight"])
    fresh.weight.data.zero_()
    assert torch.equal(state["best"]["weight"], best["weight"])


def test_weights_that_were_tied_when_saved_and_are_not_now_are_refused() -> None:
    class Pair(nn.Module):
        def __init__(self, *, tied: bool) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
            if tied:
                self.b.weight = self.a.weight

    tied, untied = memory_url(), memory_url()
    saved(tied, {"model": Pair(tied=True)})
    saved(untied, {"model": Pair(tied=False)})

    with pytest.raises(
        StateMismatch, match=r"b\.weight: it was one array with state\.model\.a\.weight"
    ):
        resumed(tied, {"model": Pair(tied=False)})
    with pytest.raises(
        StateMismatch,
        match=r"state\.model\.b\.weight: it was saved separately from state\.model\.a",
    ):
        resumed(untied, {"model": Pair(tied=True)})


def test_float32_moments_of_bfloat16_parameters_keep_their_precision() -> None:
    url = memory_url()
    model = nn.Linear(3, 3).to(torch.bfloat16)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.rand(2, 3, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    for moments in optimizer.state.values():
        moments["exp_avg"] = torch.rand(moments["exp_avg"].shape)
        moments["master"] = torch.rand(moments["exp_avg"].shape)
    saved(url, {"model": model, "optimizer": optimizer})
    fresh = nn.Linear(3, 3).to(torch.bfloat16)
    other = torch.optim.Adam(fresh.parameters())

    resumed(url, {"model": fresh, "optimizer": other})

    for was, now in zip(optimizer.state.values(), other.state.values(), strict=True):
        for name in ("exp_avg", "master", "exp_avg_sq"):
            assert now[name].dtype == was[name].dtype
            assert torch.equal(now[name], was[name])


def test_what_appears_late_keeps_its_class_layout_and_gradient() -> None:
    url = memory_url()
    late: dict[str, Any] = {
        "size": torch.Size([2, 3]),
        "parameter": nn.Parameter(torch.rand(2)),
        "frozen": nn.Parameter(torch.rand(2), requires_grad=False),
        "leaf": torch.rand(2, requires_grad=True),
        "channels_last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    }
    saved(url, {"late": late})
    state: dict[str, Any] = {"late": {}}

    resumed(url, state)

    for name, was in late.items():
        now = state["late"][name]
        assert type(now) is type(was), name
        if isinstance(was, torch.Tensor):
            assert torch.equal(now, was), name
            assert (now.requires_grad, now.stride()) == (was.requires_grad, was.stride()), name
        else:
            assert now == was


def test_a_tensor_that_was_frozen_on_the_way_is_frozen_again() -> None:
    url = memory_url()
    saved(url, {"w": torch.ones(2)})
    w = torch.zeros(2, requires_grad=True)
    state = {"w": w}

    resumed(url, state)

    assert state["w"] is w
    assert (w.tolist(), w.requires_grad) == ([1, 1], False)


def test_one_object_in_two_places_is_saved_once() -> None:
    url = memory_url()
    model = nn.Linear(2, 2)
    saved(url, {"model": model, "parts": {"same": model}})
    fresh = nn.Linear(2, 2)
    state: dict[str, Any] = {"model": fresh, "parts": {"same": fresh}}

    resumed(url, state)

    assert state["parts"]["same"] is fresh
    assert torch.equal(fresh.weight, model.weight)


@pytest.mark.parametrize(
    "make",
    [
        lambda o: torch.optim.lr_scheduler.SequentialLR(
            o,
            [
                torch.optim.lr_scheduler.ConstantLR(o, factor=0.1, total_iters=2),
                torch.optim.lr_scheduler.ExponentialLR(o, gamma=0.9),
            ],
            milestones=[3],
        ),
        lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=10),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 5),
        lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.1, 0.2),
    ],
    ids=["SequentialLR", "ReduceLROnPlateau", "OneCycleLR", "WarmRestarts", "CyclicLR"],
)
def test_schedulers_are_equal_to_what_was_saved(make: Any) -> None:
    def build() -> tuple[Any, Any]:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
        return optimizer, make(optimizer)

    url = memory_url()
    optimizer, scheduler = build()
    optimizer.step()
    scheduler.step(*([1.0] if isinstance(scheduler, _PLATEAU) else []))
    saved(url, {"optimizer": optimizer, "scheduler": scheduler})
    other, fresh = build()

    resumed(url, {"optimizer": other, "scheduler": fresh})

    assert fresh.state_dict().keys() == scheduler.state_dict().keys()
    assert fresh.get_last_lr() == scheduler.get_last_lr()


@pytest.mark.parametrize(
    "kind",
    "ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS NAdam RAdam RMSprop Rprop SGD".split(),
)
def test_every_optimizer_is_equal_to_what_was_saved(kind: str) -> None:
    def build() -> tuple[nn.Module, Any]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        return model, getattr(torch.optim, kind)(model.parameters(), lr=0.01)

    def train(model: nn.Module, optimizer: Any, steps: int) -> None:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = model(torch.ones(4, 3)).pow(2).sum()
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)

    url = memory_url()
    model, optimizer = build()
    train(model, optimizer, 3)
    saved(url, {"model": model, "optimizer": optimizer})
    train(model, optimizer, 3)
    fresh, other = build()

    resumed(url, {"model": fresh, "optimizer": other})
    train(fresh, other, 3)

    assert all(map(torch.equal, fresh.parameters(), model.parameters()))


class Wrapped:
    """An optimizer inside an object of the program's."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def state_dict(self) -> Any:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: Any) -> None:
        self.optimizer.load_state_dict(state)


@pytest.mark.parametrize("wrap", [lambda optimizer: optimizer, Wrapped], ids=["plain", "wrapped"])
def test_masters_in_float32_come_back_from_lists_and_wrappers(wrap: Any) -> None:
    def build() -> tuple[Any, Any]:
        model = nn.Linear(2, 2).to(torch.bfloat16)
        return model, torch.optim.Adam(model.parameters())

    model, optimizer = build()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    masters = {}
    for number, parameter in enumerate(model.parameters()):
        masters[number] = parameter.detach().float() + 1 / 3
        exact = {"one": masters[number], "list": [masters[number] + 1], "pair": (masters[number],)}
        optimizer.state[parameter].update(exact)
    url = memory_url()
    saved(url, {"model": model, "optimizer": wrap(optimizer)})
    other, fresh = build()

    resumed(url, {"model": other, "optimizer": wrap(fresh)})

    for number, master in masters.items():
        found = fresh.state_dict()["state"][number]
        for got, expected in (
            (found["one"], master),
            (found["list"][0], master + 1),
            (found["pair"][0], master),
        ):
            assert got.dtype is torch.float32
            assert bits(got) == bits(expected)


class TwoLayers(nn.Module):
    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        if tied:
            self.b.weight = self.a.weight


@pytest.mark.parametrize("tied", [True, False])
def test_weights_that_are_tied_or_untied_later_are_reported_at_the_save(tied: bool) -> None:
    model = TwoLayers(tied=tied)
    with outlast.Checkpointer(memory_url(), {"model": model}, every_steps=10**9) as checkpointer:
        checkpointer.resume()
        model.b.weight = nn.Parameter(torch.ones(2, 2)) if tied else model.a.weight
        checkpointer.save(1)
        checkpointer.wait()

        with pytest.raises(UnresumableState, match=r"state\.model\.b\.weight: it was"):
            checkpointer.tick(1)


def test_parameters_frozen_on_the_way_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    url = memory_url()
    frozen = nn.Linear(2, 2)
    frozen.weight.requires_grad_(False)
    saved(url, {"model": frozen})
    again = nn.Linear(2, 2)
    again.weight.requires_grad_(False)

    resumed(url, {"model": again})
    assert not caplog.records
    resumed(url, {"model": nn.Linear(2, 2)})

    assert "In state.model, different parameters require a gradient" in caplog.text
