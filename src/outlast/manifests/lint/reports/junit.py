"""JUnit's XML, which most CI systems count and show as failed tests."""

from xml.sax.saxutils import escape as escape_text
from xml.sax.saxutils import quoteattr

from outlast.manifests.lint.finding import Finding
from outlast.manifests.lint.report import Report


def write(report: Report) -> str:
    cases = [_case(finding) for finding in report]
    if not cases:
        # A suite without a test counts as an error in some systems.
        cases = ['    <testcase classname="outlast.lint" name="no findings"/>\n']
    count = len(report)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites tests="{len(cases)}" failures="{count}" errors="0">\n'
        f'  <testsuite name="outlast lint" tests="{len(cases)}" failures="{count}" errors="0">\n'
        f"{''.join(cases)}"
        "  </testsuite>\n"
        "</testsuites>\n"
    )


def _case(finding: Finding) -> str:
    text = f"{finding.message}\nwhy: {finding.why}\nfix: {finding.hint}"
    return (
        f"    <testcase classname={_attribute(finding.file)} "
        f"name={_attribute(f'{finding.rule} at {finding.where}')} "
        f'file={_attribute(finding.file)} line="{finding.line}">\n'
        f'      <failure type="{finding.severity.word}" message={_attribute(finding.message)}>'
        f"{escape_text(_allowed(text))}</failure>\n"
        "    </testcase>\n"
    )


def _attribute(text: str) -> str:
    return quoteattr(_allowed(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _allowed(text: str) -> str:
    """The text without signs that XML cannot hold."""
    return "".join(
        sign
        if sign in "\t\n\r"
        or "\x20" <= sign <= "\ud7ff"
        or "\ue000" <= sign <= "\ufffd"
        or sign > "\uffff"
        else "\N{REPLACEMENT CHARACTER}"
        for sign in text
    )
