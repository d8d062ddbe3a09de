"""Changes are spliced into a text, leave the rest as it is, and read back as what was meant."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.yamltext.editing import (
    Append,
    Change,
    Put,
    Remove,
    Rename,
    changed,
    plain,
    splice_for,
    with_values,
)
from outlast.yamltext.reading import read
from outlast.yamltext.source import SourceText
from outlast.yamltext.writing import entry_lines, flow_text, item_lines

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
    splice = splice_for(SourceText(name="x", text=text), root, change)
    if splice is None:
        return None
    return text[: splice.start] + splice.text + text[splice.end :]


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
        (Remove(("metadata", "name")), "  name: a  # why a\n", "  # why a\n"),
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


CHANGES = {"measured": {"save": "30s", "grace": "14s"}, "checkpoint": {"size": "954MiB"}}
START = "name: a\ncheckpoint: {size: 1GiB}\n"
SEED = 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"# why\n{START}measured:\n  grace: 9s  # short\n# at the edge\n  stall: 1s\nnext: b\n",
            "# why\nname: a\ncheckpoint: {size: 954MiB}\nmeasured:\n  grace: 14s  # short\n"
            "# at the edge\n  stall: 1s\n  save: 30s\nnext: b\n",
        ),
        (
            f"{START}measured: {{save: 1h,  # long\n  stall: 1s}}\n",
            "name: a\ncheckpoint: {size: 954MiB}\n"
            "measured: {save: 30s,  # long\n  stall: 1s,\n  grace: 14s}\n",
        ),
        (
            "name: a\ncheckpoint:\n  size: 12 GiB # old\n",
            "name: a\ncheckpoint:\n  size: 954MiB # old\nmeasured:\n  save: 30s\n  grace: 14s\n",
        ),
        (
            "name: a\ncheckpoint: {size: '1 GiB', url: b}\nmeasured:\n  save:\n  grace: ~\n",
            "name: a\ncheckpoint: {size: 954MiB, url: b}\nmeasured:\n  save: 30s\n  grace: 14s\n",
        ),
        (
            f"---\n{START}measured: {{}}\n...\n",
            "---\nname: a\ncheckpoint: {size: 954MiB}\nmeasured: {save: 30s, grace: 14s}\n...\n",
        ),
        (
            f"{START}...\n",
            "name: a\ncheckpoint: {size: 954MiB}\nmeasured:\n  save: 30s\n  grace: 14s\n...\n",
        ),
        (
            '{"name": "a", "checkpoint": {"url": "b", "size": "1GiB"}}',
            '{"name": "a", "checkpoint": {"url": "b", "size": "954MiB"}, '
            '"measured": {"save": "30s", "grace": "14s"}}',
        ),
        (
            "  name: a\r\n  checkpoint:\r\n    url: b",
            "  name: a\r\n  checkpoint:\r\n    url: b\r\n    size: 954MiB\r\n"
            "  measured:\r\n    save: 30s\r\n    grace: 14s",
        ),
        (
            'checkpoint: {size: "1\\x20GiB"}\nnote: |+\n  k\n\n',
            "checkpoint: {size: 954MiB}\nnote: |+\n  k\n\nmeasured:\n  save: 30s\n  grace: 14s\n",
        ),
        (
            "checkpoint:\n  size: 12\n    GiB\n",
            "checkpoint:\n  size: 954MiB\nmeasured:\n  save: 30s\n  grace: 14s\n",
        ),
        (
            "checkpoint:\n  size: >-\n    12 GiB\n",
            "checkpoint:\n  size: 954MiB\nmeasured:\n  save: 30s\n  grace: 14s\n",
        ),
    ],
    ids=[
        "block",
        "flow over lines",
        "a space before the unit",
        "keys without values",
        "empty",
        "the end of the document",
        "one line",
        "indented, CRLF",
        "kept blank lines",
        "two lines",
        "folded",
    ],
)
def test_a_value_is_changed_where_it_stands(text: str, expected: str) -> None:
    assert with_values(text, CHANGES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "checkpoint: {size: &s 1GiB}\nother: *s\n",
        "other: &m {save: 1h}\nmeasured: *m\ncheckpoint: {size: 1GiB}\n",
        f"{START}measured: ~\n",
        f"{START}measured: [1]\n",
        "[1]\n",
        "a\n",
    ],
    ids=["anchor", "alias", "null", "list", "only a list", "only a word"],
)
def test_what_cannot_be_changed_is_left_to_the_user(text: str) -> None:
    assert with_values(text, CHANGES) is None


def test_no_changes_leave_the_text_as_it_is() -> None:
    assert with_values(START, {}) == START


def test_whatever_comes_out_says_what_was_meant() -> None:
    chance = random.Random(SEED)
    pieces = ["measured:", "  save: 1h", "  grace: {", "}", "# c", "", "...", "  ", "checkpoint:"]
    pieces += ["checkpoint: {size: 1 GiB}", "measured: {", "save: 1h,", "other: |", "    size: 2GB"]
    done = 0
    for _ in range(3000):
        text = "\n".join(chance.choices(pieces, k=chance.randrange(1, 7)))
        result = with_values(text, CHANGES)

        if result is None:
            continue
        done += 1
        before, after = (plain(read(one).documents[0]) for one in (text, result))
        for part, values in CHANGES.items():
            assert after.pop(part) == {**before.pop(part, {}), **values}, (SEED, text)
        assert after == before, (SEED, text)
    assert done > 100


@pytest.mark.parametrize(
    ("text", "change", "after"),
    [
        ("a:\n  x: 1  # why\n  y: 2\n", Remove(("a", "x")), "a:\n  # why\n  y: 2\n"),
        ("a:\n  - 1  # why\n  - 2\n", Remove(("a", 0)), "a:\n  # why\n  - 2\n"),
        ("a: >-  # why\n  text\nb: 1\n", Put(("a",), "v"), "a: v  # why\nb: 1\n"),
        ("a: {\n  x: 1,  # why\n  y: 2\n}\n", Remove(("a", "x")), None),
        ("a: {\n  x: 1,  # why\n  y: 2\n}\n", Remove(("a", "y")), None),
    ],
)
def test_a_comment_on_the_changed_line_is_never_lost(
    text: str, change: Change, after: str | None
) -> None:
    assert spliced(text, change) == after
