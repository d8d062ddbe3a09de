"""Which of several processes this one is, as the libraries that are loaded say."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from outlast.ranks.errors import RanksNotReady
from outlast.ranks.world import World, current_world


@pytest.fixture(autouse=True)
def _nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch.distributed", "jax._src.distributed"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def load_torch(monkeypatch: pytest.MonkeyPatch, *, rank: int, size: int | None) -> None:
    module = ModuleType("torch.distributed")
    vars(module).update(
        is_available=lambda: True,
        is_initialized=lambda: size is not None,
        get_rank=lambda: rank,
        get_world_size=lambda: size,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", module)


def load_jax(monkeypatch: pytest.MonkeyPatch, *, client: object, rank: int, size: int) -> None:
    module = ModuleType("jax._src.distributed")
    state = SimpleNamespace(client=client, process_id=rank, num_processes=size)
    vars(module).update(global_state=state)
    monkeypatch.setitem(sys.modules, "jax._src.distributed", module)


@pytest.mark.parametrize("environ", [{}, {"WORLD_SIZE": ""}, {"WORLD_SIZE": "1"}])
def test_a_program_of_one_process_has_no_world(environ: dict[str, str]) -> None:
    assert current_world(environ) is None


def test_an_initialized_process_group_is_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    load_torch(monkeypatch, rank=2, size=4)

    assert current_world({"WORLD_SIZE": "4"}) == World(rank=2, size=4, library="torch")


def test_a_process_group_of_one_is_no_world(monkeypatch: pytest.MonkeyPatch) -> None:
    load_torch(monkeypatch, rank=0, size=1)

    assert current_world({}) is None


def test_initialized_processes_of_jax_are_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    load_jax(monkeypatch, client=object(), rank=1, size=2)

    assert current_world({}) == World(rank=1, size=2, library="jax")


def test_jax_in_one_process_is_no_world(monkeypatch: pytest.MonkeyPatch) -> None:
    load_jax(monkeypatch, client=None, rank=0, size=1)

    assert current_world({}) is None


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_launched_rank_that_is_not_connected_is_refused(
    is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_loaded:
        load_torch(monkeypatch, rank=0, size=None)

    with pytest.raises(RanksNotReady, match="WORLD_SIZE is 4, but the processes") as caught:
        current_world({"WORLD_SIZE": "4"})

    assert caught.value.hint is not None
    assert "init_process_group()" in caught.value.hint


def test_a_rank_outside_its_world_is_refused() -> None:
    with pytest.raises(ValueError, match="Rank 2 is not in a world of 2"):
        World(rank=2, size=2, library="torch")
