"""A drill as a JUnit report: one test case for each question, so that a CI shows them. Pure."""

from xml.etree import ElementTree

from outlast.drill.report import Report


def as_junit(report: Report) -> str:
    failures = sum(not verdict.ok for verdict in report.verdicts)
    suite = ElementTree.Element(
        "testsuite",
        name="outlast drill",
        tests=str(len(report.verdicts) + len(report.not_judged)),
        failures=str(failures),
        errors="0",
        skipped=str(len(report.not_judged)),
        time=f"{report.seconds:.3f}",
        timestamp=report.began.isoformat(timespec="seconds"),
    )
    for verdict in report.verdicts:
        case = _case(suite, verdict.code)
        if not verdict.ok:
            failure = ElementTree.SubElement(
                case, "failure", type=verdict.code, message=_legal(verdict.reason)
            )
            failure.text = _legal(verdict.reason)
    for open_one in report.not_judged:
        case = _case(suite, open_one.code)
        ElementTree.SubElement(case, "skipped", message=_legal(open_one.reason))
    ElementTree.SubElement(suite, "system-out").text = _legal(report.story())
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    text: str = ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)
    return text


def _case(suite: ElementTree.Element, code: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname="outlast.drill", name=code)


def _legal(text: str) -> str:
    """Without what XML cannot hold, however it is written."""
    return "".join(c if _is_legal(c) else "?" for c in text)


def _is_legal(c: str) -> bool:
    is_usual = c in "\t\n" or " " <= c < "\ud800"
    return is_usual or "\ue000" <= c <= "\ufffd" or c >= "\U00010000"
