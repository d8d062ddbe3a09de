"""Loops with accelerate that are interrupted end with the bits of plain accelerate."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.forking import ForkedProgram, ForkServer, fork_server
from tests.frameworks.loops import adapted_loops, arrays_in

TRAINING = Path(__file__).parent / "accelerate_training.py"
PAGE = Path(__file__).parents[2] / "docs/how-to/train-with-accelerate.md"
# What the programs import only when they train.
LATE_IMPORTS = ("torch._dynamo", "torchdata.stateful_dataloader")
# In the second epoch, and in the third. The end of an epoch counts as a step. With two processes,
# a dispatcher holds its last batches, which are not enough for both.
STOPS = {1: ("13,TERM", "25,KILL"), 2: ("9,TERM", "16,KILL")}
STOPS_OF_BREAK = ("9,TERM", "18,KILL")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    ours = ("outlast.integrations.accelerate", "outlast.storage.local")
    with fork_server("accelerate", "numpy", *LATE_IMPORTS, *ours) as server:
        yield server


def start(
    server: ForkServer, folder: Path, name: str, *variant: str, url: str, stop: str, ranks: int
) -> list[ForkedProgram]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    shared = {"STOP": stop, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    # Only there does an interruption have an exit code of its own by default.
    shared |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
    return [
        server.start(
            TRAINING,
            [url, str(folder / name), *variant],
            folder=folder,
            output=folder / f"{name}-{rank}.txt",
            environ=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else shared,
        )
        for rank in range(ranks)
    ]


def codes(programs: list[ForkedProgram]) -> list[int]:
    return [one.wait() for one in programs]


def results(folder: Path, name: str, ranks: int) -> list[Any]:
    return [json.loads((folder / f"{name}.{rank}").read_text()) for rank in range(ranks)]


def check_bits(server: ForkServer, folder: Path, *variant: str, ranks: int = 1) -> list[str]:
    """Interrupt a training twice, and compare it with plain accelerate. Returns what it printed."""
    url = str(folder / "run")
    plain = start(server, folder, "plain", *variant, url="", stop="-1,TERM", ranks=ranks)
    is_as_long = "split" in variant
    term, kill = STOPS_OF_BREAK if "break" in variant else STOPS[1 if is_as_long else ranks]
    first = start(server, folder, "first", *variant, url=url, stop=term, ranks=ranks)
    assert codes(first) == [75] * ranks, first[0].text()
    second = start(server, folder, "second", *variant, url=url, stop=kill, ranks=ranks)
    assert codes(second) == [-signal.SIGKILL] * ranks, second[0].text()
    third = start(server, folder, "third", *variant, url=url, stop="-1,TERM", ranks=ranks)
    assert codes(third) == [0] * ranks, third[0].text()
    assert codes(plain) == [0] * ranks, plain[0].text()
    assert results(folder, "third", ranks) == results(folder, "plain", ranks)
    return [one.text() for one in third]


@pytest.mark.older
@pytest.mark.parametrize(
    "variant", [(), ("random", "accumulate", "scheduler"), ("noisy",)], ids="-".join
)
def test_a_resumed_loop_has_the_bits_of_an_undisturbed_one(
    server: ForkServer, tmp_path: Path, variant: tuple[str, ...]
) -> None:
    check_bits(server, tmp_path, *variant)


@pytest.mark.parametrize(
    "variant",
    [
        ("random", "seedable", "break"),
        ("stateful", "random"),
        ("stream", "random", "accumulate"),
        ("workers",),
        ("workers", "stateful"),
    ],
    ids="-".join,
)
def test_so_has_one_with_another_kind_of_loader(
    server: ForkServer, tmp_path: Path, variant: tuple[str, ...]
) -> None:
    check_bits(server, tmp_path, *variant)


@pytest.mark.older
@pytest.mark.parametrize("variant", [("random",), ("seedable", "split")], ids="-".join)
def test_two_processes_resume_together(
    server: ForkServer, tmp_path: Path, variant: tuple[str, ...]
) -> None:
    # They evaluate with data that draw random numbers of their own.
    check_bits(server, tmp_path, "accumulate", "scheduler", "noisy", *variant, ranks=2)


def test_so_do_two_processes_where_one_reads_for_both(server: ForkServer, tmp_path: Path) -> None:
    # Not with random transforms: a process that only receives batches refuses to resume then.
    check_bits(server, tmp_path, "dispatch", "accumulate", ranks=2)


def test_a_transform_that_begins_to_draw_late_is_exact_again_from_the_second_save_on(
    server: ForkServer, tmp_path: Path
) -> None:
    """At the first save, nobody can know whether loading or the loop has drawn."""

    def run(name: str, url: str, stop: str = "-1,TERM") -> ForkedProgram:
        (program,) = start(server, tmp_path, name, "late", url=url, stop=stop, ranks=1)
        return program

    plain = run("plain", "")
    # The first draws are in batch 66, which is read ahead in step 65.
    doubtful, exact = str(tmp_path / "doubtful"), str(tmp_path / "exact")
    assert run("first", doubtful, "67,TERM").wait() == 75
    warned = run("second", doubtful)
    assert run("third", exact, "71,TERM").wait() == 75
    resumed = run("fourth", exact)

    assert codes([plain, warned, resumed]) == [0, 0, 0], resumed.text()
    assert "draw from a random generator (numpy, python)" in warned.text()
    assert "not the same now" not in resumed.text()
    assert results(tmp_path, "fourth", 1) == results(tmp_path, "plain", 1)


def test_the_program_of_the_page_gives_the_bits_of_the_original_also_after_an_eviction(
    server: ForkServer, tmp_path: Path
) -> None:
    (loop,) = adapted_loops(PAGE)
    for name, text in (("before", loop.before), ("after", loop.after)):
        (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / name).mkdir()

    def run(name: str, *, evicted_in: int) -> ForkedProgram:
        return server.start(
            Path(__file__).parent / "evicted.py",
            [str(evicted_in), str(tmp_path / f"{name}.py"), str(tmp_path / name)],
            folder=tmp_path,
            output=tmp_path / f"{name}.txt",
            environ={"KUBERNETES_SERVICE_HOST": "127.0.0.1"},
        )

    before = run("before", evicted_in=-1)
    # It has 16 updates in an epoch.
    interrupted = run("after", evicted_in=21)
    assert interrupted.wait() == 75, interrupted.text()
    assert not (tmp_path / "after/result.npz").exists()
    resumed = run("after", evicted_in=-1)
    assert codes([before, resumed]) == [0, 0], resumed.text()
    assert arrays_in(tmp_path / "after/result.npz") == arrays_in(tmp_path / "before/result.npz")


REFUSALS = {
    "deepspeed": ("UnsupportedState", "uses DEEPSPEED"),
    "fsdp": ("UnsupportedState", "uses FSDP"),
    "megatron": ("UnsupportedState", "uses MEGATRON_LM"),
    "fp8": ("UnsupportedState", "mixed_precision='fp8'"),
    "power_sgd": ("UnsupportedState", "POWER_SGD"),
    "nothing_prepared": ("UnsupportedState", "nothing to save"),
    "second_run": ("RuntimeError", "already has an open run"),
    "prepared_late": ("UnsupportedState", "An object of class AcceleratedOptimizer was prepared"),
    "loader_prepared_late": ("UnsupportedState", "The loader was not prepared before durable()"),
    "uneven": ("UnsupportedState", "even_batches=False"),
    "twin_schedulers": ("UnsupportedState", "several schedulers of the class StepLR"),
    "unknown_version": ("UnsupportedVersion", "1.99.0 is installed"),
    "other_run": ("StateMismatch", "does not match"),
    "other_loaders": ("StateMismatch", "prepared loaders: 1 saved, 2 in this program"),
    "unknown_option": ("TypeError", "every_step"),
    "pass_of_its_own": ("UserWarning", "in the middle of a pass that the program makes by itself"),
}


@pytest.mark.older
def test_what_cannot_be_exact_is_refused_with_the_reason(
    server: ForkServer, tmp_path: Path
) -> None:
    program = server.start(
        Path(__file__).parent / "accelerate_refusals.py",
        [str(tmp_path)],
        folder=tmp_path,
        output=tmp_path / "refusals.txt",
    )
    assert program.wait() == 0, program.text()
    lines = [json.loads(line) for line in program.text().splitlines() if line.startswith("{")]
    found = {line["case"]: (line["kind"], line["text"]) for line in lines}
    assert found.keys() == REFUSALS.keys()
    for case, (kind, text) in REFUSALS.items():
        assert found[case][0] == kind and text in found[case][1], (case, found[case])
