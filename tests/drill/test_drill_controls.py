"""Programs with one fault each, and without: the drill must name the fault, and no other.

Every program runs for about a second. Grace periods are scaled down accordingly.
"""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from outlast.drills.judge.verdict import CheckResult
from outlast.drills.rehearsal import drill
from tests.drill.drilling import (
    AMPLE,
    SHORT,
    conclusive_drill,
    control,
    drill_with_deaths,
    failing,
    nothing_left_behind,
)


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


def test_a_well_behaved_program_survives_every_kind_of_eviction() -> None:
    report = conclusive_drill(
        control("well_behaved"), evictions=4, grace=AMPLE, seed=1, expect=["result.json"]
    )

    assert failing(report) == {}, report.story()
    assert report.survived
    assert report.evictions_landed == 4
    assert report.comparisons[0].how == "bit for bit"


@pytest.mark.parametrize(
    ("name", "names", "words"),
    [
        ("ignores_sigterm", {"left-in-time"}, "It ignores SIGTERM."),
        ("no_handler", {"left-in-time"}, "It has no handler for SIGTERM"),
        ("never_saves", {"resumed"}, "It wrote nothing until it finished"),
        ("restarts_from_zero", {"resumed"}, "50 of 50 lines like 'step 50' were printed again"),
        ("exits_zero", {"exit-code", "finished"}, "a Job counts exit code 0 as complete"),
        ("tears_its_file", {"files-intact", "finished"}, "was killed (checkpoint.json)"),
        ("loses_its_generator", {"identical"}, "total is "),
        ("saves_too_slowly", {"left-in-time"}, "It was still writing 'checkpoint."),
    ],
)
def test_a_fault_is_recognised_by_its_check_and_explained(
    name: str, names: set[str], words: str
) -> None:
    grace = SHORT if "left-in-time" in names else AMPLE

    report = drill(control(name), evictions=3, grace=grace, seed=3, expect=["result.json"])

    found = failing(report)
    # A program that works on through its grace period can be done before all evictions came.
    assert set(found) - {"conclusive"} == names, report.story()
    assert any(words in reason for reason in found.values()), report.story()
    # Being killed is only a warning if the result is right nevertheless.
    was_killed = "and was killed" in found.get("left-in-time", "")
    assert was_killed or name != "saves_too_slowly"
    expected = CheckResult.WARN if was_killed else CheckResult.FAIL
    assert {*report.names_with(expected)} - {"conclusive"} == names, report.story()


def test_a_program_behind_a_shell_that_never_gets_the_signal_is_recognised() -> None:
    script = f"{sys.executable} -m tests.faults.controls.well_behaved; true"

    report = drill(["sh", "-c", script], evictions=2, grace=SHORT, seed=1, expect=["result.json"])

    assert set(failing(report)) - {"conclusive"} == {"left-in-time"}, report.story()
    assert "Process 1 is the shell" in failing(report)["left-in-time"]


def test_the_same_program_behind_outlast_exec_survives() -> None:
    script = f"{sys.executable} -m tests.faults.controls.well_behaved; exit $?"
    wrapper = [sys.executable, "-m", "outlast", "exec", "--"]

    report = conclusive_drill(
        [*wrapper, "sh", "-c", script],
        evictions=2,
        grace=AMPLE,
        seed=1,
        expect=["result.json"],
    )

    assert failing(report) == {}, report.story()


def test_a_program_that_will_not_start_again_is_a_crash_and_shows_its_last_words() -> None:
    report = conclusive_drill(control("crashes_on_restart"), evictions=1, no_notice=1, seed=1)

    found = failing(report)
    assert set(found) == {"no-crash", "finished"}, report.story()
    assert "another process holds the lock" in found["no-crash"]
    assert "  | another process holds the lock" in report.story()


def test_a_run_of_the_library_survives_and_its_journal_tells_what_was_lost() -> None:
    report = conclusive_drill(
        control("with_outlast"),
        evictions=3,
        grace=AMPLE,
        seed=2,
        expect=["weights.npy"],
    )

    assert failing(report) == {}, report.story()
    [run] = report.runs
    assert run.finished and run.steps_done == 60
    assert report.steps_lost_max is not None and report.steps_lost_max <= 60
    assert any(point.name == "loss" for point in run.metrics)
    resumed = [one for one in report.checks if one.name == "resumed"]
    assert "It resumed at step" in resumed[0].reason


def test_a_run_that_may_pickle_a_part_of_its_state_can_be_drilled() -> None:
    report = drill(
        control("with_pickled_state"), evictions=2, grace=AMPLE, seed=2, expect=["weights.npy"]
    )

    assert failing(report) == {}, report.story()


@pytest.mark.parametrize("expect", [["weights.npy"], []], ids=["by artifact", "by state alone"])
def test_a_run_that_went_apart_is_told_where(expect: list[str]) -> None:
    report = conclusive_drill(
        control("forgets_its_own_generator"),
        evictions=1,
        no_notice=0,
        grace=AMPLE,
        seed=2,
        expect=expect,
    )

    found = failing(report)
    assert set(found) == {"identical"}, report.story()
    assert report.divergence is not None, report.story()
    assert report.divergence.attempt == 2 and not report.divergence.at_resume
    assert "weights" in report.divergence.leaf
    assert f"step {report.divergence.step}, " in found["identical"]


def test_workers_that_store_by_key_lose_nothing_and_store_nothing_twice() -> None:
    report = conclusive_drill(
        control("stores_by_key"),
        workers=3,
        evictions=4,
        grace=AMPLE,
        seed=1,
        expect=["jobs.db#result"],
    )

    assert failing(report) == {}, report.story()
    assert (report.items_lost, report.duplicates) == (0, 0)


def test_workers_of_the_library_survive_with_queue_and_results_in_one_file() -> None:
    report = conclusive_drill(
        control("with_outlast_worker"),
        workers=3,
        evictions=4,
        grace=AMPLE,
        seed=1,
        expect=["jobs.db"],
    )

    assert failing(report) == {}, report.story()
    assert (report.items_lost, report.duplicates) == (0, 0)


def test_a_worker_that_acknowledges_before_it_stores_loses_items(tmp_path: Path) -> None:
    report = drill_with_deaths(
        "acknowledges_early",
        tmp_path / "deaths",
        workers=3,
        evictions=6,
        no_notice=0.5,
        grace=AMPLE,
        seed=1,
        expect=["results.jsonl"],
    )

    found = failing(report)
    assert set(found) == {"no-lost-items", "identical"}, report.story()
    assert report.items_lost and report.duplicates == 0
    assert "item-" in found["no-lost-items"]


def test_a_worker_that_inserts_blindly_stores_items_twice(tmp_path: Path) -> None:
    report = drill_with_deaths(
        "inserts_blindly",
        tmp_path / "deaths",
        workers=3,
        evictions=6,
        no_notice=0.5,
        grace=AMPLE,
        seed=1,
        expect=["jobs.db#result"],
    )

    found = failing(report)
    assert set(found) == {"no-duplicates", "identical"}, report.story()
    assert report.duplicates and report.items_lost == 0


@pytest.mark.needs("torch")
def test_a_pytorch_script_with_plain_torch_save_survives_by_its_artifact_alone() -> None:
    report = conclusive_drill(
        control("torch_examples", "--checkpoint", "{dir}/last.pt", "--save-model", "{dir}/m.pt"),
        evictions=2,
        grace=timedelta(seconds=15),
        seed=1,
        expect=["{dir}/m.pt"],
    )

    assert failing(report) == {}, report.story()
    assert report.comparisons[0].how == "bit for bit"


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "workers", "expect"),
    [
        ("well_behaved", 1, "result.json"),
        ("with_outlast", 1, "weights.npy"),
        ("stores_by_key", 3, "jobs.db#result"),
        ("with_outlast_worker", 3, "jobs.db"),
    ],
)
def test_programs_without_fault_survive_whatever_the_seed(
    name: str, workers: int, expect: str
) -> None:
    for seed in range(1000, 1025):
        report = conclusive_drill(
            control(name),
            workers=workers,
            evictions=1 + seed % 5,
            grace=AMPLE,
            seed=seed,
            expect=[expect],
        )
        assert failing(report) == {}, report.story()
