"""States of JAX: arrays that cannot be written to are replaced in their container."""

from collections.abc import Callable
from importlib.util import find_spec

import pytest

from tests.faults.jax_states import CHECKS, check_all
from tests.faults.lives import life


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    if find_spec("jax") is None:
        pytest.skip("needs jax, which is not installed")
    with life(check_all, log=tmp_path_factory.mktemp("jax") / "log") as one:
        one.wait()
    return one.output


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_holds_for_jax_that(check: Callable[[], None], output: str) -> None:
    assert f"held: {check.__name__}\n" in output, output
