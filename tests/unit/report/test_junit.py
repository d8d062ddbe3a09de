"""JUnit XML: counted, escaped, and legal whatever the texts contain."""

from xml.etree import ElementTree

from outlast.report.junit import JUnitCase, junit_xml

HOSTILE = "a\r\n\t<b>&\"' \x1b \ud800 \ufffe 🙂"
SAFE = "a\r\n\t<b>&\"' \ufffd \ufffd \ufffd 🙂"


def test_cases_are_counted_by_result() -> None:
    cases = [
        JUnitCase(classname="c", name="passed"),
        JUnitCase(classname="c", name="failed", failure="It failed.", failure_type="error"),
        JUnitCase(classname="c", name="skipped", skipped="Not applicable."),
        JUnitCase(classname="c", name="warned", error_output="WARN: Slow."),
    ]

    root = ElementTree.fromstring(junit_xml("suite", cases, attributes={"time": "1.5"}))

    suite = root.find("testsuite")
    assert suite is not None
    counts = {"tests": "4", "failures": "1", "errors": "0"}
    assert root.attrib == counts
    assert suite.attrib == {"name": "suite", **counts, "skipped": "1", "time": "1.5"}
    failure = suite.find("testcase/failure")
    assert failure is not None and failure.attrib == {"type": "error", "message": "It failed."}
    assert failure.text == "It failed."
    assert suite.findtext("testcase[@name='warned']/system-err") == "WARN: Slow."


def test_all_texts_are_escaped_and_legal() -> None:
    case = JUnitCase(
        classname=HOSTILE,
        name=HOSTILE,
        failure=HOSTILE,
        failure_type=HOSTILE,
        details=HOSTILE,
        error_output=HOSTILE,
        attributes={"file": HOSTILE},
    )

    written = junit_xml(HOSTILE, [case], attributes={"hostname": HOSTILE}, output=HOSTILE)

    root = ElementTree.fromstring(written.encode())
    values = [value for one in root.iter() for value in one.attrib.values() if "a" in value]
    texts = [one.text for one in root.iter() if one.text and one.text.strip()]
    assert values == [SAFE] * 7
    assert texts == [SAFE] * 3
