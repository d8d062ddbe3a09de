"""Warns when a bucket is far from the machine, because then each save is slow and costs money.

Advice only: it is sought in a thread of its own, each question is asked once and briefly, and
whatever stays unanswered stays unsaid. The machine's access token is sent to Cloud Storage over
TLS, or to an emulator on this machine; it is kept nowhere and never logged. Writes nothing, so a
kill leaves nothing behind.
"""

import contextlib
import json
import logging
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from outlast._base.regions import DUAL_REGIONS, MULTI_REGIONS
from outlast.storage.endpoints import find_endpoint, is_loopback

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

log = logging.getLogger(__name__)

_GOOGLE = "https://storage.googleapis.com"
_ZONE = "instance/zone"
_TOKEN = "instance/service-accounts/default/token"

_ANSWER_SECONDS_MAX = 5.0
_BODY_BYTES_MAX = 16 * 1024

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_REGION_NAME = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_ZONE_PATH = re.compile(rf"projects/[^/\s]+/zones/({_REGION_NAME.pattern})-[a-z0-9]+")
_TOKEN_TEXT = re.compile(r"[A-Za-z0-9._~+/-]+=*")

# Buckets that were asked about: a program with many runs is told once. Two threads that come here
# at the same moment may both ask, which costs a second warning and no more.
_asked: set[str] = set()


def warn_if_far(
    url: str, *, metadata_host: str | None, environ: Mapping[str, str] = os.environ
) -> threading.Thread | None:
    """Log one warning if the bucket of a `gs://` URL is in another region than this machine.

    Returns at once with the daemon thread that finds out, which nobody needs to wait for; or None
    if there is nothing to find out: another kind of URL, no metadata server, a bucket that was
    asked about before. Never raises.
    """
    if metadata_host is None or not url.lower().startswith("gs://"):
        return None
    try:
        bucket = _bucket_of(url, environ)
        if bucket.name in _asked:
            return None
        _asked.add(bucket.name)
        _load_http()
        thread = threading.Thread(
            target=_find_out, args=(bucket, metadata_host), name="outlast-region", daemon=True
        )
        thread.start()
    except Exception as error:
        # No thread, no TLS, an address that is refused elsewhere: the run matters more than advice.
        log.debug("The bucket's region is not compared: %s", _safe_words(error))
        return None
    return thread


def far_apart(location: str, region: str) -> bool:
    """Whether a bucket in `location` has no copy near `region`. False if either is not known."""
    place, region = location.lower(), region.lower()
    if not _REGION_NAME.fullmatch(region):
        return False
    if place in MULTI_REGIONS:
        return not region.startswith(MULTI_REGIONS[place])
    if place in DUAL_REGIONS:
        return region not in DUAL_REGIONS[place]
    return _REGION_NAME.fullmatch(place) is not None and place != region


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bucket:
    """A bucket and the server that knows it. Its name is fit for a URL and a log."""

    name: str
    host: str
    port: int
    folder: str
    is_encrypted: bool

    def __post_init__(self) -> None:
        if not _BUCKET_NAME.fullmatch(self.name):
            raise _NoAnswer("the bucket has no valid name")


class _NoAnswer(Exception):
    """A question stays open. The words are ours, never a server's."""


def _bucket_of(url: str, environ: Mapping[str, str]) -> _Bucket:
    endpoint = find_endpoint(url, environ)
    server = endpoint.config.get("base_url", _GOOGLE)
    if server != _GOOGLE and not is_loopback(server):
        raise _NoAnswer("the server is neither Google's nor on this machine")
    split = urlsplit(server)
    is_encrypted = split.scheme == "https"
    return _Bucket(
        name=endpoint.bucket,
        host=split.hostname or "",
        port=split.port or (443 if is_encrypted else 80),
        folder=split.path.rstrip("/"),
        is_encrypted=is_encrypted,
    )


def _load_http() -> None:
    """Import what the thread needs, in the caller's thread and only for those who need it.

    If the program forks while another thread imports a module, that module's lock stays locked in
    the child for ever, and a worker that imports it too hangs.
    """
    for module in ("encodings.idna", "http.client", "ssl"):
        import_module(module)


def _find_out(bucket: _Bucket, metadata_host: str) -> None:
    try:
        region = _region(metadata_host)
        location = _location(bucket, _token(metadata_host))
        is_far = far_apart(location, region)
    except Exception as error:
        # Without a traceback and in our own words: a server's could repeat the token.
        log.debug("The region of %s is not compared: %s", bucket.name, _safe_words(error))
        return
    if is_far:
        log.warning(
            _advice(bucket.name, location, region),
            extra={"bucket": bucket.name, "bucket_location": location, "machine_region": region},
        )


def _region(metadata_host: str) -> str:
    match = _ZONE_PATH.fullmatch(_metadata(metadata_host, _ZONE).decode().strip())
    if match is None:
        raise _NoAnswer("the machine's zone is not understood")
    return match[1]


def _token(metadata_host: str) -> str:
    answer = json.loads(_metadata(metadata_host, _TOKEN))
    token = answer.get("access_token") if isinstance(answer, dict) else None
    # Checked here, because an error of the HTTP client would quote it.
    if not isinstance(token, str) or not _TOKEN_TEXT.fullmatch(token):
        raise _NoAnswer("the machine has no access token")
    return token


def _location(bucket: _Bucket, token: str) -> str:
    answer = json.loads(
        _get(
            _connection(bucket),
            # Unlike the bucket itself, its layout may be read by whoever may list its objects.
            f"{bucket.folder}/storage/v1/b/{bucket.name}/storageLayout",
            {"Authorization": f"Bearer {token}"},
        )
    )
    location = answer.get("location") if isinstance(answer, dict) else None
    if not isinstance(location, str):
        raise _NoAnswer("the bucket's location is not understood")
    return location


def _metadata(host: str, path: str) -> bytes:
    from http.client import HTTPConnection

    connection = HTTPConnection(host, timeout=_ANSWER_SECONDS_MAX)
    google = {"Metadata-Flavor": "Google"}
    return _get(connection, f"/computeMetadata/v1/{path}", google, expects=google)


def _connection(bucket: _Bucket) -> "HTTPConnection":
    import ssl
    from http.client import HTTPConnection, HTTPSConnection

    if not bucket.is_encrypted:
        return HTTPConnection(bucket.host, bucket.port, timeout=_ANSWER_SECONDS_MAX)
    # Named, because programs replace the default by one that checks no certificates.
    context = ssl.create_default_context()
    return HTTPSConnection(bucket.host, bucket.port, timeout=_ANSWER_SECONDS_MAX, context=context)


def _get(
    connection: "HTTPConnection",
    path: str,
    headers: Mapping[str, str],
    *,
    expects: Mapping[str, str] | None = None,
) -> bytes:
    """The body of a plain 200. Neither redirects nor proxies are followed: they are not asked."""
    # A program that debugs HTTP prints every header.
    connection.set_debuglevel(0)
    try:
        connection.connect()
        with _cut_off_late(connection.sock):
            connection.request("GET", path, headers=dict(headers))
            return _body(connection.getresponse(), expects or {})
    finally:
        connection.close()


@contextlib.contextmanager
def _cut_off_late(sock: socket.socket) -> Iterator[None]:
    """End the connection after a while: its own timeout starts anew with each byte that drips."""

    def cut() -> None:
        with contextlib.suppress(OSError):
            # Not the method of a TLS socket, which for a moment would let plain text through.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    alarm = threading.Timer(_ANSWER_SECONDS_MAX, cut)
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def _body(response: "HTTPResponse", expects: Mapping[str, str]) -> bytes:
    if response.status != 200:
        raise _NoAnswer(f"status {response.status}")
    if any(response.getheader(name) != value for name, value in expects.items()):
        raise _NoAnswer("the answer is not a metadata server's")
    body = response.read(_BODY_BYTES_MAX + 1)
    if len(body) > _BODY_BYTES_MAX:
        raise _NoAnswer("the answer is too long")
    return body


def _advice(bucket: str, location: str, region: str) -> str:
    return (
        f"The bucket {bucket} is in {_place(location)}, this machine is in {region}: every save "
        "and every resume crosses regions, which is slower and billed per GiB. Keep the "
        "checkpoints in the machine's region, for example in a bucket made by `gcloud storage "
        f"buckets create gs://NAME --location={region}`."
    )


def _place(location: str) -> str:
    place = location.lower()
    if place in MULTI_REGIONS:
        return f"the multi-region {location}"
    if place in DUAL_REGIONS:
        return f"{location} ({' and '.join(DUAL_REGIONS[place])})"
    return place


def _safe_words(error: Exception) -> str:
    return str(error) if isinstance(error, _NoAnswer) else type(error).__name__
