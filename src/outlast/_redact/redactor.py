"""Mask secrets in text: those the text shows, and those this process knows."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote, unquote

from outlast._redact.assignments import may_assign, named_spans, netrc_spans
from outlast._redact.commands import command_spans, password_words
from outlast._redact.names import MASK, is_count, is_placeholder, is_secret_name
from outlast._redact.urls import MAY_HOLD_URL, SCHEME, secret_spans

_LENGTH_MIN = 6
"""Shorter values are not searched for on their own: they would match ordinary words."""

_PASSES_MAX = 5
_REMEMBERED_MAX = 1000
_remembered: dict[str, None] = {}

_WORD = re.compile(r"\S+")
_BLANKS = re.compile(r"\s")
_PIECES = re.compile(r"[\s@/\\:?#&=%,;|\"'<>()\[\]{}]+")

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[\w\-]{16,}"
    r"|hf_[A-Za-z0-9]{16,}|sk-[\w\-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|ya29\.[\w\-.]{10,}|AIza[\w\-]{30,}|1//[\w\-]{30,}|GOCSPX-[\w\-]{16,}"
    r"|A(?:KI|SI)A[0-9A-Z]{16}(?:[\s:,;|/\"']{1,3}[A-Za-z0-9/+=]{40}(?![A-Za-z0-9/+=]))?"
    r"|xox[abeprs]-[\w\-]{10,}|npm_[A-Za-z0-9]{30,}|pypi-[\w\-]{30,}|dckr_pat_[\w\-]{16,}"
    r"|SG\.[\w\-]{16,}\.[\w\-]{16,}|eyJ[\w\-]{8,}(?:\.[\w\-]*){0,2}"
    r"|(?<=[Bb]earer )(?=\S{0,200}[0-9]|\S{24})[^\s\"',;*][^\s\"',;]{7,}"
    r")"
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\\r\n\t "
_WEBHOOK = re.compile(
    r"(hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/)"
    r"[\w/\-]+"
)
# What a terminal does not show, raw or escaped: styling, control and zero-width characters.
_INVISIBLE = re.compile(
    r"\x1b\[[0-?]*+[ -/]*+[@-~]|\x1b\][^\x07\x1b]*+(?:\x07|\x1b\\)|\\(?:x1b|u001b|033|e)\[[0-9;]*+m"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)


def redact(text: str) -> str:
    """`text` without any secret that it shows or that this process knows."""
    return redact_all(text, known_secrets())


def redact_all(text: str, secrets: Iterable[str]) -> str:
    """`text` without these secrets and without those that it shows by their place or shape."""
    longest_first = sorted(secrets, key=len, reverse=True)
    shown = _redacted(text, longest_first)
    if _INVISIBLE.search(shown) is None:
        return shown
    # A terminal would show this text. If it holds a secret, it replaces the styled one.
    plain = _INVISIBLE.sub("", shown)
    redacted = _redacted(plain, longest_first)
    return shown if redacted == plain else redacted


def redact_words(words: Sequence[str], *, secrets: Iterable[str] | None = None) -> tuple[str, ...]:
    """The words of a command line, where an option and its value may be separate words."""
    known = known_secrets() if secrets is None else secrets
    values = dict(password_words(words))
    return tuple(
        word[: values[index]] + MASK if index in values else redact_all(word, known)
        for index, word in enumerate(words)
    )


def shows_secret(text: str) -> bool:
    """Whether the text itself shows a secret, by its place or shape."""
    return redact_all(text, ()) != text


def known_secrets(environ: Mapping[str, str] = os.environ) -> set[str]:
    """What this process knows to be secret: from its environment and from `remember`."""
    found = set(_remembered)
    for name, value in list(environ.items()):
        found.update(_secrets_of_variable(name, value))
    return found


def remember(*words: str) -> None:
    """Note the secrets in a URL or a command line, so that they are found on their own too."""
    found = [secret for word in words for secret in secrets_in(word)]
    for index, offset in password_words(words):
        found += _variants(words[index][offset:])
    for secret in found:
        if len(_remembered) < _REMEMBERED_MAX:
            _remembered[secret] = None


@lru_cache(maxsize=256)
def secrets_in(text: str) -> frozenset[str]:
    """The secrets in a URL or a command, in every form in which a message may quote them.

    Text that starts like a URL is read as one, so blanks in its password do not matter.
    """
    found: set[str] = set()
    if SCHEME.match(text) or not _BLANKS.search(text):
        for start, end in secret_spans(text):
            raw = text[start:end]
            found.update(_variants(raw))
            # A driver that splits the URL elsewhere may quote a piece of what was meant as one.
            for piece in _PIECES.split(raw):
                found.update(_variants(piece))
    for start, end in (*named_spans(text), *command_spans(text)):
        found.update(_variants(text[start:end]))
    return frozenset(found)


def redact_excerpt(excerpt: str, *documents: str, secrets: Collection[str] | None = None) -> str:
    """A part of these documents, or their diff, also without the secrets that only they identify.

    In a manifest, the name of a secret variable may be on another line than its value. `secrets`
    are those that this process knows.
    """
    known = known_secrets() if secrets is None else secrets
    return redact_all(
        excerpt, {*known, *(one for text in documents for one in secrets_shown(text))}
    )


@lru_cache(maxsize=16)
def secrets_shown(text: str) -> frozenset[str]:
    """The secrets in a document, in every form in which an excerpt of it may show them."""
    spans = (*named_spans(text), *netrc_spans(text), *command_spans(text))
    found = {text[start:end] for start, end in spans}
    for word in _words_with_urls(text):
        found.update(word[start:end] for start, end in secret_spans(word))
    return frozenset(form for secret in found for form in _variants(secret))


def _words_with_urls(text: str) -> Iterator[str]:
    """The words in which `secret_spans` may find something."""
    position = 0
    while (hint := MAY_HOLD_URL.search(text, position)) is not None:
        start = text.rfind("\n", position, hint.start()) + 1 or position
        end = text.find("\n", hint.end())
        position = len(text) if end < 0 else end
        yield from filter(MAY_HOLD_URL.search, _WORD.findall(text, start, position))


def _redacted(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if secret in text:
            text = _without(text, secret)
    # Masking may uncover more, but rarely and not for long.
    for _ in range(_PASSES_MAX):
        before, text = text, _without_shown(text)
        if text == before:
            break
    return text


def _without_shown(text: str) -> str:
    text = _without_private_keys(text)
    if MAY_HOLD_URL.search(text):
        text = _WORD.sub(lambda found: _redacted_word(found[0]), text)
    if may_assign(text):
        text = _masked(text, named_spans(text))
        text = _masked(text, netrc_spans(text))
    text = _masked(text, command_spans(text))
    return _TOKEN.sub(MASK, _WEBHOOK.sub(rf"\1{MASK}", text))


@lru_cache(maxsize=1024)
def _secrets_of_variable(name: str, value: str) -> frozenset[str]:
    found: set[str] = set()
    if is_secret_name(name) and not is_count(name, value.strip()):
        found.update(_variants(value.strip()))
    if SCHEME.match(value.strip()):
        # Only if all of it is a URL: a search path may contain colons and an @, too.
        found |= secrets_in(value.strip())
    return frozenset(found)


def _variants(value: str) -> Iterator[str]:
    """The value as messages quote it: decoded, escaped, line by line."""
    if is_placeholder(value):
        return
    decoded = unquote(value)
    escaped = [quote(decoded, safe=safe, errors="replace") for safe in ("", "/")]
    forms = {value, decoded, *escaped, repr(value)[1:-1]}
    forms.update(line.strip() for line in value.splitlines())
    for form in forms:
        if len(form.strip()) >= _LENGTH_MIN:
            yield form


def _without(text: str, secret: str) -> str:
    if not (secret.isalpha() or secret.isdecimal()):
        return text.replace(secret, MASK)
    # A password that is a plain word must not take half of another word with it.
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", MASK, text)


def _without_private_keys(text: str) -> str:
    if "PRIVATE KEY" not in text:
        return text
    kept = []
    position = 0
    while begin := _KEY_BEGIN.search(text, position):
        end = _KEY_END.search(text, begin.end())
        kept += [_without_tails(text[position : begin.start()]), begin[0], MASK]
        kept += [] if end is None else [end[0]]
        position = len(text) if end is None else end.end()
    return "".join([*kept, _without_tails(text[position:])])


def _without_tails(text: str) -> str:
    """Without the ends of keys whose beginnings were cut off."""
    kept = []
    position = 0
    for end in _KEY_END.finditer(text):
        before = text[position : end.start()].rstrip(_KEY_BODY).removesuffix(MASK)
        kept += [before, MASK, end[0]]
        position = end.end()
    return "".join([*kept, text[position:]])


def _redacted_word(word: str) -> str:
    """A run of characters without blanks, such as a URL, without its secrets."""
    if not MAY_HOLD_URL.search(word):
        return word
    return _masked(word, secret_spans(word))


def _masked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    kept = []
    position = 0
    for start, end in spans:
        kept += [text[position:start], MASK]
        position = end
    return "".join([*kept, text[position:]])
