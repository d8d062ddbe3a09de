"""Options come from the nearest file, and mistakes in it are told."""

from pathlib import Path

import pytest

from outlast.manifests.lint.configuration import Options, fail_on_of, find_options, read_options
from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.rule import Severity
from outlast.manifests.lint.selection import chosen, find_rule
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

    assert find_options(tmp_path) == Options(
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
    assert find_options(tmp_path) == Options()


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("[lint]\nselct = []", "unknown option 'selct'", "Did you mean 'select'?"),
        ("[lint]\nzzz = 1", "unknown option 'zzz'", "Known are"),
        ("[lint]\nselect = 'OL1'", "'select' in .* is 'OL1'; list is expected", "lint-manifests"),
        ("[lint]\nselect = [1]", "is a list of texts", "lint-manifests"),
        ("[lint]\nfail-on = 'bad'", "no severity 'bad'", "info, warning or error"),
        ("[lint]\nautopilot = 'yes'", "'autopilot' in .* bool is expected", "lint-manifests"),
        ("lint = 3", "'lint' in .* is no table", "lint-manifests"),
        ("[lint", "is not TOML", "Mend it"),
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

    assert caught.value.hint == "Did you mean 'no-grace'? See `outlast rules`."


def test_the_severity_of_a_rule_can_be_set() -> None:
    options = Options(severity={"untagged-image": Severity.ERROR})

    assert only(report(SPOT_JOB, options=options), "OL904").severity is Severity.ERROR


def test_the_cluster_can_be_said_to_be_autopilot() -> None:
    job = SPOT_JOB.replace("cloud.google.com/gke-spot", "example.com/any")

    assert lines(report(job, options=Options(is_autopilot=True)), "OL101") == []
