"""The guard against a metadata server that speaks the real protocol, over a real socket."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from outlast import Guard, NoticeSource
from outlast.interruption import metadata
from outlast.interruption.metadata import MAINTENANCE, PREEMPTED, MetadataPoll, pause_seconds
from tests.patience import PATIENCE_SECONDS, eventually
from tests.stubs.metadata import MetadataServer, reply


@pytest.fixture
def server() -> Iterator[MetadataServer]:
    with MetadataServer() as server:
        yield server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses and limits a hundred times shorter, so that a test sees many rounds."""
    monkeypatch.setattr(metadata, "_PAUSE_SECONDS_MIN", 0.02)
    monkeypatch.setattr(metadata, "_PAUSE_SECONDS_MAX", 0.1)
    monkeypatch.setattr(metadata, "_ANSWER_SECONDS_MAX", 1.0)


def requests_max(seconds: float) -> float:
    """How often an impatient poll may ask within some time, however long a test really took."""
    return seconds / metadata._PAUSE_SECONDS_MIN + 2


class Listener:
    """Polls one path and collects what it is told. Used instead of a guard where a notice would
    end this process."""

    def __init__(self, host: str, path: str = PREEMPTED) -> None:
        self.values: list[str] = []
        self.new = threading.Event()
        self.poll = MetadataPoll(host, path, self._note)

    def _note(self, value: str) -> None:
        self.values.append(value)
        self.new.set()

    def __enter__(self) -> "Listener":
        self.poll.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.poll.close()

    def next(self) -> str:
        assert self.new.wait(PATIENCE_SECONDS), "Nothing was told."
        self.new.clear()
        return self.values[-1]


def test_preemption_is_heard_by_long_poll_at_once(server: MetadataServer) -> None:
    with Listener(server.host) as listener:
        assert listener.next() == "FALSE"
        eventually(lambda: len(server.requests) == 2, "the poll that waits")
        time.sleep(1.2)
        requests_before = len(server.requests)
        server.set(PREEMPTED, "TRUE")

        assert listener.next() == "TRUE"
        assert requests_before == 2
        assert "wait_for_change=true&last_etag=" in server.requests[1]


def test_announced_maintenance_asks_for_a_save_and_not_for_departure(
    server: MetadataServer,
) -> None:
    with Guard(metadata_host=server.host) as guard:
        server.set(MAINTENANCE, "TERMINATE_ON_HOST_MAINTENANCE")
        eventually(lambda: guard.save_requested is not None, "a save is requested")

        assert guard.save_requested is not None
        assert guard.save_requested.source is NoticeSource.MAINTENANCE
        assert not guard.interrupted
        assert guard.exit_code == 0


def test_a_nested_guard_can_bring_the_metadata_server(server: MetadataServer) -> None:
    with Guard(), Guard(metadata_host=server.host):
        eventually(lambda: server.requests, "the server is asked")


def test_a_live_migration_asks_for_nothing(server: MetadataServer) -> None:
    server.set(MAINTENANCE, "MIGRATE_ON_HOST_MAINTENANCE")
    with Guard(metadata_host=server.host) as guard:
        # Once it is asked again, the first answer was dealt with.
        eventually(
            lambda: sum(MAINTENANCE in request for request in server.requests) >= 2, "two polls"
        )

        assert guard.save_requested is None
        assert not guard.interrupted


def test_a_path_that_is_not_served_is_not_asked_for_again(server: MetadataServer) -> None:
    del server.values[PREEMPTED]
    with Listener(server.host) as listener:
        listener.poll._thread.join(PATIENCE_SECONDS)

        assert not listener.poll._thread.is_alive()
        assert len(server.requests) == 1


def hang(request: BaseHTTPRequestHandler) -> bool:
    time.sleep(3.0)
    return True


def junk(request: BaseHTTPRequestHandler) -> bool:
    request.wfile.write(bytes(range(256)) * 8 + b"TRUE\r\n\r\n")
    return True


MISBEHAVIOURS: dict[str, Callable[[BaseHTTPRequestHandler], bool]] = {
    "503": lambda request: reply(request, 503, "TRUE"),
    "500 with TRUE": lambda request: reply(request, 500, "TRUE"),
    "hangs": hang,
    "junk": junk,
    "closes": lambda request: True,
    "another cloud's server": lambda request: reply(request, 200, "TRUE", {"Metadata-Flavor": "X"}),
    "endless body": lambda request: reply(request, 200, "TRUE" * 10_000),
    "not text": lambda request: reply(
        request, 200, "\udcff".encode("utf-8", "surrogatepass").hex() * 600
    ),
    "redirect": lambda request: reply(request, 302, "TRUE", {"Location": "/"}),
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_a_server_that_misbehaves_gives_no_notice_and_is_not_hammered(
    server: MetadataServer, name: str
) -> None:
    started = time.monotonic()
    with Listener(server.host) as listener:
        assert listener.next() == "FALSE"
        server.mood = MISBEHAVIOURS[name]
        server.set(PREEMPTED, "FALSE ")
        time.sleep(0.6)

        assert listener.values == ["FALSE"]
        assert len(server.requests) <= requests_max(time.monotonic() - started)

        server.mood = None
        server.set(PREEMPTED, "TRUE")
        assert listener.next() == "TRUE"


@pytest.mark.usefixtures("impatient")
def test_a_server_that_answers_at_once_instead_of_waiting_is_not_hammered(
    server: MetadataServer,
) -> None:
    server.mood = lambda request: reply(request, 200, "FALSE", {"ETag": "0"})
    started = time.monotonic()
    with Listener(server.host) as listener:
        assert listener.next() == "FALSE"
        time.sleep(0.5)

        assert len(server.requests) <= requests_max(time.monotonic() - started)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_vanishes_is_asked_again_with_growing_pauses(
    server: MetadataServer,
) -> None:
    with Listener(server.host) as listener:
        assert listener.next() == "FALSE"
        server.vanish()
        time.sleep(0.5)

        assert listener.poll._thread.is_alive()
        assert listener.values == ["FALSE"]


@pytest.mark.usefixtures("impatient")
def test_where_no_server_answers_it_is_given_up() -> None:
    # The port is kept, so that nobody else can listen on it.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        with Listener(f"127.0.0.1:{deaf.getsockname()[1]}") as listener:
            listener.poll._thread.join(PATIENCE_SECONDS)

            assert not listener.poll._thread.is_alive()
            assert listener.values == []


def test_opening_and_closing_is_not_delayed_by_a_server_that_never_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "_ANSWER_SECONDS_MAX", 3600.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with Guard(metadata_host=f"127.0.0.1:{silent.getsockname()[1]}"):
            connection, _ = silent.accept()
        connection.close()

    assert not [t for t in threading.enumerate() if t.name.startswith("outlast-metadata")]


def test_pauses_double_up_to_a_limit() -> None:
    assert [pause_seconds(failures) for failures in (0, 1, 2, 3, 10, 10_000)] == [
        1,
        2,
        4,
        8,
        30,
        30,
    ]
