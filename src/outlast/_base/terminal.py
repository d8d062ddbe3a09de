"""Make text from outside safe to show on a terminal. Standard library only.

Names, payloads and errors from queues, stores, files or other programs may contain characters that
move the cursor, change the title, hide text or reverse its order. These are escaped. Everything
else, in any language, is unchanged.
"""

import unicodedata

# Controls (C0, DEL, C1), format characters (bidi overrides, zero-width characters), surrogates, and
# the separators that some terminals treat as line breaks.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def escaped(text: str, *, keep: str = "\n\t") -> str:
    """Escape every character that could control a terminal, as `\\x1b` or `\\u202e`.

    `keep` lists control characters to keep; pass "" for text that must stay on one line.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign in keep or not _is_unsafe(sign) else _escape(sign) for sign in text)


def _is_unsafe(sign: str) -> bool:
    return not sign.isprintable() and unicodedata.category(sign) in _UNSAFE


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")
