"""Any text is read into plain values with positions, or reported with its place."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from outlast.yamltext import reading
from outlast.yamltext.errors import PlanningPackageMissing
from outlast.yamltext.nodes import Map, Seq, get, span_at
from outlast.yamltext.reading import BROKEN_MAX, DEPTH_MAX, EXPANDED_MAX, Dialect, read
from outlast.yamltext.scalars import resolve
from outlast.yamltext.source import SourceText, decode


def only(text: str) -> Any:
    found = read(text)
    assert found.broken == []
    (document,) = found.documents
    return document


def reason_and_line(text: str) -> tuple[str, int]:
    (broken,) = read(text).broken
    line, _ = SourceText(name="x", text=text).position(broken.offset)
    return broken.reason, line


def test_documents_are_told_apart_and_empty_ones_left_out() -> None:
    text = "%YAML 1.1\n---\na: 1\n---\n# nothing\n---\n- b\n...\n---\n{c: 2}\n"

    assert read(text).documents == [{"a": 1}, ["b"], {"c": 2}]


def test_a_broken_document_does_not_hide_the_next() -> None:
    found = read("a: 'open\n---\nb: 1\n---\nc: [\n---\nd: 2\n")

    assert found.documents == [{"b": 1}, {"d": 2}]
    assert len(found.broken) == 2


def test_windows_line_ends_and_a_byte_mark_are_fine() -> None:
    source, wrong = decode("\ufeffa: 1\r\n---\r\nb: |\r\n  x\r\n".encode(), name="x")

    assert wrong is None
    assert read(source.text).documents == [{"a": 1}, {"b": "x\n"}]


def test_utf_16_with_its_mark_is_text() -> None:
    source, wrong = decode("a: ü\n".encode("utf-16"), name="x")

    assert (source.text, wrong) == ("a: ü\n", None)
    assert source.to_bytes(source.text) == "a: ü\n".encode("utf-16")


def test_bytes_that_are_no_text_are_placed() -> None:
    source, wrong = decode("ä: 1\nb: ".encode() + b"\xff\n", name="x")

    assert wrong == len("ä: 1\nb: ")
    assert source.position(wrong) == (2, 4)


def test_json_is_read_with_its_escapes_and_tabs() -> None:
    assert only('{\n\t"a": "\\/x",\n\t"b": ["\\ud83d\\ude00", 1e2]\n}')["a"] == "/x"


def test_keys_are_text_as_kubernetes_makes_them() -> None:
    assert only("on: 1\n8080: 2\n1.5: 3\n") == {"true": 1, "8080": 2, "1.5": 3}


def test_an_alias_shares_what_it_stands_for() -> None:
    document = only("a: &x {k: 1}\nb: *x\n")

    assert document["a"] is document["b"]
    assert span_at(document, ("b", "k")) == (10, 11)


def test_a_merge_key_brings_keys_that_keep_their_place() -> None:
    text = "base: &x\n  k: 1\n  l: 2\nuse:\n  <<: [*x, {m: 3}]\n  k: 9\n"
    document = only(text)

    assert document["use"] == {"k": 9, "l": 2, "m": 3}
    assert document["use"].merged == {"l", "m"}
    assert span_at(document, ("use", "l"))[0] == text.index("2")


def test_what_is_not_yaml_has_no_repeated_keys() -> None:
    found = read("a: 1\na: 2\n---\nName: b\nName: c\nList:\n  d\n  e: f\n")

    assert [one.key for one in found.repeated] == ["a"]
    assert len(found.broken) == 1


def test_a_repeated_key_is_noted_and_the_last_counts() -> None:
    found = read("a: 1\nb: 2\na: 3\n")

    (repeated,) = found.repeated
    assert (repeated.key, repeated.first, repeated.second) == ("a", (0, 1), (10, 11))
    assert found.documents == [{"a": 3, "b": 2}]


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("a: 1\n b: 2\n", "mapping values are not allowed in this context", 2),
        ("a: [1\n", "did not find expected ',' or ']'", 2),
        ("x: 1\na: \x01\n", "the character U+0001 is not allowed", 2),
        ("é: \x07\n", "the character U+0007 is not allowed", 1),
        ("a: *b\n", "the alias *b has no anchor before it", 1),
        ("a: &a\n  b: *a\n", "the alias *a is part of what it refers to", 2),
        ("<<: 3\n", "a merge key << needs a mapping or a list of mappings", 1),
        ("? [a]\n: 1\n", "a key must be text, a number or a boolean", 1),
        ("~: 1\n", "a key must be text, a number or a boolean", 1),
        ("[a]\n]\n", "did not find expected <document start>", 2),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str, reason: str, line: int) -> None:
    assert reason_and_line(text) == (reason, line)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 100_000, "- " * 5_000, "? " * 5_000], ids=lambda t: t[:4]
)
def test_deep_nesting_is_refused_at_once(text: str) -> None:
    (broken,) = read(text).broken

    assert broken.reason == f"it is nested more than {DEPTH_MAX} levels deep"


def test_many_deep_documents_are_given_up_on() -> None:
    assert len(read(("[" * 300 + "\n---\n") * 2000).broken) == BROKEN_MAX


def bomb(levels: int = 30) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def test_an_alias_bomb_is_refused_at_once() -> None:
    (broken,) = read(bomb()).broken

    assert broken.reason == f"aliases expand to more than {EXPANDED_MAX:,} values"


def test_a_merge_key_in_quotes_is_a_key_like_any_other() -> None:
    assert read('"<<": 3\na: 1\n').documents == [{"<<": 3, "a": 1}]


def test_a_bomb_of_merge_keys_is_refused_too() -> None:
    wide = "a: &a {" + ", ".join(f"k{n}: 1" for n in range(2000)) + "}\n"
    text = wide + "b:\n" + "".join("  - <<: *a\n" for _ in range(2000))

    (broken,) = read(text).broken

    assert "aliases expand" in broken.reason


def test_the_budget_of_aliases_is_for_the_whole_file() -> None:
    document = "a: &a [" + "1, " * 3000 + "]\nb: [*a, *a, *a]\n"

    found = read("---\n".join([document] * 40))

    assert 0 < len(found.documents) < 40
    assert "aliases expand" in found.broken[0].reason


# PyYAML leaves a few texts without quotes that Go reads as something else, such as a bare y.
TEXTS = st.text(max_size=12).filter(lambda text: isinstance(resolve(text), str))
PLAIN = st.text(alphabet="abcXYZ _-.", min_size=1, max_size=8).filter(
    lambda text: isinstance(resolve(text), str)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, True, False]), st.booleans())
def test_what_pyyaml_writes_is_read_back(value: Any, flow: bool | None, sorts: bool) -> None:
    text = yaml.safe_dump([value], default_flow_style=flow, sort_keys=sorts)

    assert only(text) == [value]


@given(VALUES, st.sampled_from([None, True, False]))
def test_every_scalar_stands_where_its_span_says(value: Any, flow: bool | None) -> None:
    text = yaml.safe_dump({"root": [value]}, default_flow_style=flow)

    document = only(text)

    for path, found in leaves(document):
        start, end = exact_span(document, path)
        assert (
            yaml.load(text[start:end] or "null", yaml.SafeLoader) == found
            or "\n" in text[start:end]
        )


def leaves(node: Any, path: tuple[str | int, ...] = ()) -> Any:
    if isinstance(node, Map):
        for key in node:
            yield from leaves(node[key], (*path, key))
    elif isinstance(node, Seq):
        for index, item in enumerate(node):
            yield from leaves(item, (*path, index))
    else:
        yield path, node


def exact_span(document: Any, path: tuple[str | int, ...]) -> tuple[int, int]:
    parent = get(document, path[:-1])
    if isinstance(parent, Map):
        return parent.spans[str(path[-1])][2:]
    assert isinstance(parent, Seq)
    return parent.spans[int(path[-1])]


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_any_text_is_read_or_reported(text: str) -> None:
    found = read(text)

    assert all(0 <= broken.offset <= len(text) for broken in found.broken)


@given(
    st.lists(
        st.sampled_from([*":-[]{}&*!|>%@`'\"#?,\n\t x1", "---\n", "<<: *a\n", "&a "]),
        max_size=60,
    )
)
def test_any_mixture_of_signs_is_read_or_reported(parts: list[str]) -> None:
    text = "".join(parts)

    found = read(text)

    assert all(0 <= broken.offset <= len(text) for broken in found.broken)


@pytest.fixture
def without_cache() -> Iterator[None]:
    """Look for PyYAML again, now and after the test."""
    reading._yaml.cache_clear()
    yield
    reading._yaml.cache_clear()


@pytest.mark.usefixtures("without_cache")
def test_without_pyyaml_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(PlanningPackageMissing, match="PyYAML with its C parser") as caught:
        read("a: 1")

    assert "outlast[plan]" in (caught.value.hint or "")


TEXT_ONLY = Dialect(resolve=lambda text: text or None, depth_max=3, expanded_max=9, is_strict=True)


def test_a_dialect_decides_what_plain_scalars_mean() -> None:
    found = read("a: 1.30\nb: yes\nc:\n<<: {d: 2}\n", TEXT_ONLY)

    assert found.documents == [{"a": "1.30", "b": "yes", "c": None, "<<": {"d": "2"}}]


@pytest.mark.parametrize(
    ("text", "reason", "offset"),
    [
        ("a: 1\n---\nb: 2\n", "a second document starts here", 5),
        ("a: 1\n...\n---\nb: 2\n", "a second document starts here", 9),
        ("a: !!int 1\n", "the tag 'tag:yaml.org,2002:int' is not supported", 3),
        ("a: !x [1]\n", "the tag '!x' is not supported", 3),
        ("[[[[]]]]", "it is nested more than 3 levels deep", 3),
        ("a: &a [1, 2, 3, 4]\nb: [*a, *a]\n", "aliases expand to more than 9 values", 27),
        ('{"a": "\\ud83d"}', "found invalid Unicode character escape code", 9),
    ],
)
def test_a_strict_dialect_refuses_what_others_tolerate(text: str, reason: str, offset: int) -> None:
    (broken,) = read(text, TEXT_ONLY).broken

    assert (broken.reason, broken.offset) == (reason, offset)


@pytest.mark.usefixtures("without_cache")
def test_a_strict_dialect_works_without_the_c_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    monkeypatch.setattr(yaml, "__with_libyaml__", False)

    assert read("a: [1, x]\n", TEXT_ONLY).documents == [{"a": ["1", "x"]}]
    with pytest.raises(PlanningPackageMissing, match="PyYAML with its C parser"):
        read("a: 1")
