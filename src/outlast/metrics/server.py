"""Serve one page over HTTP to untrusted clients.

Two threads for any number of clients: one handles all connections, the other builds the page.
Connections are limited in number, requests in size, and each connection has one overall deadline.
If there are too many, the one that has been idle longest is closed.
"""

import asyncio
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future

CONNECTIONS_MAX = 32
REQUEST_BYTES_MAX = 8192
DEADLINE_SECONDS = 10.0
"""From the connection to the end of the response. Prometheus times out after 10 s by default."""

_PATHS = ("/", "/metrics")


class PageServer:
    """Serves `page` until it is closed. Raises `OSError` if it cannot listen.

    `page` is called in its own thread. If it hangs, requests time out; `close` does not wait for
    it.
    """

    def __init__(
        self,
        host: str,
        port: int,
        page: Callable[[], str],
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._listener = socket.create_server((host, port), backlog=CONNECTIONS_MAX)
        self.port: int = self._listener.getsockname()[1]
        self._page = page
        self._deadline_seconds = deadline_seconds
        self._wanted: queue.SimpleQueue[Future[bytes] | None] = queue.SimpleQueue()
        # Oldest first, without those whose request has arrived.
        self._idle: dict[asyncio.Task[None], None] = {}
        self._busy = 0
        self._loop = asyncio.new_event_loop()
        self._is_closing = asyncio.Event()
        self._answering = threading.Thread(
            target=self._answer_all, name="outlast-metrics", daemon=True
        )
        self._answering.start()
        threading.Thread(target=self._build_pages, name="outlast-metrics-page", daemon=True).start()

    def close(self) -> None:
        """Close all connections and stop listening."""
        self._loop.call_soon_threadsafe(self._is_closing.set)
        self._answering.join()
        self._wanted.put(None)

    def _answer_all(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._connected, sock=self._listener, limit=REQUEST_BYTES_MAX
        )
        await self._is_closing.wait()
        # The runner closes the connections; `wait_closed` would wait for the clients.
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._make_room():
                async with asyncio.timeout(self._deadline_seconds):
                    await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The client disconnected, timed out or sent too much.
        finally:
            writer.transport.abort()

    def _make_room(self) -> bool:
        if self._busy + len(self._idle) < CONNECTIONS_MAX:
            return True
        if not self._idle:
            return False
        oldest = next(iter(self._idle))
        del self._idle[oldest]
        oldest.cancel()
        return True

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._idle[task] = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        finally:
            self._idle.pop(task, None)
        self._busy += 1
        try:
            writer.write(await self._answer_to(head))
            writer.close()
            await writer.wait_closed()
        finally:
            self._busy -= 1

    async def _answer_to(self, head: bytes) -> bytes:
        words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response("400 Bad Request", b"Expected HTTP/1.1.\n")
        if words[0] != "GET":
            return _response("405 Method Not Allowed", b"Use GET.\n")
        if words[1].partition("?")[0] not in _PATHS:
            return _response("404 Not Found", b"See /metrics.\n")
        wanted: Future[bytes] = Future()
        self._wanted.put(wanted)
        return _response("200 OK", await asyncio.wrap_future(wanted))

    def _build_pages(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            # False if the request has timed out in the queue.
            if wanted.set_running_or_notify_cancel():
                try:
                    wanted.set_result(self._page().encode())
                except Exception as error:
                    wanted.set_exception(OSError(str(error)))


def _response(status: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\n"
        "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
