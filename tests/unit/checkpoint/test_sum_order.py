"""A resumed run whose sums have another order than before says so."""

import weakref
from dataclasses import dataclass

import pytest

from outlast.checkpoint.state.division import Division


@dataclass(eq=False)
class Parallel:
    """What is asked of a DistributedDataParallel."""

    find_unused_parameters: bool
    static_graph: bool = False


@pytest.mark.parametrize(
    ("rank", "size", "module", "is_warned"),
    [
        (0, 3, Parallel(find_unused_parameters=False), True),
        (0, 3, Parallel(find_unused_parameters=True, static_graph=True), True),
        (0, 3, Parallel(find_unused_parameters=True), False),
        # A sum of two does not depend on the order.
        (0, 2, Parallel(find_unused_parameters=False), False),
        (1, 3, Parallel(find_unused_parameters=False), False),
    ],
)
def test_a_resumed_run_whose_sums_have_another_order_is_reported_once(
    rank: int,
    size: int,
    module: Parallel,
    is_warned: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    division = Division(rank, size)
    division._replicas._parallel = [weakref.ref(module)]

    division.warn_of_order()

    assert ("find_unused_parameters=True" in caplog.text) == is_warned
