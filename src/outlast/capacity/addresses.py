"""The addresses in a workload file: where checkpoints, queues and results live. Pure."""

import re
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

OBJECT_SCHEMES = ("gs", "s3", "az")
CHECKPOINT_SCHEMES = (*OBJECT_SCHEMES, "file")
QUEUE_SCHEMES = ("postgresql", "pubsub")
SINK_SCHEMES = ("postgresql", *OBJECT_SCHEMES)


class Bucket(NamedTuple):
    """A bucket and the folder in it, without slashes at its ends."""

    name: str
    folder: str


def check_url(url: str, schemes: tuple[str, ...]) -> str:
    """`url` itself if a Pod can use it, else a `ValueError` that never quotes a password."""
    # Kubernetes replaces $(NAME) in what it hands to a process, so it has no place in an address.
    if re.search(r"[\s\x00-\x20\x7f\"'`\\<>{}|^]|\$\(", url) or not url.isprintable():
        raise ValueError("An address has no spaces, quotes or control characters.")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("This cannot be read as an address.") from None
    known = ", ".join(f"{scheme}://" for scheme in schemes)
    if not parts.scheme or "://" not in url:
        raise ValueError(f"The address has no scheme; it starts with one of {known}.")
    if parts.scheme == "sqlite":
        raise ValueError(f"A SQLite file goes with its node; in a cluster use one of {known}.")
    if parts.scheme not in schemes:
        raise ValueError(f"The address starts with one of {known}.")
    if parts.password is not None:
        raise ValueError("The address holds a password; keep it in a Secret and give its name.")
    _check_place(parts)
    return url


def bucket_of(url: str) -> Bucket:
    parts = urlsplit(url)
    return Bucket(name=parts.netloc, folder=parts.path.strip("/"))


def _check_place(parts: SplitResult) -> None:
    segments = parts.path.split("/")
    if ".." in segments or "." in segments:
        raise ValueError("The address has '.' or '..' as a folder.")
    if parts.scheme == "file":
        if parts.netloc or not re.fullmatch(r"(/[A-Za-z0-9._-]+)+/?", parts.path):
            raise ValueError("A file's address is such as file:///mnt/checkpoints/run.")
    elif not parts.netloc:
        raise ValueError(f"The address names nothing behind {parts.scheme}://.")
    elif parts.scheme in OBJECT_SCHEMES and not re.fullmatch(
        r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", parts.netloc
    ):
        raise ValueError(f"{parts.netloc!r} cannot be the name of a bucket.")
