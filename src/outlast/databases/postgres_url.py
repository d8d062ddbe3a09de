"""Parse the URL of a PostgreSQL database and show it without secrets. Pure.

libpq validates the URL; this module only finds the parts that may be secret. A URL is refused if it
is ambiguous, because part of a password could look like a host. No error message here quotes any
part of the URL except its scheme.
"""

import ipaddress
import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from outlast._redact import is_secret_name, redact_all, secrets_in

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
# One host or several, each with its port: a name, an IPv6 address, the escaped path of a socket.
_HOST = r"(?:\[[0-9A-Fa-f:.]+(?:%25[\w.~-]+)?\]|[\w.~%-]*)(?::[0-9]{0,5})?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")


class PostgresAddress(NamedTuple):
    """The URL for libpq, the URL to show to people, and the table named in its fragment."""

    given: str
    shown: str
    table: str
    secrets: tuple[str, ...]


def parse_address(url: str) -> PostgresAddress:
    """Parse a URL. Raises `ValueError` with a message that contains no secret."""
    given, _, fragment = url.partition("#")
    try:
        split = urlsplit(given)
        query = parse_qsl(split.query, keep_blank_values=True)
    except ValueError:
        raise ValueError("The PostgreSQL URL could not be parsed.") from None
    if fragment and not _TABLE.fullmatch(fragment):
        raise ValueError("The part after '#' in the PostgreSQL URL is not a valid table name.")
    access, at, hosts = split.netloc.rpartition("@")
    is_ambiguous = "@" in access or "@" in split.path or any("@" in name for name, _ in query)
    if is_ambiguous or re.search(r"\s", given) or not _HOSTS.fullmatch(hosts):
        raise ValueError(
            "The PostgreSQL URL is ambiguous: its user, password or host contains characters that "
            "must be percent-encoded."
        )
    user, _, password = access.partition(":")
    shown_query = urlencode([(name, value) for name, value in query if not is_secret_name(name)])
    shown = f"postgresql://{user}{at}{hosts}{split.path}" + (shown_query and f"?{shown_query}")
    secrets = {password, *(value for name, value in query if is_secret_name(name))} - {""}
    return PostgresAddress(
        given=given,
        shown=redact_all(shown, ()) + (fragment and f"#{fragment}"),
        table=fragment,
        secrets=tuple(
            {secret for one in secrets for secret in (one, unquote(one))} | secrets_in(given)
        ),
    )


def is_local(parameters: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    """Whether libpq would reach these hosts without a network: by a socket, or on this machine.

    `parameters` are libpq's. It reads missing ones from its environment variables.
    An address takes precedence over the host name in the same position.
    """
    if parameters.get("service") or environ.get("PGSERVICE"):
        return False
    names = parameters.get("host") or environ.get("PGHOST") or ""
    addresses = parameters.get("hostaddr") or environ.get("PGHOSTADDR") or ""
    pairs = zip_longest(str(addresses).split(","), str(names).split(","), fillvalue="")
    hosts = [address or name for address, name in pairs]
    return all(not host or host.startswith(("/", "@")) or _is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
