"""Make the fixes of findings in the text, and prove each: what it leaves must read as it should.

Pure: texts in, texts out. The text after a fix is read again, and its documents must equal those
before with exactly the change of the fix made. A fix that fails this is not made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from outlast.manifests.lint.changes import Append, Change, Fix, Put, Remove, Rename, changed, plain
from outlast.manifests.lint.file import File
from outlast.manifests.lint.finding import Finding
from outlast.manifests.lint.nodes import Map
from outlast.manifests.lint.reading import read
from outlast.manifests.lint.splicing import Edit, edit_for

# Tried one by one only where they fail together, which costs a reading of the text for each.
_SINGLE_TRIES_MAX = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Fixed:
    """A text after fixes, and how many were made."""

    text: str
    count: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """A fix of one object, and its splices."""

    root: Map
    fix: Fix
    edits: tuple[Edit, ...]


def fix_file(file: File, findings: Iterable[Finding], *, unsafe: bool) -> Fixed:
    """The text of a file with those fixes made that do not touch each other.

    Fixes that overlap with one already made wait for the next call, on the new text.
    """
    plans = _compatible(_plans(file, findings, unsafe=unsafe))
    text = _attempt(file, plans)
    if text is not None:
        return Fixed(text=text, count=len(plans))
    good: list[_Plan] = []
    for plan in plans[:_SINGLE_TRIES_MAX]:
        if _attempt(file, [*good, plan]) is not None:
            good.append(plan)
    return Fixed(text=_attempt(file, good) or file.source.text, count=len(good))


def _plans(file: File, findings: Iterable[Finding], *, unsafe: bool) -> list[_Plan]:
    plans = []
    for finding in findings:
        fault = finding.fault
        if fault.fix is None or fault.view is None or not (fault.fix.is_safe or unsafe):
            continue
        root = fault.view.manifest.data
        edits = [edit_for(file.source, root, change) for change in fault.fix.changes]
        if all(edits):
            plans.append(_Plan(root, fault.fix, tuple(edit for edit in edits if edit)))
    return plans


def _compatible(plans: Sequence[_Plan]) -> list[_Plan]:
    """Of plans that touch each other, the first."""
    chosen: list[_Plan] = []
    taken: list[Edit] = []
    for plan in plans:
        if not any(_touch(one, other) for one in plan.edits for other in taken):
            chosen.append(plan)
            taken += plan.edits
    return chosen


def _touch(one: Edit, other: Edit) -> bool:
    return one.start <= other.end and other.start <= one.end


def _attempt(file: File, plans: Sequence[_Plan]) -> str | None:
    """The new text, if it reads as it should."""
    text = file.source.text
    edits = [edit for plan in plans for edit in plan.edits]
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    try:
        expected = _expected(file.documents, plans)
    except (LookupError, TypeError):
        return None
    reading = read(text)
    as_before = len(reading.broken) == len(file.broken)
    same_repeats = len(reading.repeated) <= len(file.repeated)
    return text if as_before and same_repeats and reading.documents == expected else None


def _expected(documents: list[Any], plans: Sequence[_Plan]) -> list[Any]:
    changes: dict[int, list[Change]] = {}
    for plan in plans:
        changes.setdefault(id(plan.root), []).extend(plan.fix.changes)
    return [_with_changes(document, changes) for document in documents]


def _with_changes(node: Any, changes: dict[int, list[Change]]) -> Any:
    """A plain copy of a document. The objects are it, or the items of its List."""
    if isinstance(node, Map) and id(node) in changes:
        result: Any = plain(node)
        # Items go last and from the end, so that the others keep their index.
        for change in sorted(changes[id(node)], key=_order):
            result = changed(result, change)
        return result
    if isinstance(node, Map) and isinstance(node.get("items"), list):
        items = [_with_changes(item, changes) for item in node["items"]]
        return {**plain(node), "items": items}
    return plain(node)


def _order(change: Change) -> tuple[int, int]:
    match change:
        case Put() | Append():
            return (0, 0)
        case Rename():
            return (1, 0)
        case Remove(path=(*_, int(last))):
            return (3, -last)
        case Remove():
            return (2, 0)
