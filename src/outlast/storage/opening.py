"""Open a store by its URL. A backend is imported only when its scheme is used."""

import os
from importlib import import_module
from typing import Protocol
from urllib.parse import urlsplit

from outlast._redact import redact, remember, shows_secret
from outlast.errors import MissingExtra
from outlast.storage.errors import BadURL
from outlast.storage.protocol import Store

_BACKENDS = {
    "file": "outlast.storage.local.store:LocalStore",
    "memory": "outlast.storage.memory:MemoryStore",
    "gs": "outlast.storage.objects.store:ObjectStore",
    "s3": "outlast.storage.objects.store:ObjectStore",
    "az": "outlast.storage.objects.store:ObjectStore",
}

_EXTRAS = {"gs": "gcs", "s3": "s3", "az": "azure"}


def open_store(url: str | os.PathLike[str]) -> Store:
    """Open the store in a folder, or at a URL such as `gs://bucket/folder`.

    Nothing is written or requested yet. Raises `BadURL`, or `MissingExtra` if the scheme needs a
    package that is not installed.
    """
    text = os.fspath(url)
    if not text:
        raise BadURL("The store URL is empty.", hint="Use a folder or a URL.")
    _refuse_misread_path(text)
    if isinstance(url, os.PathLike):
        return _backend("file").open(text)
    if shows_secret(text):
        remember(text)
        raise BadURL(
            f"The store URL {redact(text)!r} contains a secret, which is not supported.",
            hint="Use a folder, or a URL such as gs://bucket/folder, and pass credentials in the "
            "environment.",
        )
    if "://" not in text:
        return _backend("file").open(text)
    return _backend(_scheme(text)).open(text)


def _refuse_misread_path(text: str) -> None:
    """Refuse what would become a folder on the local disk, but was surely not meant as one."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() in _BACKENDS and not rest.startswith("//"):
        raise BadURL(
            f"{text!r} would be a local folder, because '//' is missing after '{scheme}:'.",
            hint=f"Write '{scheme}://{rest.lstrip('/')}', as a string: a Path removes a slash. "
            "For a folder with this name, use its absolute path.",
        )
    if text == "~" or text.startswith("~/"):
        raise BadURL(
            f"{text!r} would be a folder named '~', because only a shell expands it.",
            hint="Write the full path, or use os.path.expanduser.",
        )


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        raise BadURL(f"The store URL {url!r} is invalid.", hint="Check its brackets.") from None


class _Backend(Protocol):
    def open(self, url: str) -> Store: ...


def _backend(scheme: str) -> _Backend:
    try:
        module, _, name = _BACKENDS[scheme].partition(":")
    except KeyError:
        known = ", ".join(f"{known}://" for known in _BACKENDS)
        raise BadURL(
            f"Unknown store scheme {scheme!r}.", hint=f"Use a folder, or one of: {known}"
        ) from None
    try:
        backend: _Backend = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name == "obstore":
            raise MissingExtra(_EXTRAS[scheme], needed_for=f"Storage at {scheme}://") from error
        raise
    return backend
