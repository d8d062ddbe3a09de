"""Make the fixes of findings in the text of a file.

Pure: texts in, texts out. A fix is made only if the new text reads as exactly what the fix says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outlast.manifests.lint.engine.report import Finding
from outlast.manifests.lint.kubernetes.review import LoadedFile
from outlast.yamltext.editing import Revision, Splice, plan_revision, revised_text

# They are tried one by one only if they fail together, which costs a read of the text for each.
_SINGLE_TRIES_MAX = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedText:
    """A text after fixes, and how many were made."""

    text: str
    count: int


def fix_file(file: LoadedFile, findings: Iterable[Finding], *, unsafe: bool) -> FixedText:
    """The text of a file with all fixes made that do not touch each other.

    Fixes that overlap with one already made have to wait for the next call, on the new text.
    """
    revisions = _compatible(_revisions(file, findings, unsafe=unsafe))
    text = revised_text(file.source, file.reading, revisions)
    if text is not None:
        return FixedText(text=text, count=len(revisions))
    good: list[Revision] = []
    for revision in revisions[:_SINGLE_TRIES_MAX]:
        if revised_text(file.source, file.reading, [*good, revision]) is not None:
            good.append(revision)
    text = revised_text(file.source, file.reading, good)
    return FixedText(text=text or file.source.text, count=len(good))


def _revisions(
    file: LoadedFile, findings: Iterable[Finding], *, unsafe: bool
) -> Iterable[Revision]:
    for finding in findings:
        fault = finding.fault
        if fault.fix is None or fault.view is None or not (fault.fix.is_safe or unsafe):
            continue
        revision = plan_revision(file.source, fault.view.manifest.written.data, fault.fix.changes)
        if revision is not None:
            yield revision


def _compatible(revisions: Iterable[Revision]) -> Sequence[Revision]:
    """The revisions without those that touch an earlier one."""
    chosen: list[Revision] = []
    taken: list[Splice] = []
    for revision in revisions:
        if not any(one.touches(other) for one in revision.splices for other in taken):
            chosen.append(revision)
            taken += revision.splices
    return chosen
