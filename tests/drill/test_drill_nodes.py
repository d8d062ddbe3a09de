"""A program on several nodes, one of which is evicted at a time: real torchrun agents and ranks."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from outlast.drills.errors import DrillError
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import Verdict
from outlast.drills.page.document import page
from outlast.drills.rehearsal import drill
from outlast.drills.run.records import Eviction
from tests.drill.drilling import (
    AMPLE,
    conclusive_drill,
    control,
    failing,
    nothing_left_behind,
)

pytestmark = [pytest.mark.needs("torch"), pytest.mark.needs("pid-namespace")]

# `outlast exec` learns from them how the ranks of a launcher ended.


@pytest.fixture(scope="module", autouse=True)
def _clean(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        # Longer than any stall of a busy machine.
        monkeypatch.setenv("OUTLAST_LOST_SECONDS", "300")
        with nothing_left_behind(tmp_path_factory.mktemp("nodes"), monkeypatch):
            yield


@pytest.fixture(scope="module")
def report() -> DrillReport:
    """A drill of a training that resumes: node 1 gets a notice, then node 0 vanishes."""
    return conclusive_drill(
        control("data_parallel"),
        nodes=2,
        evictions=2,
        no_notice=0.5,
        hostile=0,
        grace=AMPLE,
        seed=0,
        expect=["weights.json"],
    )


def eviction(report: DrillReport, *, notice: bool) -> Eviction:
    assert report.evicted is not None, report.story()
    [found] = [one for one in report.evicted.evictions if one.notice is notice]
    return found


def codes_after(report: DrillReport, eviction: Eviction) -> list[int]:
    assert report.evicted is not None
    attempt = report.evicted.attempts[eviction.attempt - 1]
    return [one.exit_code for one in attempt.nodes]


def test_all_nodes_restart_together_and_end_with_the_same_bits(report: DrillReport) -> None:
    # The exit codes have tests of their own.
    assert set(failing(report)) <= {"exit-code"}, report.story()
    assert report.evicted is not None
    assert [one.number for one in report.evicted.attempts] == [1, 2, 3]
    assert all(len(one.nodes) == 2 for one in report.evicted.attempts)
    assert [one.exit_code for one in report.evicted.attempts[-1].nodes] == [0, 0]
    assert not any(node.was_terminated for one in report.evicted.attempts for node in one.nodes)
    ends = [one.ended_seconds for one in report.evicted.attempts]
    starts = [one.started_seconds for one in report.evicted.attempts]
    assert starts[1] > ends[0] and starts[2] > ends[1]


def test_the_evicted_node_is_named_in_every_format(report: DrillReport) -> None:
    noticed, silent = eviction(report, notice=True), eviction(report, notice=False)

    assert (noticed.node, silent.node) == (1, 0)
    assert "nodes: 2, each with 1 rank" in report.story()
    assert "eviction 1 of node 1: SIGTERM" in report.story()
    assert "eviction 2 of node 0: no notice; node 1 " in report.story()
    assert "eviction 1 of node 1: SIGTERM" in report.as_junit()
    assert "node 1, with notice" in page(report) and "node 0, without notice" in page(report)
    found = report.as_json()
    assert (found["nodes"], found["ranks"]) == (2, 1)
    evicted = found["evicted"]
    assert isinstance(evicted, dict)
    assert [one["node"] for one in evicted["evictions"]] == [1, 0]
    assert [one["exit_code"] for one in evicted["attempts"][-1]["nodes"]] == [0, 0]


def test_all_nodes_exit_with_75_after_a_notice_to_one(report: DrillReport) -> None:
    assert codes_after(report, eviction(report, notice=True)) == [75, 75], report.story()


def test_the_other_node_exits_with_75_after_a_silent_death(report: DrillReport) -> None:
    assert codes_after(report, eviction(report, notice=False)) == [137, 75], report.story()


def test_a_training_that_starts_over_does_not_survive() -> None:
    report = conclusive_drill(
        control("faulty_ranks", "never-saves"),
        ranks=2,
        evictions=1,
        no_notice=1,
        hostile=0,
        seed=1,
        expect=["result.txt"],
    )

    assert report.verdict is Verdict.DID_NOT_SURVIVE, report.story()
    assert "resumed" in failing(report), report.story()
    assert "nodes: 1, each with 2 ranks" in report.story()


def test_a_node_that_does_not_hear_about_the_notice_is_found() -> None:
    report = drill(
        control("faulty_ranks", "deaf-node"),
        nodes=2,
        evictions=1,
        no_notice=0,
        hostile=0,
        grace=AMPLE,
        seed=1,
        skip_baseline=True,
    )

    assert report.verdict is Verdict.DID_NOT_SURVIVE, report.story()
    assert (
        "exited with code 1, not 75, after eviction 1 (SIGTERM to node 0)"
        in failing(report)["exit-code"]
    ), report.story()


@pytest.mark.parametrize(
    "command",
    [["torchrun", "train.py"], ["outlast", "exec", "--", "python", "train.py"]],
)
def test_a_command_that_starts_its_own_ranks_is_refused(command: list[str]) -> None:
    with pytest.raises(DrillError, match="itself"):
        drill(command, nodes=2)


def test_a_python_without_torch_is_refused(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)

    with pytest.raises(DrillError, match="has no torch"):
        drill([str(python), "train.py"], nodes=2, timeout=timedelta(seconds=1))
