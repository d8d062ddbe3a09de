"""HTML as values: text is escaped unless it is `Html` already, so nothing can be forgotten. Pure.

What comes from outside (commands, outputs, file names) is never `Html`. Characters that a browser
would act on or cannot show become a replacement sign.
"""

import html
import re
from collections.abc import Iterable

# Control characters, halves of surrogate pairs (they stand for bytes that are no UTF-8), what turns
# the direction of text around, and what is no character.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:s|min|h|d)\b)")
_VOID = frozenset({"br", "link", "meta"})


class Html(str):
    """Markup that is safe as it stands."""

    __slots__ = ()


def text(value: object) -> Html:
    """Anything from outside, as text."""
    return value if isinstance(value, Html) else Html(html.escape(_UNFIT.sub("\ufffd", str(value))))


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """One element. None is left out; `class_` is `class`, and `_` in other names is `-`."""
    said = "".join(
        f' {_attribute(key)}="{text(number(value) if isinstance(value, float) else value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{join(children)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Parts in a row, without those that are None."""
    return Html("".join(text(part) for part in parts if part is not None))


def prose(said: str) -> Html:
    """A sentence: what stands in backticks is code, and a number stays with its unit."""
    parts = _BEFORE_UNIT.sub("\u00a0", said).split("`")
    # The last one that has no partner is only a backtick.
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    return join(element("code", part) if at % 2 else part for at, part in enumerate(parts))


def number(value: float) -> str:
    """A coordinate, as short as two decimals allow."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _attribute(key: str) -> str:
    # These are the names in SVG that are written in two cases.
    if key in ("viewBox", "preserveAspectRatio"):
        return key
    return key.rstrip("_").replace("_", "-")
