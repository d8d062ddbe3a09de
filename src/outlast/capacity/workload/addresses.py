"""Check the URLs in a workload file: checkpoints, queues and results. Pure."""

import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from outlast._base.google_cloud import is_project, is_topic_or_subscription
from outlast._redact import shows_secret

OBJECT_SCHEMES = ("gs", "s3", "az")
CHECKPOINT_SCHEMES = (*OBJECT_SCHEMES, "file")
QUEUE_SCHEMES = ("postgresql", "pubsub")
SINK_SCHEMES = ("postgresql", *OBJECT_SCHEMES)


_NO_SECRET = "The URL contains a secret, which does not belong in a manifest. "
_INSTEAD = {
    True: "Store the complete URL in a Kubernetes Secret and reference it: {secret: NAME/KEY}. "
    "The Pod then reads it through a secretKeyRef.",
    False: "Grant access to the Pod's service account instead.",
}


class Bucket(NamedTuple):
    """A bucket and a folder in it, without leading or trailing slashes."""

    name: str
    folder: str


def check_url(url: str, schemes: tuple[str, ...]) -> str:
    """Return `url` if a Pod can use it, else raise a `ValueError` that never quotes a password."""
    # Kubernetes expands $(NAME) in what it passes to a process, so a URL must not contain it.
    if re.search(r"[\s\x00-\x20\x7f\"'`\\<>{}|^]|\$\(", url) or not url.isprintable():
        raise ValueError("A URL must not contain spaces, quotes, control characters or $(...).")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        _refuse_secret(url if "@" in url else "")
        raise ValueError("Invalid URL.") from None
    _refuse_secret(url)
    known = ", ".join(f"{scheme}://" for scheme in schemes)
    if not parts.scheme or "://" not in url:
        raise ValueError(f"The URL has no scheme. Expected one of {known}.")
    if parts.scheme == "sqlite":
        raise ValueError(f"A SQLite file is lost with its node. In a cluster, use one of {known}.")
    if parts.scheme not in schemes:
        raise ValueError(f"Expected a URL that starts with one of {known}.")
    _check_place(parts)
    if parts.scheme == "pubsub":
        _check_pubsub(parts)
    return url


def _refuse_secret(url: str) -> None:
    if shows_secret(url):
        raise ValueError(_NO_SECRET + _INSTEAD[url.startswith(QUEUE_SCHEMES)]) from None


def bucket_of(url: str) -> Bucket:
    parts = urlsplit(url)
    return Bucket(name=parts.netloc, folder=parts.path.strip("/"))


def _check_pubsub(parts: SplitResult) -> None:
    topic = parts.path.removeprefix("/")
    options = parse_qsl(parts.query, keep_blank_values=True)
    if not is_project(parts.netloc):
        raise ValueError(f"{parts.netloc!r} is not a valid Google Cloud project ID.")
    if parts.fragment or {name for name, _ in options} - {"subscription", "ledger"}:
        raise ValueError("A Pub/Sub URL accepts only ?subscription=NAME and &ledger=URL.")
    for name in (topic, *(value for option, value in options if option == "subscription")):
        if not is_topic_or_subscription(name):
            raise ValueError(f"{name!r} is not a valid name for a Pub/Sub topic or subscription.")


def _check_place(parts: SplitResult) -> None:
    segments = parts.path.split("/")
    if ".." in segments or "." in segments:
        raise ValueError("The URL contains '.' or '..' as a folder.")
    if parts.scheme == "file":
        if parts.netloc or not re.fullmatch(r"(/[A-Za-z0-9._-]+)+/?", parts.path):
            raise ValueError("Expected a file URL such as file:///mnt/checkpoints/run.")
    elif not parts.netloc:
        raise ValueError(f"The URL has nothing after {parts.scheme}://.")
    elif parts.scheme in OBJECT_SCHEMES and not re.fullmatch(
        r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", parts.netloc
    ):
        raise ValueError(f"{parts.netloc!r} is not a valid bucket name.")
