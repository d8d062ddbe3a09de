"""Reports for people and programs say the same, and survive what is in a manifest."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.report import LintReport
from outlast.manifests.lint.reports import ReportFormat, write_report
from outlast.manifests.lint.reports.text import summary
from tests.unit.manifests.lint.linted import SPOT_JOB, report

IMAGE = LintOptions(select=("OL904",))
FIELD = LintOptions(select=("OL601",))
HOSTILE = SPOT_JOB.replace(
    "spec:\n  template",
    'spec:\n  "<b>%0A::error::\\e[31m\\u202e\\u0001\\n ]]> 漢字": 1\n  template',
)


@pytest.fixture
def found() -> LintReport:
    return report(SPOT_JOB, options=IMAGE)


def test_the_text_shows_the_place_the_rule_and_what_to_do(found: LintReport) -> None:
    assert write_report(found, ReportFormat.TEXT) == (
        "a.yaml:13:18: warning OL904 untagged-image: "
        "The image 'registry.example/trainer' has no tag, which means latest.\n"
        "  13 |           image: registry.example/trainer\n"
        "     |                  ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  why: After an eviction the Pod may start with a different version of the program, "
        "which may not be\n"
        "       able to read the existing checkpoints. Afterwards, it is impossible to find out "
        "which version\n"
        "       ran.\n"
        "  fix: Use a version tag or, better, a digest: image@sha256:...\n"
        "\n"
    )


def test_colors_are_for_terminals_only(found: LintReport) -> None:
    assert "\033[1;33mwarning\033[0m" in write_report(found, ReportFormat.TEXT, color=True)
    assert "\033" not in write_report(found, ReportFormat.TEXT)


def test_carets_stand_under_wide_signs_and_tabs() -> None:
    text = SPOT_JOB.replace(
        "name: train\n          image: registry.example/trainer", "{name: 漢字,\timage: x}"
    )

    _, line, carets, *_ = write_report(report(text, options=IMAGE), ReportFormat.TEXT).splitlines()

    assert line.endswith("{name: 漢字,\timage: x}")
    before = line[: line.index("image: x") + len("image: ")]
    width = len(before) + 2
    assert (
        carets
        == "     | " + " " * (width - 8 - len(before.partition("\t")[2])) + "\t" + " " * 7 + "^"
    )


def test_a_long_line_is_cut_around_the_place() -> None:
    text = SPOT_JOB.replace("image: registry", "image: '" + "x" * 500).replace("/trainer", "'")

    _, line, carets, *_ = write_report(report(text, options=IMAGE), ReportFormat.TEXT).splitlines()

    assert len(line) < 140
    assert carets.count("^") > 80


def test_the_summary_counts(found: LintReport) -> None:
    assert summary(found) == "1 warning in 1 object (1 file)."
    assert summary(report(SPOT_JOB, options=LintOptions(select=("OL401",)))) == (
        "No findings in 1 object (1 file)."
    )


def test_json_has_every_field(found: LintReport) -> None:
    data = json.loads(write_report(found, ReportFormat.JSON))

    (finding,) = data["findings"]
    assert {key: finding[key] for key in ("code", "name", "severity", "file")} == {
        "code": "OL904",
        "name": "untagged-image",
        "severity": "warning",
        "file": "a.yaml",
    }
    assert [finding[key] for key in ("line", "column", "end_line", "end_column")] == [
        13,
        18,
        13,
        42,
    ]
    assert finding["fixable"] is False
    assert finding["message"] and finding["hint"] and finding["why"]
    assert data["summary"]["warning"] == 1


def test_json_tells_what_a_fix_would_do() -> None:
    data = json.loads(write_report(report(SPOT_JOB), ReportFormat.JSON))

    fixes = {finding["code"]: finding["fix"] for finding in data["findings"] if finding["fixable"]}
    assert fixes["OL101"] == {"title": "Set the grace period to 15 s", "safe": False}


def test_sarif_points_into_the_file(found: LintReport) -> None:
    (run,) = json.loads(write_report(found, ReportFormat.SARIF))["runs"]

    (result,) = run["results"]
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert (result["ruleId"], rule["id"], result["level"]) == ("OL904", "OL904", "warning")
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "a.yaml", "uriBaseId": "SRCROOT"}
    assert list(run["originalUriBaseIds"]) == ["SRCROOT"]
    assert location["region"] == {
        "startLine": 13,
        "startColumn": 18,
        "endLine": 13,
        "endColumn": 42,
    }


def test_sarif_contains_the_fix_as_replacements() -> None:
    text = SPOT_JOB.replace(
        "      restartPolicy", "      terminationGracePeriod: 9\n      restartPolicy"
    )
    found = report(text, options=LintOptions(select=("OL601",)))
    (run,) = json.loads(write_report(found, ReportFormat.SARIF))["runs"]

    (fix,) = run["results"][0]["fixes"]
    (change,) = fix["artifactChanges"]
    (replacement,) = change["replacements"]
    assert change["artifactLocation"]["uri"] == "a.yaml"
    assert fix["properties"] == {"safe": False}
    assert replacement["insertedContent"] == {"text": "terminationGracePeriodSeconds"}
    line = text.splitlines()[replacement["deletedRegion"]["startLine"] - 1]
    region = replacement["deletedRegion"]
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == "terminationGracePeriod"


def test_a_fingerprint_stays_when_lines_move(found: LintReport) -> None:
    def fingerprint(text: str) -> str:
        data = json.loads(write_report(report(text, options=IMAGE), ReportFormat.SARIF))
        return str(data["runs"][0]["results"][0]["partialFingerprints"])

    assert fingerprint(SPOT_JOB) == fingerprint("# new\n" + SPOT_JOB)


def test_github_gets_one_command_in_one_line() -> None:
    text = write_report(report(HOSTILE, options=FIELD), ReportFormat.GITHUB)

    assert text.count("\n") == 1
    assert text.startswith("::error file=a.yaml,line=6,endLine=6,col=3,")
    assert "title=OL601 unknown-field::Unknown field" in text
    assert "%250A" in text


def test_junit_is_xml_with_a_failure_for_each_finding() -> None:
    root = ElementTree.fromstring(write_report(report(HOSTILE, options=FIELD), ReportFormat.JUNIT))

    assert root.attrib["failures"] == "1"
    (failure,) = root.iter("failure")
    assert "<b>" in failure.attrib["message"]


def test_junit_without_findings_is_a_passed_test() -> None:
    clean = report(SPOT_JOB, options=LintOptions(select=("OL401",)))

    root = ElementTree.fromstring(write_report(clean, ReportFormat.JUNIT))

    assert (root.attrib["tests"], root.attrib["failures"]) == ("1", "0")


def test_a_manifest_cannot_steer_the_terminal() -> None:
    text = write_report(report(HOSTILE.replace("name: train", 'name: "\\e[2J"')), ReportFormat.TEXT)

    assert "\033" not in text and "\u202e" not in text and "\x01" not in text


def test_a_report_is_its_findings(found: LintReport) -> None:
    (finding,) = found

    assert (len(found), finding.rule, finding.where) == (1, "OL904 untagged-image", "a.yaml:13:18")
