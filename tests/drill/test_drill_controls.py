"""Programs with one fault each, and without: the drill must name the fault, and no other.

Every program runs for about a second. Grace periods are scaled down accordingly.
"""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from outlast.drill.rehearsal import drill
from tests.drill.drilling import AMPLE, SHORT, control, failing, nothing_left_behind

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


def test_a_well_behaved_program_survives_every_kind_of_eviction() -> None:
    report = drill(
        control("well_behaved"), evictions=4, grace=AMPLE, seed=1, expect=["result.json"]
    )

    assert failing(report) == {}, report.story()
    assert report.survived
    assert report.evictions_landed == 4
    assert report.comparisons[0].how == "bit for bit"


@pytest.mark.parametrize(
    ("name", "codes", "words"),
    [
        ("ignores_sigterm", {"killed"}, "It ignores SIGTERM."),
        ("no_handler", {"killed"}, "It has no handler for SIGTERM"),
        ("never_saves", {"started-over"}, "It wrote nothing before its end"),
        ("restarts_from_zero", {"started-over"}, "It started over: resume"),
        ("exits_zero", {"exit-zero", "not-finished"}, "a Job counts exit 0 as complete"),
        ("tears_its_file", {"torn", "not-finished"}, "half written (checkpoint.json)"),
        ("loses_its_generator", {"not-identical"}, "total is "),
        ("saves_too_slowly", {"killed"}, "It was still writing 'checkpoint."),
    ],
)
def test_a_fault_is_recognised_by_its_code_and_explained(
    name: str, codes: set[str], words: str
) -> None:
    report = drill(control(name), evictions=3, grace=SHORT, seed=3, expect=["result.json"])

    found = failing(report)
    # A program that works on through its grace period can be done before all evictions came.
    assert set(found) - {"inconclusive"} == codes, report.story()
    assert any(words in reason for reason in found.values()), report.story()


def test_a_program_behind_a_shell_that_never_gets_the_signal_is_recognised() -> None:
    script = f"{sys.executable} -m tests.faults.controls.well_behaved; true"

    report = drill(["sh", "-c", script], evictions=2, grace=SHORT, seed=1, expect=["result.json"])

    assert set(failing(report)) - {"inconclusive"} == {"killed"}, report.story()
    assert "Process 1 is the shell" in failing(report)["killed"]


def test_the_same_program_behind_outlast_exec_survives() -> None:
    script = f"{sys.executable} -m tests.faults.controls.well_behaved; exit $?"
    wrapper = [sys.executable, "-m", "outlast", "exec", "--"]

    report = drill(
        [*wrapper, "sh", "-c", script],
        evictions=2,
        grace=AMPLE,
        seed=1,
        expect=["result.json"],
    )

    assert failing(report) == {}, report.story()


def test_a_program_that_will_not_start_again_is_a_crash_and_shows_its_last_words() -> None:
    report = drill(control("crashes_on_restart"), evictions=1, no_notice=1, seed=1)

    found = failing(report)
    assert set(found) == {"crashed", "not-finished"}, report.story()
    assert "another process holds the lock" in found["crashed"]
    assert "  | another process holds the lock" in report.story()


def test_a_run_of_the_library_survives_and_its_journal_tells_what_was_lost() -> None:
    report = drill(
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
    resumed = [one for one in report.verdicts if one.code == "started-over"]
    assert "It resumed at step" in resumed[0].reason


@pytest.mark.parametrize("expect", [["weights.npy"], []], ids=["by artifact", "by state alone"])
def test_a_run_that_went_apart_is_told_where(expect: list[str]) -> None:
    report = drill(
        control("forgets_its_own_generator"),
        evictions=1,
        no_notice=0,
        grace=AMPLE,
        seed=2,
        expect=expect,
    )

    found = failing(report)
    assert set(found) == {"not-identical"}, report.story()
    assert report.divergence is not None, report.story()
    assert report.divergence.attempt == 2 and not report.divergence.at_resume
    assert "weights" in report.divergence.leaf
    assert f"step {report.divergence.step}, " in found["not-identical"]


def test_workers_that_store_by_key_lose_nothing_and_store_nothing_twice() -> None:
    report = drill(
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
    report = drill(
        control("with_outlast_worker"),
        workers=3,
        evictions=4,
        grace=AMPLE,
        seed=1,
        expect=["jobs.db"],
    )

    assert failing(report) == {}, report.story()
    assert (report.items_lost, report.duplicates) == (0, 0)


def test_a_worker_that_acknowledges_before_it_stores_loses_items() -> None:
    report = drill(
        control("acknowledges_early"),
        workers=3,
        evictions=4,
        no_notice=0.5,
        grace=AMPLE,
        seed=1,
        expect=["results.jsonl"],
    )

    found = failing(report)
    assert set(found) == {"lost-items", "not-identical"}, report.story()
    assert report.items_lost and report.duplicates == 0
    assert "item-" in found["lost-items"]


def test_a_worker_that_inserts_blindly_stores_items_twice() -> None:
    report = drill(
        control("inserts_blindly"),
        workers=3,
        evictions=4,
        no_notice=0.5,
        grace=AMPLE,
        seed=1,
        expect=["jobs.db#result"],
    )

    found = failing(report)
    assert set(found) == {"doubled-items", "not-identical"}, report.story()
    assert report.duplicates and report.items_lost == 0


@pytest.mark.needs("torch")
@pytest.mark.timeout(180)
def test_a_pytorch_script_with_plain_torch_save_survives_by_its_artifact_alone() -> None:
    report = drill(
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
        report = drill(
            control(name),
            workers=workers,
            evictions=1 + seed % 5,
            grace=AMPLE,
            seed=seed,
            expect=[expect],
        )
        assert failing(report) == {}, report.story()
