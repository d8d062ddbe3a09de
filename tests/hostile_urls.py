"""URLs with a secret in them, most of them broken in a way that people break them."""

from collections.abc import Iterator
from typing import NamedTuple

SECRET = "Zq7xW9kPv3LmT2"
"""Whatever is printed, logged or written, this must not be in it."""

_SCHEMES = (
    *("postgresql", "postgres", "sqlite", "pubsub", "gs", "s3", "az", "file", "memory"),
    *("https", "redis", "nosuch", "POSTGRESQL"),
)
_SHAPES = {
    "plain": "{}://u:{x}@127.0.0.1:1/db",
    "slash in the password": "{}://u:{x}/x@127.0.0.1:1/db",
    "slash before the secret": "{}://u:p/{x}@127.0.0.1:1/db",
    "two ats": "{}://u:p@{x}@127.0.0.1:1/db",
    "three ats": "{}://u@p@{x}@127.0.0.1:1/db",
    "one slash": "{}:/u:{x}@127.0.0.1:1/db",
    "no slash": "{}:u:{x}@127.0.0.1:1/db",
    "three slashes": "{}:///u:{x}@127.0.0.1:1/db",
    "backslashes": "{}:\\\\u:{x}@127.0.0.1/db",
    "no colon after the scheme": "{}//u:{x}@127.0.0.1/db",
    "no user": "{}://:{x}@127.0.0.1:1/db",
    "no host": "{}://u:{x}",
    "no host but a path": "{}://u:{x}/db",
    "hash": "{}://u:p#{x}@127.0.0.1:1/db",
    "question mark": "{}://u:p?{x}@127.0.0.1:1/db",
    "lone percent": "{}://u:p%{x}@127.0.0.1:1/db",
    "blank": "{}://u:p {x}@127.0.0.1:1/db",
    "newline": "{}://u:{x}\n@127.0.0.1:1/db",
    "half an address": "{}://u:{x}@[::1/db",
    "port that is a word": "{}://u:{x}@127.0.0.1:port/db",
    "port too large": "{}://u:{x}@127.0.0.1:99999999/db",
    "escaped colon": "{}://u%3A{x}@127.0.0.1:1/db",
    "escaped at": "{}://u:{x}%40127.0.0.1/db",
    "escaped twice": "{}://u%253A{x}%2540127.0.0.1/db",
    "accent": "{}://\u00fc:\u00e9{x}@127.0.0.1:1/db",
    "quotes": "{}://u:'{x}\"@127.0.0.1:1/db",
    "parameter": "{}://127.0.0.1:1/db?password={x}",
    "parameter in the middle": "{}://127.0.0.1:1/db?user=u&password={x}&connect_timeout=1",
    "parameter in capitals": "{}://127.0.0.1:1/db?PASSWORD={x}",
    "escaped parameter": "{}://127.0.0.1:1/db?p%61ssword={x}",
    "token": "{}://project-1/topic?token={x}",
    "api key": "{}:///jobs.db?api_key={x}",
    "signature": "{}://bucket/folder?X-Amz-Signature={x}",
    "fragment": "{}://127.0.0.1:1/db#password={x}",
    "ampersand in a parameter": "{}://127.0.0.1:1/db?password=p&{x}",
}
_WITHOUT_SCHEME = {
    "no scheme": "u:{x}@127.0.0.1/db",
    "only slashes": "//u:{x}@127.0.0.1/db",
    "connection string": "host=127.0.0.1 port=1 user=u password={x}",
}


class Hostile(NamedTuple):
    name: str
    url: str


def hostile_urls(*schemes: str) -> Iterator[Hostile]:
    for scheme in schemes or _SCHEMES:
        for name, shape in _SHAPES.items():
            yield Hostile(f"{scheme}, {name}", shape.format(scheme, x=SECRET))
    for name, shape in _WITHOUT_SCHEME.items():
        yield Hostile(name, shape.format(x=SECRET))
