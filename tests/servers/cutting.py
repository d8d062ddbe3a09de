"""A wire between a client and a server that can be cut at the worst moment."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Wire:
    """Passes bytes both ways. `connections` counts how often a client had to connect."""

    def __init__(self, port: int, *, at: int = 0) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", at))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._cuts_answer = threading.Event()
        self._cuts_question = threading.Event()
        self._holds = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next_answer(self) -> None:
        """Let the next question through, and cut the wire when the server begins to answer it."""
        self._cuts_answer.set()

    def cut_next_question(self) -> None:
        """Cut the wire when the client next says something, before the server hears of it."""
        self._cuts_question.set()

    def hold(self) -> None:
        """Pass nothing on any more, and close nothing: a network that swallows packets."""
        self._holds.set()

    def close(self) -> None:
        for one in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self.connections += 1
                self._sockets += [client, server]
                for source, target, cut in (
                    (client, server, self._cuts_question),
                    (server, client, self._cuts_answer),
                ):
                    threading.Thread(
                        target=self._pass, args=(source, target, cut), daemon=True
                    ).start()

    def _pass(self, source: socket.socket, target: socket.socket, cut: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if cut.is_set():
                    cut.clear()
                    break
                if self._holds.is_set():
                    continue
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def wire_to(port: int, *, at: int = 0) -> Iterator[Wire]:
    """A wire to a server on a port of this machine. `at` is its own port."""
    wire = Wire(port, at=at)
    try:
        yield wire
    finally:
        wire.close()
