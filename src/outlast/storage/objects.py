"""A store in Google Cloud Storage, Amazon S3 or Azure Blob Storage.

Up to `SINGLE_PUT_BYTES_MAX`, an object is one conditional request: of all writers, one wins.
No cloud takes such a condition for an upload in parts, so a larger object is checked for and then
uploaded; two writers of the same large object would both be told that they won. Large objects
therefore need names that nobody else uses, as packs have. Both ways, an object appears whole.

Credentials come from where each cloud keeps them (environment, files, metadata server).
"""

import asyncio
import contextlib
import math
import os
import threading
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.storage.background import submit, wait
from outlast.storage.buffers import byte_views, total_bytes, writable_view
from outlast.storage.endpoints import find_endpoint
from outlast.storage.errors import (
    BadURL,
    MissingExtra,
    StoreUnavailable,
    TooShort,
)
from outlast.storage.limits import ROUTINE, Countdown, Limits
from outlast.storage.names import check_name, folder_of, is_name
from outlast.storage.object_errors import as_storage_error, status
from outlast.storage.protocol import Buffer, Entry
from outlast.storage.seal import SUFFIX

if TYPE_CHECKING:
    from concurrent.futures import Future

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import AzureStore, GCSStore, S3Store
except ImportError as error:
    raise MissingExtra("gcs", needed_for="An object store (gs://, s3://, az://)") from error

SINGLE_PUT_BYTES_MAX = 64 * 1024**2

_PART_BYTES_MIN = 16 * 1024**2
_PARTS_MAX = 9000
_PARTS_AT_ONCE = 6
_PIECE_BYTES = 16 * 1024**2
_PIECES_AT_ONCE = 4
_DELETES_AT_ONCE = 16
_CLIENTS_MAX = 8
# The client signs a request once for all its retries, and a signature soon expires.
_RETRY_SECONDS_MAX = 180.0
_CLIENTS: dict[str, Any] = {"gs": GCSStore, "s3": S3Store, "az": AzureStore}

T = TypeVar("T")


class ObjectStore:
    """Objects below `scheme://bucket/folder`. An upload in parts that is killed leaves parts that
    are not listed but cost money: give the bucket a lifecycle rule that ends such uploads.
    """

    def __init__(self, url: str, *, environ: Mapping[str, str] = os.environ) -> None:
        self._endpoint = find_endpoint(url, environ)
        self._clients: dict[Limits, Any] = {}
        self._lock = threading.Lock()
        # A wrong configuration shows here, not in the middle of a run.
        self._client(ROUTINE)

    @classmethod
    def open(cls, url: str) -> "ObjectStore":
        return cls(url)

    @property
    def url(self) -> str:
        return self._endpoint.url

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        check_name(name)
        sources = byte_views(parts)
        client = self._client(limits)
        put = _put_small if total_bytes(sources) <= SINGLE_PUT_BYTES_MAX else _put_large
        self._run(put(client, name, sources), limits, "write", name)

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        check_name(name)
        return self._run(_get(self._client(limits), name, start, length), limits, "read", name)

    def read_into(
        self, name: str, buffer: Buffer, *, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        check_name(name)
        view = writable_view(buffer)
        if not len(view):
            self._run(_head(self._client(limits), name), limits, "read", name)
            return
        countdown = Countdown(limits, f"Trying to read {name!r} in {self.url}")
        for offset, piece in self._pieces(name, start, len(view), limits, countdown):
            # Copied by the caller's own thread: after an error nothing writes here any more.
            view[offset : offset + len(piece)] = piece

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[Entry]:
        folder = folder_of(prefix)
        found = self._run(_list(self._client(limits), folder), limits, "list")
        self._refuse_sealed(found)
        return sorted(
            (
                Entry(name=meta["path"], size_bytes=meta["size"], modified=meta["last_modified"])
                for meta in found
                if meta["path"].startswith(prefix) and is_name(meta["path"])
            ),
            key=lambda entry: entry.name,
        )

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        wanted = list(names)
        for name in wanted:
            check_name(name)
        self._run(_delete(self._client(limits), wanted), limits, "delete from")

    def _run(
        self, call: Coroutine[Any, Any, T], limits: Limits, doing: str, name: str | None = None
    ) -> T:
        thing = f"{name!r} in {self.url}" if name else self.url
        countdown = Countdown(limits, f"Trying to {doing} {thing}")
        with self._translated(doing, name):
            return wait(submit(call), countdown)

    def _pieces(
        self, name: str, start: int, length: int, limits: Limits, countdown: Countdown
    ) -> Iterator[tuple[int, Any]]:
        """The bytes in order, a few pieces under way at a time; each with its offset."""
        client = self._client(limits)
        offsets = iter(range(0, length, _PIECE_BYTES))
        under_way: deque[tuple[int, int, Future[Any]]] = deque()
        try:
            while True:
                for offset in offsets:
                    size = min(_PIECE_BYTES, length - offset)
                    call = _get_range(client, name, start + offset, size)
                    under_way.append((offset, size, submit(call)))
                    if len(under_way) == _PIECES_AT_ONCE:
                        break
                if not under_way:
                    return
                offset, size, future = under_way.popleft()
                yield offset, self._whole_piece(name, size, future, countdown)
        finally:
            for _, _, future in under_way:
                future.cancel()

    def _whole_piece(
        self, name: str, size: int, future: "Future[Any]", countdown: Countdown
    ) -> memoryview:
        with self._translated("read", name):
            piece = memoryview(wait(future, countdown))
        if len(piece) != size:
            raise TooShort(f"{name!r} in {self.url} ends before the bytes asked for.", name=name)
        return piece

    def _client(self, limits: Limits) -> Any:
        """A client with these limits. Clients are kept, because each one connects anew."""
        limits = _rounded(limits)
        with self._lock:
            if limits not in self._clients:
                while len(self._clients) >= _CLIENTS_MAX:
                    self._clients.pop(next(iter(self._clients)))
                self._clients[limits] = self._new_client(limits)
            return self._clients[limits]

    def _new_client(self, limits: Limits) -> Any:
        endpoint = self._endpoint
        with self._translated("open"):
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
            except ValueError:
                raise BadURL(
                    f"{self.url} is not an address that the client takes.",
                    hint="Check the name of the bucket and the variables of the endpoint.",
                ) from None

    @contextlib.contextmanager
    def _translated(self, doing: str, name: str | None = None) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            # Not chained: the text of the client's error may hold secrets.
            raise as_storage_error(error, doing, self.url, name) from None

    def _refuse_sealed(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Say that a run lies here which only a mount shows, rather than that there is none."""
        for meta in found:
            if meta["path"].endswith(SUFFIX):
                raise StoreUnavailable(
                    f"{self.url} was written through a mounted folder.",
                    hint="Open it by the path of the mount, as the run that wrote it did.",
                    name=meta["path"],
                )


async def _put_small(client: Any, name: str, sources: Sequence[memoryview]) -> None:
    # One buffer is sent from where it is; several are joined, which the size bounds.
    body = sources[0] if len(sources) == 1 else b"".join(sources)
    await obstore.put_async(client, name, body, mode="create")


async def _put_large(client: Any, name: str, sources: Sequence[memoryview]) -> None:
    with contextlib.suppress(FileNotFoundError):
        await _head(client, name)
        raise AlreadyExistsError(name)
    part_bytes = max(_PART_BYTES_MIN, math.ceil(total_bytes(sources) / _PARTS_MAX))
    slices = (
        source[offset : offset + part_bytes]
        for source in sources
        for offset in range(0, len(source), part_bytes)
    )
    await obstore.put_async(
        client,
        name,
        slices,
        use_multipart=True,
        chunk_size=part_bytes,
        max_concurrency=_PARTS_AT_ONCE,
    )


async def _head(client: Any, name: str) -> None:
    await obstore.head_async(client, name)


async def _get(client: Any, name: str, start: int, length: int | None) -> bytes:
    if length is not None:
        return bytes(await _get_range(client, name, start, length))
    try:
        answer = await obstore.get_async(client, name, options={"range": {"offset": start}})
    except BaseError as error:
        return _nothing_beyond_the_end(error)
    return bytes(await answer.bytes_async())


async def _get_range(client: Any, name: str, start: int, length: int) -> Any:
    """The bytes of a range, fewer where the object ends, in memory of the client."""
    if length == 0:
        await _head(client, name)
        return b""
    try:
        return await obstore.get_range_async(client, name, start=start, length=length)
    except BaseError as error:
        return _nothing_beyond_the_end(error)


def _nothing_beyond_the_end(error: BaseError) -> bytes:
    """No bytes, if the range begins where the object ends, or later; otherwise the error."""
    if status(str(error)) != 416:
        raise error
    return b""


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
    """Down to powers of two, so that the many limits near a deadline share a few clients."""
    return Limits(
        connect_seconds_max=_power_of_two(limits.connect_seconds_max),
        request_seconds_max=_power_of_two(limits.request_seconds_max),
        attempts_max=limits.attempts_max,
        total_seconds_max=_power_of_two(limits.total_seconds_max),
    )


def _power_of_two(seconds: float) -> float:
    return float(2.0 ** math.floor(math.log2(seconds)))
