"""Text from outside cannot control a terminal, and stays readable."""

import pytest

from outlast._base.terminal import escaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text: 日本 ü €\u3000🎈", "plain text: 日本 ü €\u3000🎈"),
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("c1 \x9b31m del \x7f nul \0", "c1 \\x9b31m del \\x7f nul \\x00"),
        ("back\rover", "back\\rover"),
        ("\u202eevil\u202c \u2066x\u2069", "\\u202eevil\\u202c \\u2066x\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("line\u2028separator\u2029", "line\\u2028separator\\u2029"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("lone \ud800 half", "lone \\ud800 half"),
        ("two\nlines\tapart", "two\nlines\tapart"),
    ],
)
def test_what_controls_a_terminal_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_a_name_can_be_kept_on_its_line() -> None:
    assert escaped("a\nb\tc", keep="") == "a\\nb\\tc"


def test_no_character_of_a_category_that_controls_passes() -> None:
    everything = "".join(map(chr, range(0x110000)))

    shown = escaped(everything)

    import unicodedata

    left = {sign for sign in shown if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert left == {"\n", "\t"}
