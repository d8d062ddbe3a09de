"""Find the values that text assigns to secret names. Pure.

Covers `NAME=value`, `name: value` with YAML block scalars, `--name value`, `<name>value</name>`,
pairs such as `name: DB_PASSWORD` and `value: ...` in YAML, JSON and XML, and netrc files.
"""

import re
import unicodedata
from collections.abc import Iterator

from outlast._redact.names import HEADERS, MASK, is_count, is_placeholder, is_secret_name

Span = tuple[int, int]

_MAY_ASSIGN = re.compile(
    r"pass|pwd|secret|token|key|cred|auth|jwt|signature|cookie|pat|sk(?![a-z])|-u", re.IGNORECASE
)
# Every name of a secret contains one of these, in lower case; the short ones end a word.
_IN_NAMES = (
    *("pass", "pwd", "secret", "token", "key", "cred", "auth", "jwt", "signature", "cookie"),
    *("pat", "sk", "-u", "value"),
)
_ENDS_OF_NAMES = frozenset({"pat", "sk"})

_WORD = re.compile(r"\S+")
_NAME = re.compile(r"(?<![\w.\-])[\w.\-]++")
_NAME_CHARACTERS_MAX = 200
_TRAILING = "\"'`,;)]}>."
_ASSIGNED = re.compile(
    r"(?P<closed>\\?[\"'])?[ \t\u00a0]{0,40}"
    r"(?P<sign>[:!=?+]?={1,2}>?|:|[\uff1a\uff1d]|%(?:25){0,3}3[dD])[ \t\u00a0]{0,40}"
)
# A sentence that gives the secret away, unless the next word is an ordinary one.
_IS_SAID = re.compile(r"[ \t]{1,4}(?:is|was|are|were)(?:[ \t]now)?:?[ \t]{1,4}")
_ORDINARY = re.compile(r"[A-Za-z][a-z]*(?:['\u2019_-][a-z]+)?|[~.]{0,2}/.*", re.DOTALL)
_PASSWORDS = ("password", "passphrase", "passwd", "pwd", "pin")
_SAID_CHARACTERS_MIN = 4
_KIND_OF_KEY = re.compile(r"\b(api|access|secret|private)[ \t]$", re.IGNORECASE)
# A value may start with a dash, but what looks like another option is one.
_BLANK = re.compile(
    r"(?:[ \t]|\\\r?\n){1,40}"
    r"(?=[^\s\-]|(?!-[A-Za-z](?:\s|$)|--[a-z][a-z0-9\-]{0,60}(?:[\s=]|$))-{1,2}[\w/+=.])"
)
_QUOTE = re.compile(r"[bBfFrRuU]{0,2}(?P<quote>\"\"\"|'''|\\?[\"'])")
# Looks ahead a bounded distance, so that a long line of names does not take quadratic time.
_ONE_WORD_LINE = re.compile(
    r"[^\s,;}\])]{500}\S*|[^\s,;}\])]{1,499}+(?=[,;}\])]|[ \t]{0,40}(?:$|[\r\n]))"
)
_BLOCK = re.compile(r"[|>][0-9+\-]{0,2}[ \t]{0,40}(?:#[^\r\n]{0,200})?\r?\n")
# What may be between the two halves of a pair: quotes, a comma, a comment, a line break (also
# escaped, or in a diff).
_GAP = (
    r"\\?[\"']?[ \t]{0,40}+,?(?:(?:\r?\n)?[ \t]{0,100}+#[^\r\n]{0,200}+(?=[\r\n])){0,3}+"
    r"[ \t]{0,40}+(?:(?:\\r)?\\n|\r?\n)?"
    r"(?:[+\-](?=[ \t]{2}))?(?:[ \t]|\\t){0,100}+\\?[\"']?"
)
_IS = r"\\?[\"']?[ \t]{0,40}[:=][ \t]{0,40}"
_THEN_VALUE = re.compile(rf"{_GAP}value(?={_IS})", re.IGNORECASE)
_THEN_NAME = re.compile(
    rf"{_IS}(?:\\?[\"'](?P<quoted>[^\"'\r\n]{{1,500}}+)|(?P<plain>[^\s\"',;{{}}]{{1,500}}+))"
    rf"{_GAP}(?:name|key){_IS}\\?[\"']?(?P<name>[\w.\-]{{1,200}})",
    re.IGNORECASE,
)
_ELEMENT = re.compile(r">(?P<value>[^<>\r\n]{1,2000}+)</")
_NETRC = re.compile(
    r"\b(?:machine\s{1,40}[^\s]{1,200}+|default)"
    r"(?:\s{1,40}(?:login|account)\s{1,40}[^\s]{1,200}+){0,2}"
    r"\s{1,40}password\s{1,40}(?P<value>[^\s]{1,500})"
)
_USER_AND_PASSWORD = re.compile(r"[ \t=]{1,4}(?P<user>[^\s:]{1,64}):(?P<password>[^\s]{1,300})")
_USER_OPTION = frozenset({"-u", "--user", "--proxy-user"})


def may_assign(text: str) -> bool:
    """Whether the text may assign a value to a secret name. Quick, and never wrongly false."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _MAY_ASSIGN.search(plain) is not None


def named_spans(text: str) -> Iterator[Span]:
    """Where the values of secret names are, in order and without overlap."""
    position = 0
    for line_start, line_end in _lines_with_names(text):
        position = max(position, line_start)
        while (name := _NAME.search(text, position, line_end)) is not None:
            position = name.end()
            for start, end in _spans_after(text, name):
                if start < end and text[start:end] != MASK:
                    yield start, end
                position = max(position, end)


def _lines_with_names(text: str) -> list[Span]:
    """The lines that may name a secret, in order: a name does not go beyond its line."""
    if not text.isascii():
        # Other letters may count as one of these, and their case may have another length.
        return [(0, len(text))]
    lowered = text.lower()
    found: dict[int, int] = {}
    for part in _IN_NAMES:
        is_end = part in _ENDS_OF_NAMES
        position = lowered.find(part)
        while position >= 0:
            after = position + len(part)
            if is_end and lowered[after : after + 1].isalpha():
                position = lowered.find(part, after)
                continue
            end = _end_of_line(lowered, position)
            found[lowered.rfind("\n", 0, position) + 1] = end
            position = lowered.find(part, end)
    return sorted(found.items())


def netrc_spans(text: str) -> Iterator[Span]:
    """Where the passwords of a netrc file are: `machine HOST login USER password VALUE`."""
    if "password" in text:
        for found in _NETRC.finditer(text):
            if found["value"] != MASK:
                yield found.span("value")


def _spans_after(text: str, name: "re.Match[str]") -> Iterator[Span]:
    if name[0] in _USER_OPTION:
        span = _user_option_span(text, name.end())
        yield from [] if span is None else [span]
    elif name[0].lower() == "value":
        yield from _value_before_name(text, name)
    elif is_secret_name(_full_name(text, name)):
        span = _value_span(text, name)
        if span is not None:
            yield span
        else:
            yield from _paired_values(text, name.end())


def _full_name(text: str, name: "re.Match[str]") -> str:
    """The name; `key` in "API key" as one name, because other keys are not secret."""
    if name[0].lower() == "key":
        kind = _KIND_OF_KEY.search(text[max(0, name.start() - 9) : name.start()])
        return f"{kind[1]}_key" if kind else name[0]
    return name[0][-_NAME_CHARACTERS_MAX:]


def _value_span(text: str, name: "re.Match[str]") -> Span | None:
    """The value that follows a secret name; None if there is none, or it is not a secret."""
    assigned = _ASSIGNED.match(text, name.end())
    if assigned is not None:
        span = _assigned_span(text, assigned, name)
    elif text[name.start() - 1 : name.start()] in ("<", ":"):
        element = _ELEMENT.match(text, name.end())
        span = None if element is None else element.span("value")
    elif name[0].startswith("-") and (blank := _BLANK.match(text, name.end())) is not None:
        span = _plain_span(text, blank.end())
    elif (said := _IS_SAID.match(text, name.end())) is not None:
        span = _said_span(text, said.end(), name[0])
    else:
        span = None
    if span is None or span[0] >= span[1]:
        return None
    value = text[span[0] : span[1]]
    return None if is_placeholder(value) or is_count(name[0], value) else span


def _said_span(text: str, start: int, name: str) -> Span | None:
    """The value in `the password is X`: quoted, or a word that would be odd in a sentence."""
    is_password = name.lower().endswith(_PASSWORDS)
    span = _plain_span(text, start)
    value = text[span[0] : span[1]]
    if is_password and span[0] > start:
        return span
    if len(value) < _SAID_CHARACTERS_MIN or _ORDINARY.fullmatch(value.rstrip("?!")):
        return None
    is_plain = value.isdecimal() or (value.isalpha() and value.isupper())
    return None if is_plain and not is_password else span


def _paired_values(text: str, position: int) -> Iterator[Span]:
    """The values after `name: DB_PASSWORD`; a diff shows the old one and the new one."""
    while (label := _THEN_VALUE.match(text, position)) is not None:
        span = _labeled_value(text, label.end())
        if span is None:
            return
        yield span
        position = span[1]


def _value_before_name(text: str, label: "re.Match[str]") -> Iterator[Span]:
    """The value in `{"value": ..., "name": "DB_PASSWORD"}`."""
    found = _THEN_NAME.match(text, label.end())
    if found is not None and is_secret_name(found["name"]):
        span = found.span("plain" if found["quoted"] is None else "quoted")
        if not is_placeholder(text[span[0] : span[1]]):
            yield span


def _labeled_value(text: str, label_end: int) -> Span | None:
    assigned = _ASSIGNED.match(text, label_end)
    if assigned is None:
        return None
    if block := _block_span(text, assigned.end(), label_end - len("value")):
        return block
    start, end = _plain_span(text, assigned.end())
    value = text[start:end]
    return None if start >= end or is_placeholder(value) else (start, end)


def _assigned_span(text: str, assigned: "re.Match[str]", name: "re.Match[str]") -> Span | None:
    start = assigned.end()
    if name[0].lower() in HEADERS:
        return start, _end_of_line(text, start)
    if quoted := _quoted_span(text, start):
        return quoted
    if assigned["sign"] == ":":
        if block := _block_span(text, start, name.start()):
            return block
        if assigned["closed"] is None:
            # A colon may also precede a sentence, and a test may pass.
            word = _ONE_WORD_LINE.match(text, start)
            if word is None or name[0].lower() == "pass":
                return None
            return start, start + len(word[0].rstrip(_TRAILING))
    return _plain_span(text, start)


def _plain_span(text: str, start: int) -> Span:
    if quoted := _quoted_span(text, start):
        return quoted
    if text.startswith(MASK, start) and text[start + len(MASK) : start + len(MASK) + 1] in (
        "",
        *"&#;?",
    ):
        # A parameter of a URL that is masked already; others may follow.
        return start, start
    word = _WORD.match(text, start)
    if word is None or is_placeholder(word[0][:200]) or is_placeholder(word[0][:200].rstrip(",]}")):
        return start, start
    return start, start + len(word[0].rstrip(_TRAILING))


def _quoted_span(text: str, start: int) -> Span | None:
    quoted = _QUOTE.match(text, start)
    if quoted is None:
        return None
    sign = quoted["quote"]
    end = text.find(sign, quoted.end())
    while len(sign) == 1 and end > quoted.end() and text[end - 1] == "\\":
        end = text.find(sign, end + 1)
    return quoted.end(), end if end >= 0 else _end_of_line(text, quoted.end())


def _block_span(text: str, start: int, key_start: int) -> Span | None:
    """The lines of a YAML block scalar: those indented more than its key, also in a diff."""
    header = _BLOCK.match(text, start)
    if header is None:
        return None
    column = _column(text, key_start)
    first = end = position = header.end()
    while position < len(text):
        line_end = _end_of_line(text, position)
        line = text[position:line_end]
        content = (" " + line[1:] if line[:1] in ("+", "-") else line).lstrip(" \t")
        if content.strip() and len(line) - len(content) <= column:
            break
        if content.strip():
            first = position + len(line) - len(content) if end == header.end() else first
            end = position + len(line.rstrip())
        position = line_end + 1
    return (first, end) if end > first else None


def _column(text: str, position: int) -> int:
    """Where a key begins in its line, with the quote before it."""
    quoted = text[position - 1 : position] in ("'", '"')
    return position - (text.rfind("\n", 0, position) + 1) - quoted


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _user_option_span(text: str, start: int) -> Span | None:
    """The password in `-u user:password`, as curl takes it; not the ids of `--user 1000:1000`."""
    found = _USER_AND_PASSWORD.match(text, start)
    if found is None:
        return None
    password = found["password"].rstrip(_TRAILING)
    if not password or password.isdecimal() or password == MASK or password.startswith("//"):
        return None
    start = found.start("password")
    word = _WORD.match(text, start)
    assert word is not None, "The password is part of a word."
    return start, start + len(word[0].rstrip(_TRAILING))
