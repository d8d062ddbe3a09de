"""Write objects: a small one with one request, a large one in parts, several at once."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError

from outlast.storage.protocol import total_bytes

# A server gives each connection a share of its speed, so many are used. What is under way is
# bounded, because on a slow network each part must arrive within the time limit of a request.
PART_BYTES_MIN = 8 * 1024**2
PARTS_AT_ONCE = 12
# What two uploads may have under way together if the network is so slow that twice
# `PARTS_AT_ONCE` would take longer than this.
_PARTS_BESIDE_SLOW = 6
_SLOW_SECONDS = 16.0
_PARTS_MAX = 9000


class LargeUploads:
    """The uploads of large objects to one store. They take turns, each with all connections.

    An upload sends its first parts when the previous one has no more to send, so that the
    connections stay busy while its last parts arrive. Used only in the event loop.
    """

    def __init__(self) -> None:
        self._last = _Turn()
        self._last.end()

    async def put(self, client: Any, name: str, sources: Sequence[memoryview]) -> None:
        """Upload an object in parts. Raises `AlreadyExistsError` if the name is taken."""
        part_bytes = max(PART_BYTES_MIN, math.ceil(total_bytes(sources) / _PARTS_MAX))
        slices = [
            source[offset : offset + part_bytes]
            for source in sources
            for offset in range(0, len(source), part_bytes)
        ]
        previous, self._last = self._last, (turn := _Turn())
        # Checked meanwhile, because each request to a distant store takes its time.
        is_taken = asyncio.ensure_future(_exists(client, name))
        try:
            await obstore.put_async(
                client,
                name,
                turn.after(previous, _unless_taken(slices, is_taken)),
                use_multipart=True,
                chunk_size=part_bytes,
                max_concurrency=PARTS_AT_ONCE,
            )
        except Exception:
            if is_taken.done() and not is_taken.cancelled() and is_taken.result():
                raise AlreadyExistsError(name) from None
            raise
        finally:
            is_taken.cancel()
            turn.end()


class _Turn:
    """When an upload has handed over its last part, and when it has ended in any way."""

    def __init__(self) -> None:
        self.is_sent = asyncio.Event()
        self.is_done = asyncio.Event()
        self.is_slow = True

    def end(self) -> None:
        self.is_sent.set()
        self.is_done.set()

    async def after(
        self, previous: "_Turn", slices: AsyncIterator[memoryview]
    ) -> AsyncIterator[memoryview]:
        """The slices, when it is their turn."""
        await previous.is_sent.wait()
        began = time.monotonic()
        count = 0
        async for one in slices:
            if count == _PARTS_BESIDE_SLOW and previous.is_slow:
                await previous.is_done.wait()
            yield one
            count += 1
        # The first parts were taken at once, and each later one when another had arrived.
        arrived = count - PARTS_AT_ONCE
        seconds = 2 * PARTS_AT_ONCE * (time.monotonic() - began)
        self.is_slow = arrived <= 0 or seconds > arrived * _SLOW_SECONDS
        self.is_sent.set()


async def put_small(client: Any, name: str, sources: Sequence[memoryview]) -> None:
    """Write an object with one request, if its name is not taken."""
    # A single buffer is sent without a copy; several are joined, which the size limits.
    body = sources[0] if len(sources) == 1 else b"".join(sources)
    await obstore.put_async(client, name, body, mode="create")


async def _unless_taken(
    slices: Sequence[memoryview], is_taken: "asyncio.Future[bool]"
) -> AsyncIterator[memoryview]:
    """The slices. Ends with an error, which aborts the upload, if the name is taken."""
    for one in slices[:-1]:
        if is_taken.done() and is_taken.result():
            break
        yield one
    if await is_taken:
        raise AlreadyExistsError
    yield slices[-1]


async def _exists(client: Any, name: str) -> bool:
    try:
        await obstore.head_async(client, name)
    except FileNotFoundError:
        return False
    return True
