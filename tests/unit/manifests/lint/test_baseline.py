"""A baseline hides what was there before, and only that."""

from collections import Counter
from pathlib import Path

import pytest

from outlast.manifests.lint.engine.baseline import baseline_text, read_baseline, without_known
from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.errors import LintError
from tests.unit.manifests.lint.linted import SPOT_JOB, lines, report


def written(path: Path, text: str) -> LintOptions:
    path.write_text(baseline_text(report(text)))
    return LintOptions(baseline=path)


def test_what_is_in_the_baseline_is_not_reported(tmp_path: Path) -> None:
    options = written(tmp_path / "known.json", SPOT_JOB)

    found = report(SPOT_JOB, options=options)

    assert lines(found) == []
    assert found.known == len(report(SPOT_JOB))


def test_lines_may_move(tmp_path: Path) -> None:
    options = written(tmp_path / "known.json", SPOT_JOB)

    assert lines(report("# a new line\n" + SPOT_JOB, options=options)) == []


def test_a_second_one_like_it_is_new(tmp_path: Path) -> None:
    options = written(tmp_path / "known.json", SPOT_JOB)
    two = SPOT_JOB + "        - name: more\n          image: registry.example/trainer\n"

    assert lines(report(two, options=options)) == [("OL904", 15)]


def test_what_no_longer_occurs_is_told(tmp_path: Path) -> None:
    options = written(tmp_path / "known.json", SPOT_JOB)

    found = report(SPOT_JOB.replace("trainer", "trainer:1.0"), options=options)

    assert found.notices == ("1 finding in the baseline no longer occurs.",)


def test_the_counts_are_kept_apart() -> None:
    findings = list(report(SPOT_JOB))

    new, gone = without_known(findings, Counter({("OL999", "x", "y"): 2}))

    assert new == findings
    assert gone.total() == 2


def test_a_missing_baseline_is_told(tmp_path: Path) -> None:
    with pytest.raises(LintError, match="no baseline") as caught:
        read_baseline(tmp_path / "none.json")

    assert "--write-baseline" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 2, "findings": []}', '{"version": 1}', "[" * 100_000]
)
def test_a_file_that_is_no_baseline_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "known.json"
    path.write_text(text)

    with pytest.raises(LintError, match="is not a valid baseline"):
        read_baseline(path)
