import json
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import (
    Check,
    CheckResult,
    Verdict,
    failed,
    not_applicable,
    passed,
)
from tests.unit.drill.test_checks import FIGURES, GOOD, run

DONE = passed("finished", "The job was complete.")
WARNED = Check(
    name="left-in-time", result=CheckResult.WARN, reason="It was killed, but lost nothing."
)
SHORT = failed("conclusive", "Only 1 of 3 evictions landed.")
REPORT = DrillReport(
    outlast_version="0.0",
    command=("python", "train.py", "<&>"),
    began=datetime(2026, 11, 15, tzinfo=UTC),
    seconds=12.3456789,
    seed=7,
    grace_seconds=0.8,
    workers=1,
    isolation="PID namespace",
    checks=(
        passed("finished", "The job was complete."),
        failed("left-in-time", "It was killed <once> & \x01 again."),
        not_applicable("no-lost-items", "No rows."),
    ),
    evictions_planned=1,
    figures=FIGURES,
    baseline=None,
    evicted=GOOD.job_run,
    runs=(run((0, 40, 40), (40, 100, 100)),),
)


@pytest.mark.parametrize(
    ("checks", "verdict", "survived", "last"),
    [
        ((DONE,), Verdict.SURVIVED, True, "survived 1 eviction"),
        (
            (DONE, WARNED),
            Verdict.SURVIVED_WITH_WARNINGS,
            True,
            "survived 1 eviction with warnings: left-in-time",
        ),
        (REPORT.checks, Verdict.DID_NOT_SURVIVE, False, "did not survive: left-in-time"),
        ((DONE, SHORT), Verdict.INCONCLUSIVE, False, "inconclusive after 1 of 1 evictions"),
    ],
)
def test_the_last_line_is_the_verdict(
    checks: tuple[Check, ...], verdict: Verdict, survived: bool, last: str
) -> None:
    report = replace(REPORT, checks=checks)

    assert (report.verdict, report.survived) == (verdict, survived)
    assert report.as_json()["verdict"] == verdict.value
    assert report.story().splitlines()[-1] == last


def test_json_has_the_verdict_the_checks_and_what_follows_from_the_rest() -> None:
    found = json.loads(json.dumps(REPORT.as_json()))

    assert found["survived"] is False
    assert found["verdict"] == "did not survive"
    assert found["checks"][1]["name"] == "left-in-time"
    assert [one["result"] for one in found["checks"]] == ["pass", "fail", "n/a"]
    assert {*found["checks"][0]} == {"name", "result", "reason"}
    assert found["evicted"]["evictions"][0]["moment"] == "any"
    assert found["began"] == "2026-11-15T00:00:00+00:00"
    assert found["seconds"] == 12.3456789
    assert found["steps_lost"] == {"1": 0}
    assert found["duplicates"] is None


def test_the_story_has_a_row_for_each_attempt_and_a_line_for_each_check() -> None:
    story = REPORT.story()

    assert "drill of: python train.py '<&>'" in story
    assert "eviction 1: SIGTERM, exit 75 after 0.20 s, lost 0 steps" in story
    assert "finished, exit 0" in story
    assert "PASS  finished       The job was complete." in story
    assert "FAIL  left-in-time   It was killed" in story
    assert "n/a   no-lost-items  No rows." in story
    assert max(map(len, story.splitlines())) <= 100


def test_a_warning_is_a_failure_in_junit_only_if_strict() -> None:
    report = replace(REPORT, checks=(DONE, WARNED))

    lenient, strict = (
        ElementTree.fromstring(report.as_junit(strict=strict)).find("testsuite")
        for strict in (False, True)
    )

    assert lenient is not None and lenient.get("failures") == "0"
    assert lenient.findtext("testcase/system-err") == "WARN: It was killed, but lost nothing."
    assert strict is not None and strict.get("failures") == "1"


def test_a_story_of_a_thousand_attempts_stays_short() -> None:
    many = tuple(replace(GOOD.job_run.attempts[0], number=n, eviction=None) for n in range(1000))
    report = replace(REPORT, evicted=replace(GOOD.job_run, attempts=many, evictions=()))

    assert len(report.story().splitlines()) < 60
    assert "and 970 more" in report.story()


def test_junit_has_a_case_for_each_check_and_is_legal_xml() -> None:
    suite = ElementTree.fromstring(REPORT.as_junit()).find("testsuite")

    assert suite is not None
    assert suite.get("tests") == "3" and suite.get("failures") == "1"
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    failure = cases["left-in-time"].find("failure")
    assert failure is not None and failure.get("message") == "It was killed <once> & \ufffd again."
    assert cases["no-lost-items"].find("skipped") is not None
    assert cases["finished"].find("failure") is None


@pytest.mark.parametrize("letter", ["\ufffe", "\uffff", "\ud800", "\x0b"])
def test_junit_replaces_what_xml_forbids_and_nothing_else(letter: str) -> None:
    check = failed("left-in-time", f"A{letter}B\ufffd\U0001f600")

    suite = ElementTree.fromstring(replace(REPORT, checks=(check,)).as_junit())

    failure = suite.find(".//failure")
    assert failure is not None and failure.text == "A\ufffdB\ufffd\U0001f600"
