import json
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from outlast.drill.junit import as_junit
from outlast.drill.report import Report
from outlast.drill.verdicts import NotJudged, Verdict
from tests.unit.drill.test_verdicts import FIGURES, GOOD, run

REPORT = Report(
    outlast_version="0.0",
    command=("python", "train.py", "<&>"),
    began=datetime(2026, 11, 15, tzinfo=UTC),
    seconds=12.3456789,
    seed=7,
    grace_seconds=0.8,
    workers=1,
    isolation="PID namespace",
    verdicts=(
        Verdict(code="not-finished", ok=True, reason="The job was complete."),
        Verdict(code="killed", ok=False, reason="It was killed <once> & \x01 again."),
    ),
    not_judged=(NotJudged(code="lost-items", reason="No rows."),),
    evictions_planned=1,
    figures=FIGURES,
    baseline=None,
    disturbed=GOOD.leg,
    runs=(run((0, 40, 40), (40, 100, 100)),),
)


def test_a_drill_survives_only_with_all_verdicts() -> None:
    assert not REPORT.survived
    assert replace(REPORT, verdicts=REPORT.verdicts[:1]).survived


def test_json_has_the_verdicts_and_what_follows_from_the_rest() -> None:
    found = json.loads(json.dumps(REPORT.as_json()))

    assert found["survived"] is False
    assert found["verdicts"][1]["code"] == "killed"
    assert {*found["verdicts"][0]} == {"code", "ok", "reason"}
    assert found["disturbed"]["evictions"][0]["moment"] == "any"
    assert found["began"] == "2026-11-15T00:00:00+00:00"
    assert found["seconds"] == 12.3456789
    assert found["steps_lost"] == {"1": 0}
    assert found["duplicates"] is None


def test_the_story_has_a_row_for_each_attempt_and_a_line_for_each_verdict() -> None:
    story = REPORT.story()

    assert "drill of: python train.py '<&>'" in story
    assert "eviction 1: SIGTERM, exit 75 after 0.20 s, lost 0 steps" in story
    assert "finished, exit 0" in story
    assert "ok  not-finished   The job was complete." in story
    assert "NO  killed" in story
    assert "-   lost-items     No rows." in story
    assert story.endswith("did NOT survive: killed")
    assert max(map(len, story.splitlines())) <= 100


def test_a_story_of_a_thousand_attempts_stays_short() -> None:
    many = tuple(replace(GOOD.leg.attempts[0], number=n, eviction=None) for n in range(1000))
    report = replace(REPORT, disturbed=replace(GOOD.leg, attempts=many, evictions=()))

    assert len(report.story().splitlines()) < 60
    assert "and 970 more" in report.story()


def test_junit_has_a_case_for_each_question_and_is_legal_xml() -> None:
    suite = ElementTree.fromstring(as_junit(REPORT)).find("testsuite")

    assert suite is not None
    assert suite.get("tests") == "3" and suite.get("failures") == "1"
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    failure = cases["killed"].find("failure")
    assert failure is not None and failure.get("message") == "It was killed <once> & ? again."
    assert cases["lost-items"].find("skipped") is not None
    assert cases["not-finished"].find("failure") is None


@pytest.mark.parametrize("letter", ["\ufffe", "\uffff", "\ud800", "\x0b", "\r"])
def test_junit_leaves_out_what_xml_forbids_and_nothing_else(letter: str) -> None:
    verdict = Verdict(code="killed", ok=False, reason=f"A{letter}B\ufffd\U0001f600")

    suite = ElementTree.fromstring(as_junit(replace(REPORT, verdicts=(verdict,))))

    failure = suite.find(".//failure")
    assert failure is not None and failure.text == "A?B\ufffd\U0001f600"
