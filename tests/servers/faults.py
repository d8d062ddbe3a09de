"""Servers that fail in the ways that real ones do."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator

from tests.servers.forwarding import Answer, Request, forward, serving


@contextlib.contextmanager
def hanging() -> Iterator[str]:
    """Accepts connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        held: list[socket.socket] = []

        def hold() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])

        thread = threading.Thread(target=hold, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()


@contextlib.contextmanager
def answering(status: int, body: bytes = b"") -> Iterator[str]:
    """Gives the same answer to everything."""
    with serving(lambda _: Answer(status=status, body=body)) as url:
        yield url


@contextlib.contextmanager
def forgetting_to_say_so(server: str, *, writes: int) -> Iterator[str]:
    """Keeps what the first `writes` writes bring, but answers them with 503."""
    counter = itertools.count()

    def answer(request: Request) -> Answer:
        given = forward(server, request)
        if request.method == "PUT" and next(counter) < writes:
            return Answer(status=503)
        return given

    with serving(answer) as url:
        yield url


@contextlib.contextmanager
def forgetting_each(server: str) -> Iterator[str]:
    """Keeps what every write brings, but answers the first one under each name with 503."""
    seen: set[str] = set()

    def answer(request: Request) -> Answer:
        given = forward(server, request)
        if request.method == "PUT" and request.path not in seen:
            seen.add(request.path)
            return Answer(status=503)
        return given

    with serving(answer) as url:
        yield url


@contextlib.contextmanager
def stumbling(server: str, *, every: int) -> Iterator[str]:
    """Answers one request in so many with 503, and does nothing of what it asked."""
    counter = itertools.count(1)

    def answer(request: Request) -> Answer:
        return Answer(status=503) if next(counter) % every == 0 else forward(server, request)

    with serving(answer) as url:
        yield url
