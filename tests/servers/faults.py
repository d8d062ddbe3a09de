"""Servers that fail in the ways that real ones do."""

import contextlib
import itertools
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum

from tests.servers.forwarding import Answer, Request, forward, serving


class Break(Enum):
    """When a connection is reset: before the request acts, after it has, or within the answer."""

    BEFORE = "before"
    AFTER = "after"
    WITHIN = "within"


@contextlib.contextmanager
def hanging(words: bytes = b"") -> Iterator[str]:
    """Accepts connections, and never says more than these words."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        held: list[socket.socket] = []

        def hold() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])
                    held[-1].sendall(words)

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


def kind_of(request: Request) -> str:
    """What a request to an object store asks for."""
    query = request.path.partition("?")[2]
    for mark, kind in (
        ("list-type", "list"),
        ("partNumber", "part"),
        ("uploads", "begin upload"),
        ("uploadId", "end upload"),
        ("delete", "delete"),
    ):
        if mark in query:
            return kind
    return {"PUT": "write", "GET": "read", "HEAD": "look", "DELETE": "delete"}[request.method]


class Breaking:
    """Breaks connections. `counts` is how many requests of each kind came, broken ones too."""

    def __init__(self, server: str, break_it: Callable[[str, int], Break | None]) -> None:
        self._server = server
        self._break = break_it
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()

    def answer(self, request: Request) -> Answer:
        kind = kind_of(request)
        with self._lock:
            self.counts[kind] += 1
            how = self._break(kind, self.counts[kind])
            if how is not None:
                self.broken[kind] += 1
        if how is Break.BEFORE:
            return Answer(status=200, reset_after=-1)
        given = forward(self._server, request)
        if how is Break.AFTER:
            return replace(given, reset_after=-1)
        if how is Break.WITHIN:
            return replace(given, reset_after=len(given.body) // 2)
        return given


@contextlib.contextmanager
def breaking(
    server: str, break_it: Callable[[str, int], Break | None]
) -> Iterator[tuple[str, Breaking]]:
    """Forwards requests, but breaks the connection of the n-th of a kind as `break_it` says."""
    breaker = Breaking(server, break_it)
    with serving(breaker.answer) as url:
        yield url, breaker


def in_turn(every: int) -> Callable[[str, int], Break | None]:
    """Breaks one request in so many of each kind, in each of the ways in turn."""

    def break_it(_kind: str, number: int) -> Break | None:
        return list(Break)[number // every % 3] if number % every == 1 else None

    return break_it
