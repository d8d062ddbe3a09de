"""Fixes change what they say and nothing else, keep the layout, and are made once."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.rules import ALL_RULES
from outlast.yamltext.editing import Change, Remove, plain
from outlast.yamltext.reading import read
from tests.unit.manifests.lint.linted import SPOT_JOB, fixed, fixed_files, report
from tests.unit.manifests.rules.harness import FIXTURES


def test_safe_fixes_alone_are_made_unless_more_is_asked_for() -> None:
    text = (FIXTURES / "unquoted-value/flagged.yaml").read_text()

    assert fixed(SPOT_JOB) == SPOT_JOB
    assert fixed(text) == (
        text.replace("attempt: 3", 'attempt: "3"')
        .replace("gke-spot: true", 'gke-spot: "true"')
        .replace("value: 0400", 'value: "0400"')
    )


def test_unsafe_fixes_add_what_is_missing() -> None:
    result = fixed(SPOT_JOB, unsafe=True)

    (after,) = yaml.safe_load_all(result)
    actions = [rule["action"] for rule in after["spec"]["podFailurePolicy"]["rules"]]
    assert actions == ["Ignore", "Ignore"]
    assert after["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 15
    assert all(line in result.splitlines() for line in SPOT_JOB.splitlines())


def test_a_silenced_finding_is_not_fixed() -> None:
    text = (FIXTURES / "unquoted-value/flagged.yaml").read_text()
    silenced = text.replace("attempt: 3  # <- OL503", "attempt: 3  # outlast: ignore[OL503] no")

    assert "attempt: 3 " in fixed(silenced)


def test_what_an_alias_shares_is_not_fixed_for_one_of_them() -> None:
    text = """\
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: &shared {n: 1}}}
  - {apiVersion: v1, kind: Secret, metadata: {name: b, labels: *shared}}
"""

    assert fixed(text) == text


def test_every_file_is_fixed_for_itself() -> None:
    text = (FIXTURES / "unquoted-value/flagged.yaml").read_text()
    clean = (FIXTURES / "unquoted-value/clean.yaml").read_text()

    files = fixed_files(text, clean, text)

    assert [file.before.name for file in files] == ["a.yaml", "c.yaml"]
    assert '+    attempt: "3"' in files[0].diff


def test_a_fix_that_is_wrong_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    from outlast.yamltext import editing

    text = (FIXTURES / "unquoted-value/flagged.yaml").read_text()
    wrong = editing.Splice(start=3, end=9, text=": : [")
    monkeypatch.setattr(editing, "splice_for", lambda *_: wrong)

    assert fixed(text) == text


FLAGGED = [
    path.read_text() for rule in ALL_RULES for path in (FIXTURES / rule.name).glob("flagged.yaml")
]


@pytest.mark.parametrize("text", FLAGGED, ids=[rule.name for rule in ALL_RULES])
@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
def test_fixing_twice_is_fixing_once(text: str, unsafe: bool) -> None:
    once = fixed(text, unsafe=unsafe)

    assert fixed(once, unsafe=unsafe) == once


@settings(max_examples=60)
@given(
    st.sampled_from(FLAGGED),
    st.sampled_from([None, True, False]),
    st.integers(2, 6),
    st.sampled_from(["\n", "\r\n"]),
)
def test_fixes_keep_everything_else_in_any_layout(
    text: str, flow: bool | None, indent: int, line_break: str
) -> None:
    documents = read(text).documents
    if not documents:
        return
    laid_out = yaml.safe_dump_all(
        [plain(document) for document in documents],
        default_flow_style=flow,
        indent=indent,
        line_break=line_break,
        sort_keys=False,
    )

    result = fixed(laid_out, unsafe=True)

    assert fixed(result, unsafe=True) == result
    before, after = read(laid_out).documents, read(result).documents
    assert len(before) == len(after)
    fixes = list(fixes_in(laid_out))
    for old, new in zip(before, after, strict=True):
        named = [change for document, change in fixes if document == plain(old)]
        gone = flat(old).items() - flat(new).items()
        assert {path for path, _ in gone if not any(covers(one, path) for one in named)} == set()


def flat(node: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """Every scalar with its path."""
    if isinstance(node, dict):
        return {k: v for key, value in node.items() for k, v in flat(value, (*path, key)).items()}
    if isinstance(node, list):
        return {
            k: v for index, value in enumerate(node) for k, v in flat(value, (*path, index)).items()
        }
    return {path: node}


def fixes_in(text: str) -> Iterator[tuple[Any, Change]]:
    """What the fixes of a text say they change, each with its object."""
    for finding in report(text):
        fault = finding.fault
        if fault.fix is not None and fault.view is not None:
            for change in fault.fix.changes:
                yield plain(fault.view.manifest.data), change


def covers(change: Change, path: tuple[Any, ...]) -> bool:
    """Whether a change may take what is at the path; items move up where one before them goes."""
    *around, last = change.path
    moves = isinstance(change, Remove) and isinstance(last, int)
    prefix = tuple(around) if moves else change.path
    return path[: len(prefix)] == prefix


def test_the_options_decide_what_is_fixed() -> None:
    text = (FIXTURES / "unquoted-value/flagged.yaml").read_text()

    assert fixed(text, options=LintOptions(ignore=("OL503",))) == text
