"""A store in Google Cloud Storage, Amazon S3 or Azure Blob Storage.

Up to `SINGLE_PUT_BYTES_MAX`, an object is written with one conditional request: one writer wins.
No cloud supports such a condition for multipart uploads, so for a larger object, Outlast checks
that it does not exist and then uploads it; two writers of the same large object could both succeed.
Large objects therefore need unique names, as packs have. Either way, an object appears only when it
is complete.

Credentials come from the usual places of each cloud (environment, files, metadata server).
"""

import asyncio
import contextlib
import math
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from outlast._base.logs import get_logger
from outlast.storage.errors import (
    BadURL,
    StorageError,
    StorageTimeout,
    StoreUnavailable,
    TooShort,
)
from outlast.storage.limits import ROUTINE, Countdown, Limits
from outlast.storage.local.sealed_files import SUFFIX
from outlast.storage.objects.background import submit, wait
from outlast.storage.objects.downloads import (
    Download,
    ScatteredMemory,
    nothing_beyond_the_end,
)
from outlast.storage.objects.endpoints import find_endpoint
from outlast.storage.objects.errors import as_storage_error, may_pass
from outlast.storage.objects.retrying import pause, pauses
from outlast.storage.objects.uploads import LargeUploads, put_small
from outlast.storage.protocol import (
    AccessPattern,
    Buffer,
    StoreEntry,
    byte_views,
    check_name,
    folder_of,
    is_name,
    total_bytes,
    writable_views,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

SINGLE_PUT_BYTES_MAX = 64 * 1024**2

ACCESS = AccessPattern(read_bytes=10 * 1024**2, reads_at_once=12, creates_at_once=3)
_WITHIN_SHARE = 0.99
_DELETES_AT_ONCE = 16
_CLIENTS_MAX = 8
# The client signs a request once for all its retries, and a signature soon expires.
_RETRY_SECONDS_MAX = 180.0
_CLIENTS: dict[str, Any] = {"gs": GCSStore, "s3": S3Store, "az": AzureStore}

T = TypeVar("T")

_Call: TypeAlias = Callable[[], Coroutine[Any, Any, T]]
"""Makes a new request each time it is called."""

log = get_logger(__name__)


class ObjectStore:
    """Objects below `scheme://bucket/folder`.

    A killed multipart upload leaves parts that are not listed but cost money: add a lifecycle rule
    to the bucket that aborts incomplete uploads.
    """

    def __init__(self, url: str, *, environ: Mapping[str, str] = os.environ) -> None:
        self._endpoint = find_endpoint(url, environ)
        self._clients: dict[Limits, Any] = {}
        self._large_uploads = LargeUploads()
        self._lock = threading.Lock()
        self.has_worked = False
        """Whether any request has succeeded: then the endpoint and the credentials are valid."""
        # Fail early if the configuration is wrong.
        self._client(ROUTINE)

    @classmethod
    def open(cls, url: str) -> "ObjectStore":
        return cls(url)

    @property
    def url(self) -> str:
        return self._endpoint.url

    @property
    def access(self) -> AccessPattern:
        return ACCESS

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        check_name(name)
        sources = byte_views(parts)
        client = self._client(limits)
        is_small = total_bytes(sources) <= SINGLE_PUT_BYTES_MAX
        put = put_small if is_small else self._large_uploads.put
        self._run(lambda: put(client, name, sources), limits, "write", name)

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        check_name(name)
        client = self._client(limits)
        return self._run(lambda: _get(client, name, start, length), limits, "read", name)

    def read_into(
        self, name: str, *buffers: Buffer, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        check_name(name)
        views = writable_views(buffers)
        if not views:
            client = self._client(limits)
            self._run(lambda: _head(client, name), limits, "read", name)
            return
        self._fill(name, start, views, limits)

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[StoreEntry]:
        folder = folder_of(prefix)
        client = self._client(limits)
        found = self._run(lambda: _list(client, folder), limits, "list")
        self._refuse_sealed(found)
        return sorted(
            (
                StoreEntry(
                    name=meta["path"], size_bytes=meta["size"], modified=meta["last_modified"]
                )
                for meta in found
                if meta["path"].startswith(prefix) and is_name(meta["path"])
            ),
            key=lambda entry: entry.name,
        )

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        wanted = list(names)
        for name in wanted:
            check_name(name)
        client = self._client(limits)
        self._run(lambda: _delete(client, wanted), limits, "delete from")

    def _run(self, call: _Call[T], limits: Limits, doing: str, name: str | None = None) -> T:
        attempts = _Attempts(self, limits, doing, name)
        return attempts.result(call, submit(call()))

    def _fill(self, name: str, start: int, views: Sequence[memoryview], limits: Limits) -> None:
        """Fill the memory with one request after the other. The caller's thread copies."""
        # What arrives is not waited for in the event loop, so the client has to end it in time.
        within = min(limits.request_seconds_max, _WITHIN_SHARE * limits.total_seconds_max)
        client = self._client(replace(limits, request_seconds_max=within))
        attempts = _Attempts(self, limits, "read", name)
        target = ScatteredMemory(views)
        end = start + total_bytes(views)
        for at in range(start, end, ACCESS.read_bytes):
            download = Download(client, name, at, min(ACCESS.read_bytes, end - at))
            while not download.is_complete:
                arriving = attempts.result(download.begin, submit(download.begin()))
                try:
                    for piece in download.pieces(arriving):
                        target.append(piece)
                        attempts.check_time()
                except BaseError as error:
                    attempts.failed(error)
                    continue
                if not download.is_complete:
                    raise TooShort(
                        f"{name!r} in {self.url} ends before the requested bytes.", name=name
                    )

    def _client(self, limits: Limits) -> Any:
        """A client with these limits. Clients are reused, because each has its own connections."""
        limits = _rounded(limits)
        with self._lock:
            if limits not in self._clients:
                while len(self._clients) >= _CLIENTS_MAX:
                    self._clients.pop(next(iter(self._clients)))
                self._clients[limits] = self._new_client(limits)
            return self._clients[limits]

    def _new_client(self, limits: Limits) -> Any:
        endpoint = self._endpoint
        try:
            return _CLIENTS[endpoint.scheme](
                endpoint.bucket,
                prefix=endpoint.prefix or None,
                config=dict(endpoint.config),
                client_options={
                    "allow_http": endpoint.allows_http,
                    "connect_timeout": timedelta(seconds=limits.connect_seconds_max),
                    "timeout": timedelta(seconds=limits.request_seconds_max),
                },
                retry_config={
                    "max_retries": limits.attempts_max - 1,
                    "retry_timeout": timedelta(
                        seconds=min(limits.total_seconds_max, _RETRY_SECONDS_MAX)
                    ),
                },
            )
        except BaseError as error:
            raise as_storage_error(error, "open", self.url) from None
        except ValueError:
            raise BadURL(
                f"The client does not accept {self.url}.",
                hint="Check the bucket name and the endpoint variables.",
            ) from None

    def _refuse_sealed(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Refuse a run that can only be read through a mount, instead of finding nothing."""
        for meta in found:
            if meta["path"].endswith(SUFFIX):
                raise StoreUnavailable(
                    f"{self.url} was written through a mounted folder.",
                    hint="Open it by its path on the mount, as the run that wrote it did.",
                    name=meta["path"],
                )


class _Attempts:
    """One store operation, retried if that may help and the limits allow it.

    The client itself retries after some failures, but not after others, such as a connection that
    breaks during a conditional write or within a response body. If a write took effect but its
    response was lost, the retry finds that the object already exists: see `create_or_confirm`.
    """

    def __init__(self, store: ObjectStore, limits: Limits, doing: str, name: str | None) -> None:
        self._store = store
        self._doing = doing
        self._name = name
        self._pauses = pauses(limits.attempts_max)
        thing = f"{name!r} in {store.url}" if name else store.url
        self._countdown = Countdown(limits, f"Trying to {doing} {thing}")

    def result(self, call: _Call[T], future: "Future[T]") -> T:
        """The result of a call whose first attempt has started."""
        failure: StorageError | None = None
        while True:
            try:
                found = wait(future, self._countdown)
            except (BaseError, FileNotFoundError) as error:
                failure = self.failed(error)
            except StorageTimeout as timeout:
                # The earlier failure explains more than the timeout.
                raise failure or timeout from None
            else:
                self._store.has_worked = True
                return found
            future = submit(call())

    def failed(self, error: BaseException) -> StorageError:
        """Wait until the next attempt. Raises the failure if there is none or it cannot help."""
        # Not chained: the text of the client's error may contain secrets.
        failure = as_storage_error(error, self._doing, self._store.url, self._name)
        if not may_pass(error, has_worked=self._store.has_worked):
            raise failure from None
        self._pause(failure)
        return failure

    def check_time(self) -> None:
        """Raise `StorageTimeout` once the time is up."""
        self._countdown.seconds_left()

    def _pause(self, failure: StorageError) -> None:
        seconds = next(self._pauses, math.inf)
        if not self._countdown.allows(seconds):
            raise failure from None
        log.info("%s Retrying in %.1f s.", failure, seconds)
        pause(seconds)


async def _head(client: Any, name: str) -> None:
    await obstore.head_async(client, name)


async def _get(client: Any, name: str, start: int, length: int | None) -> bytes:
    if length is not None:
        return bytes(await _get_range(client, name, start, length))
    try:
        answer = await obstore.get_async(client, name, options={"range": {"offset": start}})
    except BaseError as error:
        return nothing_beyond_the_end(error)
    return bytes(await answer.bytes_async())


async def _get_range(client: Any, name: str, start: int, length: int) -> Any:
    """The bytes of a range, fewer if the object ends earlier, in memory of the client."""
    if length == 0:
        await _head(client, name)
        return b""
    try:
        return await obstore.get_range_async(client, name, start=start, length=length)
    except BaseError as error:
        return nothing_beyond_the_end(error)


async def _list(client: Any, folder: str) -> list[Any]:
    return list(await obstore.list(client, folder or None).collect_async())


async def _delete(client: Any, names: Sequence[str]) -> None:
    gate = asyncio.Semaphore(_DELETES_AT_ONCE)

    async def delete_one(name: str) -> None:
        async with gate:
            with contextlib.suppress(FileNotFoundError):
                await obstore.delete_async(client, name)

    await asyncio.gather(*(delete_one(name) for name in names))


def _rounded(limits: Limits) -> Limits:
    """Rounded, so that the limits near a deadline share a few clients."""
    request_seconds = limits.request_seconds_max
    if request_seconds < limits.total_seconds_max:
        power = _power_of_two(request_seconds)
        request_seconds = 1.5 * power if request_seconds >= 1.5 * power else power
    else:
        # A request that may take all the time is ended with the operation, not by the client.
        request_seconds = 2 * _power_of_two(request_seconds)
    return Limits(
        connect_seconds_max=_power_of_two(limits.connect_seconds_max),
        request_seconds_max=request_seconds,
        attempts_max=limits.attempts_max,
        total_seconds_max=_power_of_two(limits.total_seconds_max),
    )


def _power_of_two(seconds: float) -> float:
    """The next lower one."""
    return float(2.0 ** math.floor(math.log2(seconds)))
