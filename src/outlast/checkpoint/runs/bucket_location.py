"""Warn if a bucket is in another region than the machine: then saves are slow and cost money.

Advice only. It runs in its own thread, asks each server once with a short timeout, and gives up
silently without an answer. The machine's access token is sent to Cloud Storage over TLS, or to an
emulator on this machine; it is never stored or logged. Writes nothing, so a kill leaves nothing.
"""

import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from outlast._base.google_cloud import DUAL_REGIONS, MULTI_REGIONS
from outlast._base.logs import get_logger
from outlast.storage.objects.endpoints import find_endpoint, is_loopback

if TYPE_CHECKING:
    from http.client import HTTPConnection

log = get_logger(__name__)

_GOOGLE = "https://storage.googleapis.com"
_ZONE = "instance/zone"
_TOKEN = "instance/service-accounts/default/token"

_ANSWER_SECONDS_MAX = 5.0
_BODY_BYTES_MAX = 16 * 1024

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_REGION_NAME = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_ZONE_PATH = re.compile(rf"projects/[^/\s]+/zones/({_REGION_NAME.pattern})-[a-z0-9]+")
_TOKEN_TEXT = re.compile(r"[A-Za-z0-9._~+/-]+=*")

# Buckets that were checked: a program with many runs is warned once. Two threads may check at the
# same moment, which only leads to a second warning.
_asked: set[str] = set()


def warn_if_far(
    url: str, *, metadata_host: str | None, environ: Mapping[str, str] = os.environ
) -> threading.Thread | None:
    """Log one warning if the bucket of a `gs://` URL is in another region than this machine.

    Returns at once, with the daemon thread that checks, which need not be waited for; or None if
    there is nothing to check: another kind of URL, no metadata server, or a bucket that was checked
    before. Never raises.
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
        # No thread, no TLS, an invalid address: the run matters more than advice.
        log.debug("Could not compare the region of the bucket: %s", _safe_words(error))
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
    """A bucket and its server. The name is safe in URLs and logs."""

    name: str
    host: str
    port: int
    folder: str
    is_encrypted: bool

    def __post_init__(self) -> None:
        if not _BUCKET_NAME.fullmatch(self.name):
            raise _NoAnswer("the bucket name is invalid")


class _NoAnswer(Exception):
    """A question was not answered. The text is ours, never a server's."""


def _bucket_of(url: str, environ: Mapping[str, str]) -> _Bucket:
    endpoint = find_endpoint(url, environ)
    server = endpoint.config.get("base_url", _GOOGLE)
    if server != _GOOGLE and not is_loopback(server):
        raise _NoAnswer("the server is neither Google's nor local")
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
    """Import what the thread needs, in the caller's thread and only if it is needed.

    If the program forks while another thread imports a module, the lock of that module is never
    released in the child, and a worker that imports it too hangs.
    """
    for module in ("encodings.idna", "outlast._base.http", "ssl"):
        import_module(module)


def _find_out(bucket: _Bucket, metadata_host: str) -> None:
    try:
        region = _region(metadata_host)
        location = _location(bucket, _token(metadata_host))
        is_far = far_apart(location, region)
    except Exception as error:
        # Without a traceback or the text of a server, which could repeat the token.
        log.debug("Could not compare the region of %s: %s", bucket.name, _safe_words(error))
        return
    if is_far:
        log.warning(
            _advice(bucket.name, location, region),
            extra={"bucket": bucket.name, "bucket_location": location, "machine_region": region},
        )


def _region(metadata_host: str) -> str:
    match = _ZONE_PATH.fullmatch(_metadata(metadata_host, _ZONE).decode().strip())
    if match is None:
        raise _NoAnswer("the zone of the machine is malformed")
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
        raise _NoAnswer("the location of the bucket is malformed")
    return location


def _metadata(host: str, path: str) -> bytes:
    from outlast._base.http import connection_to

    google = {"Metadata-Flavor": "Google"}
    return _get(connection_to(host), f"/computeMetadata/v1/{path}", google, expects=google)


def _connection(bucket: _Bucket) -> "HTTPConnection":
    import ssl

    from outlast._base.http import connection_to

    tls = ssl.create_default_context() if bucket.is_encrypted else None
    return connection_to(bucket.host, bucket.port, tls=tls)


def _get(
    connection: "HTTPConnection",
    path: str,
    headers: Mapping[str, str],
    *,
    expects: Mapping[str, str] | None = None,
) -> bytes:
    """The body of a response with status 200."""
    from outlast._base.http import get

    response = get(
        connection,
        path,
        headers,
        silence_seconds_max=_ANSWER_SECONDS_MAX,
        total_seconds_max=_ANSWER_SECONDS_MAX,
        body_bytes_max=_BODY_BYTES_MAX,
    )
    if response.status != 200:
        raise _NoAnswer(f"status {response.status}")
    if any(response.headers[name] != value for name, value in (expects or {}).items()):
        raise _NoAnswer("the response is not from a metadata server")
    return response.body


def _advice(bucket: str, location: str, region: str) -> str:
    return (
        f"The bucket {bucket} is in {_place(location)}, but this machine is in {region}. Every "
        "save and resume crosses regions, which is slower and billed per GiB. Keep checkpoints in "
        "the region of the machine, for example in a bucket created with `gcloud storage buckets "
        f"create gs://NAME --location={region}`."
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
