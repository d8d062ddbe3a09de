from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from outlast.drills.compare.divergence import StepHash
from outlast.drills.errors import DrillError
from outlast.drills.run.baseline import Baseline, figures_of, record, recorded
from outlast.drills.run.evidence import AttemptEvidence
from outlast.drills.run.file_activity import FileActivity
from outlast.drills.run.printed import printed_lines
from outlast.drills.run.records import Attempt, AttemptEnd, JobRun, JobRunEnd, Save


def attempt(
    number: int, started: float, until: float, *, sign: float | None, code: int = 0
) -> Attempt:
    return Attempt(
        number=number,
        worker=0,
        started_seconds=started,
        sign_seconds=sign,
        hears_seconds=None,
        ready_seconds=sign,
        ended_seconds=until,
        ended=AttemptEnd.FINISHED if code == 0 else AttemptEnd.FAILED,
        exit_code=code,
        cpu_seconds=1.0,
        output_lines=5,
        output_tail="",
    )


def job_run(*attempts: Attempt, saves: tuple[float, ...] = ()) -> JobRun:
    return JobRun(
        name="baseline",
        began=datetime.now(UTC),
        seconds=10.0,
        work_seconds=9.0,
        end=JobRunEnd.COMPLETE,
        attempts=attempts,
        evictions=(),
        saves=tuple(Save(at_seconds=at, path="x") for at in saves),
    )


def test_the_start_up_ends_with_the_first_sign_of_life() -> None:
    figures = figures_of(job_run(attempt(1, 0.0, 10.0, sign=2.0)))

    assert (figures.start_up_seconds, figures.work_seconds) == (2.0, 8.0)


def test_a_sign_at_the_very_end_says_nothing_about_the_start_up() -> None:
    figures = figures_of(job_run(attempt(1, 0.0, 10.0, sign=9.9)))

    assert (figures.start_up_seconds, figures.work_seconds) == (0.0, 10.0)


def test_the_only_write_of_a_silent_program_says_nothing_about_its_start_up() -> None:
    silent = replace(attempt(1, 0.0, 10.0, sign=4.0), output_lines=0)
    late = replace(attempt(1, 0.0, 10.0, sign=7.0), output_lines=0)

    assert figures_of(job_run(silent, saves=(4.0,))).start_up_seconds == 0.0
    assert figures_of(job_run(silent, saves=(4.0, 6.0))).start_up_seconds == 4.0
    assert figures_of(job_run(late, saves=(7.0, 8.0))).start_up_seconds == 0.0


def test_what_is_written_last_is_no_save() -> None:
    figures = figures_of(job_run(attempt(1, 0.0, 10.0, sign=1.0), saves=(3.0, 6.0, 9.9)))

    assert figures.saves == 2


def test_time_before_a_restart_does_not_count() -> None:
    failed = attempt(1, 0.0, 4.0, sign=1.0, code=1)
    figures = figures_of(job_run(failed, attempt(2, 5.0, 10.0, sign=6.0)))

    assert figures.seconds == 5.0
    assert figures.attempts == 2


def baseline(folder: Path) -> Baseline:
    return Baseline(
        figures=figures_of(job_run(attempt(1, 0.0, 10.0, sign=2.0))),
        artifact=lambda _, name: folder / name,
        hashes=(StepHash(1, {"w": "aa"}, None),),
        evidence=AttemptEvidence(
            printed=replace(printed_lines("step 1\nstep 2\n"), examples={}),
            files=FileActivity(written={"c.json": 2}, left=frozenset({"c.json"})),
        ),
        job_run=None,
    )


def test_a_recording_gives_back_what_was_kept(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"weights")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("a")
    kept = tmp_path / "kept"
    expect = ["model.pt", "out"]
    made = baseline(tmp_path)

    record(kept, ["train"], expect, 1, made)
    found = recorded(kept, ["train"], expect, 1)

    assert found is not None
    assert (found.figures, found.hashes) == (made.figures, made.hashes)
    assert found.evidence == made.evidence
    assert found.artifact(0, "model.pt").read_bytes() == b"weights"
    assert (found.artifact(1, "out") / "a").read_text() == "a"


def test_without_a_recording_there_is_none(tmp_path: Path) -> None:
    assert recorded(tmp_path / "none", ["train"], [], 1) is None


def test_a_recording_of_something_else_or_that_was_changed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"weights")
    kept = tmp_path / "kept"
    record(kept, ["train"], ["model.pt"], 1, baseline(tmp_path))

    with pytest.raises(DrillError, match="is for another command"):
        recorded(kept, ["other"], ["model.pt"], 1)
    with pytest.raises(DrillError, match="is for another command"):
        recorded(kept, ["train"], ["model.pt"], 2)
    (kept / "artifacts" / "0" / "model.pt").write_bytes(b"flipped")
    with pytest.raises(DrillError, match="have changed since"):
        recorded(kept, ["train"], ["model.pt"], 1)
    (kept / "baseline.json").write_text("{")
    with pytest.raises(DrillError, match="Cannot read"):
        recorded(kept, ["train"], ["model.pt"], 1)


def test_what_a_program_writes_long_after_its_handler_is_no_sign_of_its_start() -> None:
    silent = replace(attempt(1, 0.0, 10.0, sign=4.0), hears_seconds=0.5)
    chatty = replace(attempt(1, 0.0, 10.0, sign=2.0), hears_seconds=0.5)

    assert figures_of(job_run(silent)).start_up_seconds == 0.5
    assert figures_of(job_run(chatty)).start_up_seconds == 2.0
