"""Options come from the nearest file, and mistakes in it are told."""

import os
from pathlib import Path

import pytest

from outlast.manifests.lint.engine.configuration import (
    LintOptions,
    fail_on_of,
    find_options,
    read_options,
)
from outlast.manifests.lint.engine.rule import Severity, chosen, find_rule
from outlast.manifests.lint.errors import LintError
from outlast.manifests.rules import ALL_RULES
from tests.unit.manifests.lint.linted import SPOT_JOB, lines, only, report


def test_outlast_toml_is_read(tmp_path: Path) -> None:
    (tmp_path / "outlast.toml").write_text("""
        [lint]
        select = ["OL1"]
        ignore = ["no-grace"]
        exclude = ["vendor/*"]
        pools = ["infra/pools.sh"]
        fail-on = "error"
        baseline = "known.json"
        kubernetes-version = "1.33"
        autopilot = true
        severity = {OL104 = "error"}
    """)

    assert find_options(tmp_path) == LintOptions(
        select=("OL1",),
        ignore=("no-grace",),
        exclude=("vendor/*",),
        pools=(str(tmp_path / "infra/pools.sh"),),
        severity={"OL104": Severity.ERROR},
        fail_on=Severity.ERROR,
        baseline=tmp_path / "known.json",
        kubernetes_version="1.33",
        is_autopilot=True,
    )


def test_pyproject_is_read_from_further_up(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.outlast.lint]\nignore = ["OL904"]\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (below / "pyproject.toml").write_text("[tool.other]\n")

    assert find_options(below).ignore == ("OL904",)


def test_without_a_file_the_defaults_count(tmp_path: Path) -> None:
    assert find_options(tmp_path) == LintOptions()


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("[lint]\nselct = []", "Unknown option 'selct'", "Did you mean 'select'?"),
        ("[lint]\nzzz = 1", "Unknown option 'zzz'", "Available options: select"),
        (
            "[lint]\nselect = 'OL1'",
            "'select' in .* must be of type list, got 'OL1'",
            "lint-manifests",
        ),
        ("[lint]\nselect = [1]", "must be a list of strings", "lint-manifests"),
        ("[lint]\nfail-on = 'bad'", "Expected a severity, got 'bad'", "info, warning or error"),
        ("[lint]\nautopilot = 'yes'", "'autopilot' in .* must be of type bool", "lint-manifests"),
        ("lint = 3", "'lint' in .* is not a table", "lint-manifests"),
        ("[lint", "is not valid TOML", "Fix the syntax error."),
    ],
)
def test_a_mistake_in_the_file_is_told(tmp_path: Path, text: str, words: str, hint: str) -> None:
    path = tmp_path / "outlast.toml"
    path.write_text(text)

    with pytest.raises(LintError, match=words) as caught:
        read_options(path)

    assert hint in (caught.value.hint or "")


def test_never_fails_on_nothing() -> None:
    assert fail_on_of("never") is None
    assert not report(SPOT_JOB).fails(None)
    assert report(SPOT_JOB).fails(Severity.ERROR)


def test_rules_are_chosen_by_code_beginning_and_name() -> None:
    def codes(**words: tuple[str, ...]) -> list[str]:
        return [rule.code for rule in chosen(ALL_RULES, **words)]

    assert codes(select=("OL101",)) == ["OL101"]
    assert codes(select=("no-grace, ol401",)) == ["OL101", "OL401"]
    assert set(codes(select=("OL1",))) == {r.code for r in ALL_RULES if r.code.startswith("OL1")}
    assert "OL101" not in codes(ignore=("OL101",))
    assert codes(select=("ALL",)) == codes() == [rule.code for rule in ALL_RULES]


@pytest.mark.parametrize("word", ["OL999", "no-grase", "X"])
def test_an_unknown_rule_is_told(word: str) -> None:
    with pytest.raises(LintError, match=f"There is no rule {word!r}") as caught:
        chosen(ALL_RULES, ignore=(word,))

    assert "`outlast rules`" in (caught.value.hint or "")


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(LintError) as caught:
        find_rule(ALL_RULES, "no-grase")

    assert caught.value.hint == "Did you mean 'no-grace'? Run `outlast rules` for a list."


def test_the_severity_of_a_rule_can_be_set() -> None:
    options = LintOptions(severity={"untagged-image": Severity.ERROR})

    assert only(report(SPOT_JOB, options=options), "OL904").severity is Severity.ERROR


def test_the_cluster_can_be_said_to_be_autopilot() -> None:
    job = SPOT_JOB.replace("cloud.google.com/gke-spot", "example.com/any")

    assert lines(report(job, options=LintOptions(is_autopilot=True)), "OL101") == []


def test_the_search_ends_at_the_root_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "outlast.toml").write_text('[lint]\nignore = ["OL904"]')
    below = tmp_path / "repository" / "deploy"
    below.mkdir(parents=True)
    (below.parent / ".git").mkdir()

    assert find_options(below) == LintOptions()


@pytest.mark.parametrize("mode", [0o1777, 0o1703])
def test_a_shared_temporary_folder_gives_no_options(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    shared = tmp_path / "shared"
    below = shared / "work"
    below.mkdir(parents=True)
    (shared / "outlast.toml").write_text('[lint]\nbaseline = "known.json"')
    shared.chmod(mode)

    assert find_options(below) == LintOptions()
    assert "outlast.toml: other users own that folder or can write" in caplog.text


def test_a_folder_of_somebody_else_gives_no_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outlast.toml").write_text('[lint]\nignore = ["OL904"]')
    below = tmp_path / "work"
    below.mkdir()
    stat = Path.stat

    def as_if_of_others(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        status = stat(path, follow_symlinks=follow_symlinks)
        if path != tmp_path:
            return status
        return os.stat_result((*status[:4], status.st_uid + 1, *status[5:10]))

    monkeypatch.setattr(Path, "stat", as_if_of_others)

    assert find_options(below) == LintOptions()


@pytest.mark.parametrize("given", ["/etc/known.json", "../known.json", "linked/known.json"])
def test_a_baseline_outside_the_folder_of_its_file_is_refused(tmp_path: Path, given: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "linked").symlink_to(tmp_path)
    (folder / "outlast.toml").write_text(f'[lint]\nbaseline = "{given}"')

    with pytest.raises(LintError, match="is outside the folder"):
        find_options(folder)
