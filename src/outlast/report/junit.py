"""JUnit XML, which CI systems display as test results. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

# XML 1.0 cannot represent these, not even as references.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A parser would read a literal carriage return as a line feed.
_RETURN = {"\r": "&#13;"}


@dataclass(frozen=True, kw_only=True, slots=True)
class JUnitCase:
    """One test. At most one of `failure` and `skipped` is set; both are messages.

    `details` is the longer text of the failure, by default its message.
    """

    classname: str
    name: str
    failure: str | None = None
    failure_type: str = "failure"
    details: str | None = None
    skipped: str | None = None
    error_output: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


def junit_xml(
    name: str,
    cases: Sequence[JUnitCase],
    *,
    attributes: Mapping[str, str] | None = None,
    output: str | None = None,
) -> str:
    """One test suite as a complete file; `attributes` are additional ones of the suite."""
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.failure is not None for case in cases)),
        "errors": "0",
    }
    skipped = sum(case.skipped is not None for case in cases)
    suite = {"name": name, **counts, "skipped": str(skipped), **(attributes or {})}
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        _open("testsuites", counts),
        f"  {_open('testsuite', suite)}",
        *(f"    {_case(case)}" for case in cases),
        *([f"    {_element('system-out', {}, output)}"] if output is not None else []),
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(case: JUnitCase) -> str:
    inside = ""
    if case.failure is not None:
        attributes = {"type": case.failure_type, "message": case.failure}
        inside = _element("failure", attributes, case.details or case.failure)
    elif case.skipped is not None:
        inside = _element("skipped", {"message": case.skipped}, "")
    if case.error_output is not None:
        inside += _element("system-err", {}, case.error_output)
    attributes = {"classname": case.classname, "name": case.name, **case.attributes}
    if not inside:
        return _element("testcase", attributes, None)
    return f"{_open('testcase', attributes)}{inside}</testcase>"


def _element(name: str, attributes: Mapping[str, str], text: str | None) -> str:
    if not text:
        return f"{_open(name, attributes)[:-1]}/>"
    return f"{_open(name, attributes)}{escape(_legal(text), _RETURN)}</{name}>"


def _open(name: str, attributes: Mapping[str, str]) -> str:
    written = "".join(f" {key}={_quoted(value)}" for key, value in attributes.items())
    return f"<{name}{written}>"


def _quoted(text: str) -> str:
    return quoteattr(_legal(text), {"\n": "&#10;", "\t": "&#9;", **_RETURN})


def _legal(text: str) -> str:
    """The text with a replacement character for those that XML cannot represent."""
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
