"""Find the secrets in a URL, however malformed it is. Pure."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, unquote_plus

from outlast._redact.assignments import named_spans
from outlast._redact.names import MASK, is_placeholder, is_secret_name

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,40}:[/\\]+|//")
# Starts with a set of characters, because that is what `re` searches for quickly.
MAY_HOLD_URL = re.compile(r"[@%:?&#;](?:(?<=@)|(?<=%)(?:25)*40|(?<=:)//|(?<=[?&#;])[^=\s]{1,100}=)")
"""Matches in each word with a URL or with something in the form of one."""

_AT = re.compile(r"@(?!sha256:)|%(?:25)*40", re.IGNORECASE)
# An escaped @ does not end the user: some servers expect user@server there.
_AFTER_USER = re.compile(r"[:@;,|!]|%(?:25)*3a", re.IGNORECASE)
_COLON = re.compile(r":(?![/\\])|%(?:25)*3a", re.IGNORECASE)
_AFTER_HOST = re.compile(r"://(?!\[)[^/\\?#:@%]*(?::|%(?:25)*3a)(?P<port>[^/\\?#]*)", re.IGNORECASE)
_PORTS = re.compile(r"[0-9]*(?:,[\w.\-]+:[0-9]+)*[\"'`.,;:)\]}>]*")
# A Google project with its domain in front.
_OLD_PROJECT = re.compile(r"pubsub://[a-z0-9-]+(?:\.[a-z0-9-]+)+:[a-z][a-z0-9-]{4,28}[a-z0-9]/")
_PARAMETER = re.compile(r"[?&#;](?P<name>[^=&?#;\s]{1,100})=")
_TRAILING = "\"'`,;)]}>."


def secret_spans(url: str) -> list[tuple[int, int]]:
    """Where the secrets are in a URL, in order and without overlap."""
    spans = [
        (start, end)
        for start, end in (*_access_span(url), *_parameter_spans(url))
        if start < end and url[start:end] != MASK and not is_placeholder(url[start:end])
    ]
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _access_span(url: str) -> Iterable[tuple[int, int]]:
    """The password before the last @, or, without one, where a password was meant to be."""
    last = None
    for last in _AT.finditer(url):  # noqa: B007 - only the last one counts
        pass
    if last is None:
        return _span_without_at(url)
    scheme = SCHEME.search(url, 0, last.start())
    if scheme is None:
        colon = _COLON.search(url, 0, last.start())
        return [] if colon is None else [(colon.end(), last.start())]
    separator = _AFTER_USER.search(url, scheme.end(), last.start())
    if separator is not None:
        return [(separator.end(), last.start())]
    authority = url[scheme.end() : last.start()]
    is_http = scheme[0].lower().startswith(("http", "git+http"))
    if is_http and not any(sign in authority for sign in "/?#"):
        # Git hosts accept a token as the user.
        return [(scheme.end(), last.start())]
    return []


def _span_without_at(url: str) -> Iterable[tuple[int, int]]:
    found = _AFTER_HOST.search(url)
    if found is None or _PORTS.fullmatch(found["port"]) or _OLD_PROJECT.match(url):
        return []
    return [(found.start("port"), len(url.rstrip(_TRAILING)))] if found["port"] else []


def _parameter_spans(url: str) -> Iterator[tuple[int, int]]:
    """The values of secret parameters, up to the next parameter."""
    found = list(_PARAMETER.finditer(url))
    ends = [*(one.start() for one in found[1:]), len(url.rstrip(_TRAILING))]
    for one, end in zip(found, ends, strict=False):
        name = unquote(unquote(one["name"]))
        is_secret = name.lower() in ("key", "sig", "pass", "auth") or is_secret_name(name)
        if is_secret or _holds_assignment(url[one.end() : end]):
            yield one.end(), max(end, one.end())


def _holds_assignment(value: str) -> bool:
    """Whether an escaped value assigns a secret, as in `options=-c%20password%3D...`."""
    if "%" not in value:
        return False
    return next(named_spans(unquote(unquote_plus(value))), None) is not None
