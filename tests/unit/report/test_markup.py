"""Nothing from outside gets into the page as markup."""

import pytest

from outlast.report.markup import Html, element, number, prose, text


def test_text_is_escaped_and_markup_is_not_escaped_twice() -> None:
    inner = element("b", "<i>&\"'")

    assert inner == "<b>&lt;i&gt;&amp;&quot;&#x27;</b>"
    assert element("p", inner) == f"<p>{inner}</p>"


def test_an_attribute_cannot_be_left_by_a_quote() -> None:
    said = element("rect", x='"><script>alert(1)</script>', class_="bar")

    assert said == ('<rect x="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;" class="bar"></rect>')


def test_what_is_none_is_left_out() -> None:
    assert element("p", None, "a", None, id=None, aria_label="b") == '<p aria-label="b">a</p>'


@pytest.mark.parametrize(
    "unfit",
    ["\x00", "\x1b", "\x7f", "\x9b", "\udcff", "\u202e", "\u2066", "\ufffe"],
    ids=["nul", "escape", "delete", "csi", "no-utf-8", "right-to-left", "isolate", "no-character"],
)
def test_what_a_browser_or_a_reader_would_be_fooled_by_is_replaced(unfit: str) -> None:
    said = text(f"a{unfit}b")

    assert said == "a\ufffdb"
    assert said.encode()


def test_lines_and_letters_of_all_languages_stay() -> None:
    said = "erste Zeile\n\tzweite: Größe, 速度, سرعة, 🙂"

    assert text(said) == said


def test_code_in_backticks_is_code_and_is_escaped() -> None:
    assert prose("Put `exec <x>` in front.") == "Put <code>exec &lt;x&gt;</code> in front."


def test_a_lonely_backtick_stays_one() -> None:
    assert prose("a `b` c ` d") == "a <code>b</code> c ` d"


def test_a_number_stays_with_its_unit() -> None:
    assert prose("after 3 s of 15 s, 2 steps") == "after 3\u00a0s of 15\u00a0s, 2 steps"


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0"), (12.5, "12.5"), (33.3333, "33.33"), (100.0, "100")]
)
def test_coordinates_are_short(value: float, said: str) -> None:
    assert number(value) == said


def test_markup_stays_markup_when_it_is_joined() -> None:
    assert isinstance(element("p", Html("<b>x</b>")), Html)
