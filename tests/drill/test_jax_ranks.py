"""Trainings of two processes of JAX: evicted, killed, and continued to the same bits."""

import contextlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import open_store
from tests.programs import Program
from tests.servers.ports import free_port

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="needs jax")


@contextlib.contextmanager
def processes(folder: Path, size: int, **options: Any) -> Iterator[list[Program]]:
    """All processes of one training, each with two devices."""
    address = f"127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                Program(
                    [
                        *(sys.executable, "-m", "tests.faults.jax_ranks", str(folder)),
                        *(address, str(rank), str(size), json.dumps(options)),
                    ],
                    env={
                        # Long enough for any stall of a busy machine.
                        "OUTLAST_GRACE_SECONDS": "600",
                        "OUTLAST_LOST_SECONDS": "60",
                        "JAX_PLATFORMS": "cpu",
                        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
                    },
                    folder=ROOT,
                )
            )
            for rank in range(size)
        ]


def codes(programs: list[Program]) -> list[int]:
    return [program.wait() for program in programs]


def said(program: Program, word: str) -> str:
    # Not by lines: libraries below JAX print parts of lines in between.
    found = re.findall(rf"{word} (\w+)", program.output)
    assert found, program.output
    return str(found[-1])


# JAX aborts a process whose coordinator is gone, unless Outlast has ended it first.
ABORTED = 128 + signal.SIGABRT


def test_neither_notices_nor_kills_of_one_process_of_jax_change_a_bit(tmp_path: Path) -> None:
    with (
        processes(tmp_path / "calm", 2) as calm,
        processes(tmp_path / "evicted", 2, signal_at=[0, 2]) as evicted,
    ):
        assert codes(evicted) == [75, 75], [program.output for program in evicted]
        assert codes(calm) == [0, 0], [program.output for program in calm]
        expected = [said(program, "done") for program in calm]
        for program in calm:
            assert "not one box on each process" in program.output
            assert "at 'crossed', which cannot be saved" in program.output
    # The process of rank 0 is the coordinator, which has the store between the ranks.
    for killed, step, allowed in ((1, 5, {75}), (0, 7, {75, ABORTED})):
        at = {"signal_at": [killed, step], "signal": "SIGKILL"}
        with processes(tmp_path / "evicted", 2, **at) as programs:
            assert programs[killed].wait() == 128 + signal.SIGKILL, programs[killed].output
            assert programs[1 - killed].wait() in allowed, programs[1 - killed].output
    store = open_store(tmp_path / "evicted" / "run")
    found = [read_manifest(store, name) for name in manifest_names(store)]
    assert [verify_checkpoint(store, manifest) for manifest in found] == [[]] * len(found)
    assert {manifest.world_size for manifest in found} == {2}

    with processes(tmp_path / "evicted", 2) as resumed:
        assert codes(resumed) == [0, 0], [program.output for program in resumed]
        assert {int(said(program, "ready")) for program in resumed} == {found[0].step}
        assert [said(program, "done") for program in resumed] == expected

    # One process has all devices, and the numbers of the first.
    with processes(tmp_path / "evicted", 1, run={"elastic": True}) as [alone]:
        assert codes([alone]) == [0], alone.output
        assert said(alone, "done") == expected[0]
