"""Arrays of which some ranks have nothing, because they have fewer rows than there are ranks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SMALL = ["model.module.p0", "model.module.p1", "model.module.p2", "model.module.p3"]


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    """What each of four ranks saves."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.empty_shards"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("case", ["sharded", "tied", "replicated"])
def test_all_ranks_have_the_same_arrays_and_save_every_element_once(
    ranks: list[dict[str, Any]], case: str
) -> None:
    found = [rank[case] for rank in ranks]
    elements = found[0]["elements"]

    assert elements
    for one in found:
        assert one["root"] == found[0]["root"]
        assert one["elements"] == elements
        assert one["layout"] == found[0]["layout"]
    saved = {path: sum(one["saved"][path] for one in found) for path in elements}
    assert saved == elements


def test_no_array_is_taken_for_another(ranks: list[dict[str, Any]]) -> None:
    # Three layers of two parameters. Besides, the optimizer has two arrays and a count for each.
    assert [len(rank["sharded"]["saved"]) for rank in ranks] == [3 * 2 * 4] * len(ranks)
    assert [list(rank["tied"]["saved"]) for rank in ranks] == [["one", "other"]] * len(ranks)


def test_arrays_without_elements_are_equal_on_all_ranks(ranks: list[dict[str, Any]]) -> None:
    assert all(rank["replicated"]["equal"][:4] == SMALL for rank in ranks)
    assert all(len(rank["replicated"]["equal"]) == 6 for rank in ranks)
