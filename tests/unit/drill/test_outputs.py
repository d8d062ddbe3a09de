from pathlib import Path

import pytest

from outlast.drills.run import outputs
from outlast.drills.run.evidence import log_path, read_job_evidence
from tests.unit.drill.page_reports import attempt


def test_the_tail_is_bounded_and_fit_to_be_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(
        b"".join(b"line %d\n" % n for n in range(1000))
        + b"  1%|   |\r 50%|## |\r100%|####|\n"
        + b"\x1b[31mred\x1b[0m \x07bell\n"
        + b"broken \xff\n"
        + b"x" * 9000
    )

    lines = outputs.tail(log).splitlines()

    assert len(lines) == outputs.TAIL_LINES
    assert lines[-4:] == ["100%|####|", "red \\x07bell", "broken \ufffd", "x" * 400]


def test_passwords_in_urls_are_never_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("connecting to postgresql://me:s3cret@host/db\n")

    assert outputs.tail(log) == "connecting to postgresql://me:***@host/db"


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert outputs.tail(tmp_path / "none") == ""
    assert outputs.count_lines(tmp_path / "none") == 0
    assert not outputs.has_output(tmp_path / "none")


def test_a_log_that_grows_too_long_loses_its_beginning_and_its_writer_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "BYTES_MAX", 100_000)
    log = tmp_path / "log"
    with log.open("ab", buffering=0) as writer:
        for number in range(20_000):
            writer.write(b"line %d\n" % number)

        outputs.keep_bounded(log)
        writer.write(b"after\n")

    assert log.stat().st_size < 100_000
    assert outputs.tail(log, 2).splitlines() == ["line 19999", "after"]


def test_lines_that_were_cut_off_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "BYTES_MAX", 100_000)
    log = tmp_path / "log"
    log.write_bytes(b"a line\n" * 20_000)

    cut = outputs.keep_bounded(log)

    assert cut + outputs.count_lines(log) == 20_000
    assert outputs.keep_bounded(log) == 0


def test_a_log_that_lost_its_beginning_is_no_evidence(tmp_path: Path) -> None:
    log_path(tmp_path, 1).write_text("step 8\nstep 9\n")

    for printed, is_complete in ((2, True), (10, False)):
        found = read_job_evidence(tmp_path, [attempt(1, output_lines=printed)], {})

        assert found[1].printed.complete is is_complete
