"""The URL of a PostgreSQL database, and how it is shown. Pure.

libpq judges the URL; here it is only taken apart where a secret might show. No message of this
module holds any part of the URL but its scheme.
"""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

# What libpq takes as a secret in the query of a URL.
_SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key"})
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class Address(NamedTuple):
    """Where a database is: for libpq, for people, and the table that its fragment names."""

    given: str
    shown: str
    table: str
    secrets: tuple[str, ...]


def parse_address(url: str) -> Address:
    """Take a URL apart. Raises `ValueError` with a sentence that can be shown to anybody."""
    given, _, fragment = url.partition("#")
    try:
        split = urlsplit(given)
        query = parse_qsl(split.query, keep_blank_values=True)
    except ValueError:
        raise ValueError("The URL of the PostgreSQL database cannot be read.") from None
    if fragment and not _TABLE.fullmatch(fragment):
        raise ValueError("What follows '#' in the URL of the database is not the name of a table.")
    access, at, hosts = split.netloc.rpartition("@")
    user, _, password = access.partition(":")
    shown_query = urlencode([(name, value) for name, value in query if name not in _SECRETS])
    shown = f"postgresql://{user}{at}{hosts}{split.path}" + (shown_query and f"?{shown_query}")
    secrets = {password, *(value for name, value in query if name in _SECRETS)} - {""}
    return Address(
        given=given,
        shown=shown + (fragment and f"#{fragment}"),
        table=fragment,
        secrets=tuple({secret for one in secrets for secret in (one, unquote(one))}),
    )
