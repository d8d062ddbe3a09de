"""Fixes change what they say and nothing else, keep the layout, and are made once."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.manifests.lint.changes import Append, Change, Put, Remove, Rename, changed, plain
from outlast.manifests.lint.configuration import Options
from outlast.manifests.lint.emitting import entry_lines, flow_text, item_lines
from outlast.manifests.lint.reading import read
from outlast.manifests.lint.source import Source
from outlast.manifests.lint.splicing import edit_for
from outlast.manifests.rules import ALL_RULES
from tests.unit.manifests.lint.linted import SPOT_JOB, fixed, fixed_files, report
from tests.unit.manifests.rules.harness import FIXTURES

TEXT = """\
# before
metadata:
  name: a  # why a
  labels: {x: 1, z: "2"}
spec:
  - key: one   # first
    value: 3
  # about two
  - key: two
    list: [p, q, r]
  - three
last: |
  text

  more
"""


def spliced(text: str, change: Change) -> str | None:
    (root,) = read(text).documents
    edit = edit_for(Source(name="x", text=text), root, change)
    if edit is None:
        return None
    return text[: edit.start] + edit.text + text[edit.end :]


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        (Put(("metadata", "name"), "b c"), "name: a  #", 'name: "b c"  #'),
        (Put(("spec", 0, "value"), 4), "value: 3", "value: 4"),
        (Put(("spec", 2), "four"), "- three", "- four"),
        (Put(("metadata", "labels", "z"), True), 'z: "2"', "z: true"),
        (Put(("metadata", "labels", "w"), "3"), 'z: "2"}', 'z: "2", w: "3"}'),
        (Put(("metadata", "uid"), "u", after="name"), "why a\n", "why a\n  uid: u\n"),
        (
            Put(("spec", 1, "map"), {"k": [1, {"m": "o"}]}),
            "[p, q, r]\n",
            "[p, q, r]\n    map:\n      k:\n        - 1\n        - m: o\n",
        ),
        (Put(("new",), []), "  more\n", "  more\nnew: []\n"),
        (Remove(("metadata", "name")), "  name: a  # why a\n", ""),
        (Remove(("metadata", "labels", "x")), "{x: 1, z", "{z"),
        (Remove(("metadata", "labels", "z")), ', z: "2"}', "}"),
        (Remove(("spec", 1, "list", 1)), "p, q, r", "p, r"),
        (Remove(("spec", 2)), "  - three\n", ""),
        (Remove(("spec", 1, "key")), "- key: two\n    list", "- list"),
        (Rename(("spec", 0, "value"), "amount"), "value: 3", "amount: 3"),
        (Append(("spec",), {"key": "x"}), "- three\n", "- three\n  - key: x\n"),
        (Append(("spec", 1, "list"), "s"), "q, r]", "q, r, s]"),
    ],
    ids=str,
)
def test_a_change_is_a_small_splice(change: Change, old: str, new: str) -> None:
    assert TEXT.count(old) == 1

    result = spliced(TEXT, change)

    assert result == TEXT.replace(old, new)
    (before,), (after,) = read(TEXT).documents, read(result).documents
    assert after == changed(before, change)


@pytest.mark.parametrize(
    "change",
    [
        Put(("metadata", "labels"), "text"),
        Put(("metadata", "name"), {"a": 1}),
        Put(("nowhere", "deep"), 1),
        Put(("spec", 9), 1),
        Remove(("nowhere",)),
        Remove(("spec", 9)),
        Rename(("nowhere",), "x"),
        Append(("metadata",), 1),
        Append(("nowhere",), 1),
    ],
    ids=str,
)
def test_what_cannot_be_spliced_is_no_fix(change: Change) -> None:
    assert spliced(TEXT, change) is None


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        ('{"a": {"b": 1}}', Put(("a", "c"), {"d": "e"}), '{"a": {"b": 1, "c": {"d": "e"}}}'),
        ('{\n  "a": 1\n}', Put(("b",), "x"), '{\n  "a": 1,\n  "b": "x"\n}'),
        ('{"a": {}}', Put(("a", "b"), 1), '{"a": {b: 1}}'),
        ('{"a": ["x"]}', Append(("a",), "y"), '{"a": ["x", "y"]}'),
        ('{"a": "x"}', Put(("a",), "y"), '{"a": "y"}'),
        ('{"a": 1}', Rename(("a",), "b"), '{"b": 1}'),
        ("a:\nb: 1\n", Put(("a",), "x"), "a: x\nb: 1\n"),
        ("a: 1", Put(("b",), 2), "a: 1\nb: 2"),
        ("a: 1\r\nb: 2\r\n", Put(("c",), 3), "a: 1\r\nb: 2\r\nc: 3\r\n"),
        ("- a: 1\n  b: 2\n", Remove((0, "b")), "- a: 1\n"),
    ],
)
def test_a_change_fits_json_and_any_line_end(text: str, change: Change, expected: str) -> None:
    assert spliced(text, change) == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.text(max_size=8), VALUES)
def test_what_is_inserted_reads_back_as_it_was_meant(key: str, value: Any) -> None:
    for text in ("\n".join(entry_lines(key, value)), "{" + flow_text({key: value})[1:]):
        assert read(text).documents == [{key: value}]
    assert read("\n".join(item_lines(value))).documents == [[value]]
    assert read(flow_text({key: value}, is_json=True)).documents == [{key: value}]


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
    from outlast.manifests.lint import fixing
    from outlast.manifests.lint.splicing import Edit

    text = (FIXTURES / "unquoted-value/flagged.yaml").read_text()
    monkeypatch.setattr(fixing, "edit_for", lambda *_: Edit(start=3, end=9, text=": : ["))

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

    assert fixed(text, options=Options(ignore=("OL503",))) == text
