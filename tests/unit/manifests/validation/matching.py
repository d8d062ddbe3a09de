"""Whether lint reports what the API server refused, at the same field and for the same reason."""

import re
from dataclasses import dataclass

from outlast.manifests.lint.engine.report import Finding
from outlast.manifests.lint.engine.rule import Severity
from outlast.manifests.lint.validation.refusal import Reason
from outlast.manifests.linting import lint
from outlast.yamltext.nodes import Path, get
from tests.unit.manifests.validation.cases import Answer, Case, Cause

OWN = "OL908"
_REASONS = {
    "FieldValueRequired": Reason.REQUIRED,
    "FieldValueInvalid": Reason.INVALID,
    "FieldValueNotSupported": Reason.UNSUPPORTED,
    "FieldValueDuplicate": Reason.DUPLICATE,
    "FieldValueForbidden": Reason.FORBIDDEN,
    "FieldValueNotFound": Reason.NOT_FOUND,
    "FieldValueTooLong": Reason.TOO_LONG,
    "FieldValueTooMany": Reason.TOO_MANY,
}
_PARTS = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
# The server leaves out some steps of the path to a field.
_QUIRKS = (
    (re.compile(r"\btemplate\.(labels|annotations)"), r"template.metadata.\1"),
    (re.compile(r"\bresources\[storage\]"), "resources.requests[storage]"),
    (re.compile(r"\bclusterIPs\[0\]"), "clusterIP"),
    (re.compile(r"\.(HostPID|HostIPC)"), r".\1"),
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the answer of the server is reported, and what lint reported instead."""

    is_reported: bool
    errors: tuple[str, ...]


def errors_in(case: Case) -> list[Finding]:
    report = lint("-", read_stdin=case.text.encode)
    return [finding for finding in report if finding.severity is Severity.ERROR]


def verdict(case: Case, answer: Answer) -> Verdict:
    found = errors_in(case)
    return Verdict(
        is_reported=any(_is_reported(finding, case, answer) for finding in found),
        errors=tuple(f"{finding.code} {finding.message}" for finding in found),
    )


def _is_reported(finding: Finding, case: Case, answer: Answer) -> bool:
    if answer.status == 404:
        return finding.code == "OL906"
    if answer.causes:
        return any(_agrees(finding, cause) for cause in answer.causes)
    if answer.status == 403:
        # An admission plugin refused the value and names no field.
        return str(get(case.data, finding.fault.at)) in answer.message
    return _is_decoding(finding, answer)


def _is_decoding(finding: Finding, answer: Answer) -> bool:
    """The server could not read the object. It names no path, or one without indexes and keys."""
    for sign in ("quantities must match", "illegal base64"):
        if sign in answer.message:
            return Reason.MALFORMED in finding.message
    names = [part for part in finding.fault.at if isinstance(part, str)]
    return ".".join(names[-2:]) in answer.message or ".".join(names[:-1]) in answer.message


def _agrees(finding: Finding, cause: Cause) -> bool:
    theirs, ours = server_path(cause.field), finding.fault.at
    if finding.code != OWN:
        # Older rules point at the part of the contradiction that should change.
        return ours[: len(theirs) - 1] == theirs[:-1]
    reason = _REASONS.get(cause.reason)
    return _is_same(ours, theirs) and reason is not None and f": {reason}: " in finding.message


def _is_same(ours: Path, theirs: Path) -> bool:
    """Whether the paths lead to the same field, or one to a part of the other."""
    if ours[: len(theirs)] == theirs or theirs[: len(ours)] == ours:
        return True
    # For some fields, the server leaves out an index.
    return len(theirs) == len(ours) - 1 and any(
        theirs == (*ours[:index], *ours[index + 1 :])
        for index, part in enumerate(ours)
        if isinstance(part, int)
    )


def server_path(field: str) -> Path:
    for pattern, replacement in _QUIRKS:
        field = pattern.sub(replacement, field)
    parts: list[str | int] = []
    for inside, plain in _PARTS.findall(field):
        parts.append(int(inside) if inside.isdecimal() else inside or plain)
    return tuple(parts)
