"""What is judged of a program on several nodes, and how it starts on each of them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.drills.judge.checks import judge
from outlast.drills.judge.verdict import Check, CheckResult
from outlast.drills.run import outputs
from outlast.drills.run.launching import WorldSize, launched_command, node_environ
from outlast.drills.run.records import Eviction, NodeExit
from tests.unit.drill.test_checks import FIRST, GOOD, LAST, eviction, job_run
from tests.unit.drill.test_report import REPORT


def left(node: int, code: int = 75, **changes: object) -> NodeExit:
    plain = NodeExit(node=node, exit_code=code, ended_seconds=5.2, output_tail="ValueError: torn")
    return replace(plain, **changes)  # type: ignore[arg-type]  # the names are those of the class


def judged(one: Eviction, *nodes: NodeExit) -> dict[str, Check]:
    """The checks of a job whose first attempt ended like this on its nodes."""
    first = replace(FIRST, nodes=nodes, exit_code=one.exit_code)
    last = replace(LAST, nodes=(left(0, 0), left(1, 0)))
    observed = replace(GOOD, job_run=job_run(first, last, evictions=(one,)))
    return {check.name: check for check in judge(observed)}


NOTICE = eviction(1, node=0)
DEATH = eviction(1, node=0, notice=False, killed=True, exit_code=137)


@pytest.mark.parametrize(
    ("one", "code"),
    [(NOTICE, 75), (DEATH, 137), (replace(NOTICE, killed=True, exit_code=137), 137)],
)
def test_an_eviction_after_which_all_other_nodes_exit_with_75_is_good(
    one: Eviction, code: int
) -> None:
    found = judged(one, left(0, code), left(1))

    assert found["exit-code"].result is CheckResult.PASS
    assert found["exit-code"].reason == "After each eviction of a node, all others exited with 75."


@pytest.mark.parametrize(
    ("one", "codes", "words"),
    [
        (
            NOTICE,
            (75, 1),
            "Node 1 exited with code 1, not 75, after eviction 1 (SIGTERM to node 0)",
        ),
        (NOTICE, (75, 0), "Node 1 exited with code 0"),
        (replace(NOTICE, exit_code=1), (1, 75), "Node 0 exited with code 1"),
        (DEATH, (137, 1), "after eviction 1 (the silent death of node 0): 'ValueError: torn'."),
    ],
)
def test_another_exit_code_of_any_node_is_a_fault(
    one: Eviction, codes: tuple[int, int], words: str
) -> None:
    found = judged(one, left(0, codes[0]), left(1, codes[1]))["exit-code"]

    assert found.result is CheckResult.FAIL
    assert words in found.reason


def test_a_node_that_had_to_be_terminated_is_a_fault_even_if_nothing_was_lost() -> None:
    stuck = left(1, 75, was_terminated=True, ended_seconds=65.0)

    found = judged(DEATH, left(0, 137), stuck)

    assert found["left-in-time"].result is CheckResult.FAIL
    assert "Node 1 did not exit on its own" in found["left-in-time"].reason
    assert "ended after 60 s" in found["left-in-time"].reason
    assert found["exit-code"].result is CheckResult.PASS


@pytest.mark.parametrize("change", [{"in_start_up": True}, {"work_was_done": True}])
def test_nodes_that_wait_for_each_other_at_the_start_or_the_end_are_not_at_fault(
    change: dict[str, object],
) -> None:
    one = replace(DEATH, **change)  # type: ignore[arg-type]  # the names are those of the class

    found = judged(one, left(0, 137), left(1, 1, was_terminated=True))

    assert found["left-in-time"].result is not CheckResult.FAIL
    assert found["exit-code"].result is CheckResult.PASS


def test_a_report_of_independent_nodes_has_nothing_about_a_world() -> None:
    text = json.dumps(REPORT.as_json())

    assert REPORT.evicted is not None and REPORT.evicted.evictions
    for name in ("nodes", "ranks", "node", "work_was_done", "wind_down_seconds"):
        assert f'"{name}":' not in text
    assert "nodes:" not in REPORT.story()


def test_an_eviction_after_the_work_does_not_count() -> None:
    assert not replace(DEATH, work_was_done=True).took_effect


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (["/env/bin/python", "t.py", "-v"], ["/env/bin/python", "-m", "RUN", "t.py", "-v"]),
        (["python3.12", "-m", "train"], ["python3.12", "-m", "RUN", "-m", "train"]),
        (["python", "-c", "x"], ["python", "-m", "RUN", "--no-python", "python", "-c", "x"]),
    ],
)
def test_the_interpreter_of_the_command_runs_the_launcher(
    command: list[str], end: list[str]
) -> None:
    words = launched_command(command)

    assert words[1:5] == ("-m", "outlast", "exec", "--")
    assert [word.replace("torch.distributed.run", "RUN") for word in words[5:]] == end


def test_a_command_without_an_interpreter_is_run_as_it_is() -> None:
    assert launched_command(["./train"])[-2:] == ("--no-python", "./train")


def test_nodes_get_the_variables_of_a_pod() -> None:
    size = WorldSize(nodes=3, ranks=2)
    first, last = (
        node_environ(size, node, port=4711, attempt=5, shutdown_seconds=12.9) for node in (0, 2)
    )

    assert first["PET_NODE_RANK"] == first["JOB_COMPLETION_INDEX"] == "0"
    assert last["PET_NODE_RANK"] == last["JOB_COMPLETION_INDEX"] == "2"
    assert last["PET_RDZV_ENDPOINT"] == first["PET_RDZV_ENDPOINT"] == "127.0.0.1:4711"
    assert (last["PET_NNODES"], last["PET_NPROC_PER_NODE"], last["PET_MAX_RESTARTS"]) == (
        "3",
        "2",
        "0",
    )
    assert last["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "12"


def test_the_report_of_a_launcher_does_not_hide_the_error_of_the_program(tmp_path: Path) -> None:
    log = tmp_path / "log"
    report = "E1117 20:09:57.3 2 torch/distributed/elastic/multiprocessing/api.py:1] failed\n"
    log.write_text(f"step 1\nValueError: torn\n{report}" + "  File x\n" * 50)

    assert outputs.tail(log, launched=True).splitlines() == ["step 1", "ValueError: torn"]
    assert "ValueError" not in outputs.tail(log)


def test_a_launcher_that_fails_alone_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("E1117 20:09:57.3 2 torch/distributed/elastic/agent/api.py:1] no port\n")

    assert "no port" in outputs.tail(log, launched=True)
