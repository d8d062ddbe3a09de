"""Open a store by its address. A backend is imported only when its scheme is used."""

import os
from importlib import import_module
from typing import Protocol
from urllib.parse import urlsplit

from outlast.storage.errors import BadURL
from outlast.storage.protocol import Store

_BACKENDS = {
    "file": "outlast.storage.local:LocalStore",
    "memory": "outlast.storage.memory:MemoryStore",
    "gs": "outlast.storage.objects:ObjectStore",
    "s3": "outlast.storage.objects:ObjectStore",
    "az": "outlast.storage.objects:ObjectStore",
}


def open_store(url: str | os.PathLike[str]) -> Store:
    """The store at a folder, or at an address such as `gs://bucket/folder`.

    Nothing is written or asked yet. Raises `BadURL`, or `MissingExtra` if the scheme needs a
    package that is not installed.
    """
    text = os.fspath(url)
    if not text:
        raise BadURL("The address of the store is empty.", hint="Give a folder or a URL.")
    if isinstance(url, os.PathLike) or "://" not in text:
        return _backend("file").open(text)
    return _backend(urlsplit(text).scheme).open(text)


class _Backend(Protocol):
    def open(self, url: str) -> Store: ...


def _backend(scheme: str) -> _Backend:
    try:
        module, _, name = _BACKENDS[scheme].partition(":")
    except KeyError:
        known = ", ".join(f"{known}://" for known in _BACKENDS)
        raise BadURL(
            f"No store has the scheme {scheme!r}.", hint=f"Use a folder, or one of: {known}"
        ) from None
    backend: _Backend = getattr(import_module(module), name)
    return backend
