"""Plain scalars mean what they mean to Kubernetes."""

import pytest

from outlast.yamltext.scalars import Scalar, as_key, resolve, resolve_tagged


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("yes", True),
        ("y", True),
        ("On", True),
        ("n", False),
        ("off", False),
        ("NO", False),
        ("tRue", "tRue"),
        ("", None),
        ("~", None),
        ("null", None),
        ("nil", "nil"),
        ("12", 12),
        ("-3", -3),
        ("+3", 3),
        ("1_000", 1000),
        ("0400", 256),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("0800", 800.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("1:30", "1:30"),
        ("2026-11-01", "2026-11-01"),
        ("1.2.3", "1.2.3"),
        ("16Gi", "16Gi"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("-", "-"),
        ("+", "+"),
        (".", "."),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("\u0661", "\u0661"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_a_plain_scalar_means_what_go_reads(text: str, value: Scalar) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_a_tag_decides_over_the_looks() -> None:
    assert resolve_tagged("12", "tag:yaml.org,2002:str") == "12"
    assert resolve_tagged("12", "!") == "12"
    assert resolve_tagged("12", "tag:yaml.org,2002:int") == 12
    assert resolve_tagged("x", "!custom") == "x"


@pytest.mark.parametrize(
    ("value", "key"),
    [("a", "a"), (True, "true"), (False, "false"), (3, "3"), (1.5, "1.5"), (None, None)],
)
def test_a_key_is_text_as_in_json(value: Scalar, key: str | None) -> None:
    assert as_key(value) == key
