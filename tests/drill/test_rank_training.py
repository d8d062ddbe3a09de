"""Trainings of several ranks as real processes: evicted, and continued to the same bits."""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import open_store
from tests.faults.rank_training import STEPS
from tests.programs import Program

ROOT = Path(__file__).parent.parent.parent
KINDS = ["ddp", "fsdp"]


@contextlib.contextmanager
def ranks(kind: str, folder: Path, size: int, **options: Any) -> Iterator[list[Program]]:
    """All ranks of one world, each in its own process."""
    folder.mkdir(exist_ok=True)
    options["life"] = str(len(list(folder.glob("port-*"))))
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                Program(
                    [
                        *(sys.executable, "-m", "tests.faults.rank_training"),
                        *(kind, str(folder), str(rank), str(size), json.dumps(options)),
                    ],
                    # Long enough for any stall of a busy machine.
                    env={"OUTLAST_GRACE_SECONDS": "600", "OUTLAST_LOST_SECONDS": "60"},
                    folder=ROOT,
                )
            )
            for rank in range(size)
        ]


def results(kind: str, folder: Path, size: int, **options: Any) -> list[str]:
    """What each rank has computed in a life that is not interrupted."""
    with ranks(kind, folder, size, **options) as programs:
        codes = [program.wait() for program in programs]
        assert codes == [0] * size, [program.output for program in programs]
        return [said(program, "done") for program in programs]


def said(program: Program, word: str) -> str:
    lines = [line for line in program.lines if line.startswith(word)]
    assert lines, program.output
    return lines[-1]


def check_store(folder: Path) -> list[int]:
    """The steps of all checkpoints, every one of which reads back."""
    store = open_store(folder / "run")
    found = [read_manifest(store, name) for name in manifest_names(store)]
    assert [verify_checkpoint(store, manifest) for manifest in found] == [[]] * len(found)
    return [manifest.step for manifest in found]


@pytest.mark.parametrize("kind", KINDS)
def test_a_notice_to_one_rank_stops_all_at_one_step_and_changes_no_bit(
    kind: str, tmp_path: Path
) -> None:
    expected = results(kind, tmp_path / "calm", 2)
    folder = tmp_path / "evicted"

    for signaled in (1, 0):
        step = 3 if signaled else 7
        at = {"signal_at": [signaled, step], "signal": "SIGTERM"}
        with ranks(kind, folder, 2, every_steps=100, **at) as programs:
            assert [program.wait() for program in programs] == [75, 75]
            assert len({said(program, "ready") for program in programs}) == 1
        steps = check_store(folder)
        # Not where the interval put it: it is the final save of all ranks.
        assert step < steps[0] < STEPS

    assert results(kind, folder, 2) == expected


def test_shards_are_cut_again_for_another_number_of_ranks(tmp_path: Path) -> None:
    folder = tmp_path / "recut"
    with ranks("fsdp", folder, 4, signal_at=[2, 3], signal="SIGTERM") as programs:
        assert [program.wait() for program in programs] == [75] * 4
    with ranks("fsdp", folder, 4, only_resume=True) as programs:
        assert [program.wait() for program in programs] == [0] * 4
        (expected,) = {said(program, "weights") for program in programs}

    for size in (2, 1, 3):
        with ranks("fsdp", folder, size, only_resume=True, elastic=True) as programs:
            assert [program.wait() for program in programs] == [0] * size
            assert {said(program, "weights") for program in programs} == {expected}, size

    with ranks("fsdp", folder, 2) as programs:
        assert all(program.wait() == 1 for program in programs)
        assert all("elastic=True" in program.output for program in programs)


def test_a_frozen_rank_does_not_keep_the_others(tmp_path: Path) -> None:
    """Not even if it is frozen in the middle of a collective, and nobody gets a notice."""
    at = {"signal_at": [1, 4], "signal": "SIGSTOP"}
    with ranks("ddp", tmp_path / "frozen", 2, lost_seconds=10, **at) as programs:
        assert programs[0].wait() == 75
        assert "rank 1 has not responded" in programs[0].output
    check_store(tmp_path / "frozen")
