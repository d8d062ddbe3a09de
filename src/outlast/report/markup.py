"""HTML and SVG as values: text is escaped unless it is `Html` already. Pure.

Text from outside (commands, outputs, file names) is never `Html`, so escaping cannot be forgotten.
Characters that a browser would act on or cannot display become a replacement character.
"""

import html
import re
from collections.abc import Iterable

# Control characters, lone surrogates (they represent bytes that are not UTF-8), characters that
# change the direction of text, and noncharacters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:s|min|h|d)\b)")
_VOID = frozenset({"br", "link", "meta"})
_MIXED_CASE = frozenset({"viewBox", "preserveAspectRatio"})


class Html(str):
    """Markup that is already safe."""

    __slots__ = ()


def text(value: object) -> Html:
    """Escape a value; `Html` is returned unchanged."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(_UNSAFE.sub("\ufffd", str(value))))


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """One element. None is omitted; `class_` becomes `class`, and `_` in other names `-`."""
    written = "".join(
        f' {_attribute(key)}="{text(number(value) if isinstance(value, float) else value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Concatenate parts; None is omitted."""
    return Html("".join(text(part) for part in parts if part is not None))


def prose(sentence: object) -> Html:
    """Text with `code` in backticks; a number and its unit stay on one line."""
    if isinstance(sentence, Html):
        return sentence
    parts = _BEFORE_UNIT.sub("\u00a0", str(sentence)).split("`")
    # A backtick without a partner is just a backtick.
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    return join(element("code", part) if at % 2 else part for at, part in enumerate(parts))


def number(value: float) -> str:
    """A coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _attribute(key: str) -> str:
    return key if key in _MIXED_CASE else key.rstrip("_").replace("_", "-")
