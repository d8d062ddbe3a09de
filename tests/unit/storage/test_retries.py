"""Failures that pass are sat out, within the limits; others are told at once."""

import threading
import uuid
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.runs.catalog import manifest_names
from outlast.journal import FinalChoice
from outlast.storage import (
    ROUTINE,
    AlreadyExists,
    StorageError,
    Store,
    StoreUnavailable,
    create_or_confirm,
    final,
    open_store,
)
from outlast.storage.objects.errors import may_pass
from tests.servers.faults import Break, Breaking, breaking, in_turn
from tests.servers.forwarding import Answer, Request, serving
from tests.servers.moto import BUCKET
from tests.servers.places import object_store_environ

# In three parts, none smaller than S3 takes them.
LARGE = bytes(range(256)) * (12 * 4096)
OpenAt = Callable[[str], Store]


@pytest.fixture(params=["s3", "gs"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def server(request: pytest.FixtureRequest, kind: str) -> str:
    url: str = request.getfixturevalue("s3_server" if kind == "s3" else "gcs_server")
    return url


@pytest.fixture
def open_at(kind: str, monkeypatch: pytest.MonkeyPatch) -> OpenAt:
    url = f"{kind}://{BUCKET}/{uuid.uuid4().hex}"

    def open_it(server: str) -> Store:
        for name, value in object_store_environ(kind, server).items():
            monkeypatch.setenv(name, value)
        return open_store(url)

    return open_it


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.storage.objects.retrying.FIRST_PAUSE_SECONDS", 0.01)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.storage.objects.store.SINGLE_PUT_BYTES_MAX", 8 * 1024**2)
    monkeypatch.setattr("outlast.storage.objects.uploads.PART_BYTES_MIN", 5 * 1024**2)


def prepare(store: Store) -> None:
    store.create("there", [b"something"])


def confirm(store: Store) -> None:
    create_or_confirm(store, "mine", b"x" * 1000)
    assert store.read("mine") == b"x" * 1000


def create_large(store: Store) -> None:
    try:
        store.create("large", [LARGE])
    except AlreadyExists:
        # As for packs: nobody else has this name, so the first try was kept after all.
        pass
    assert store.read("large") == LARGE


def read(store: Store) -> None:
    assert store.read("there") == b"something"
    assert store.read("there", start=4, length=3) == b"thi"


def read_into(store: Store) -> None:
    buffer = bytearray(9)
    store.read_into("there", buffer)
    assert buffer == b"something"


def list_all(store: Store) -> None:
    assert [entry.name for entry in store.list()] == ["there"]


def delete(store: Store) -> None:
    store.delete(["there", "nowhere"])
    assert store.list() == []


CALLS: dict[str, tuple[Callable[[Store], None], str, tuple[Break, ...]]] = {
    "confirm": (confirm, "write", (Break.BEFORE, Break.AFTER)),
    "begin upload": (create_large, "begin upload", (Break.BEFORE, Break.AFTER)),
    "upload a part": (create_large, "part", (Break.BEFORE, Break.AFTER)),
    "end upload": (create_large, "end upload", (Break.BEFORE, Break.AFTER)),
    "read": (read, "read", (Break.BEFORE, Break.WITHIN)),
    "read_into": (read_into, "read", (Break.BEFORE, Break.WITHIN)),
    "list": (list_all, "list", (Break.BEFORE, Break.WITHIN)),
    "delete": (delete, "delete", (Break.BEFORE, Break.AFTER)),
}


@pytest.mark.parametrize(
    ("call", "how"),
    [pytest.param(call, how) for call, (_, _, hows) in CALLS.items() for how in hows],
)
def test_a_broken_connection_is_no_failure(
    server: str, open_at: OpenAt, call: str, how: Break
) -> None:
    act, wanted, _ = CALLS[call]
    prepare(open_at(server))

    def break_it(kind: str, number: int) -> Break | None:
        return how if kind == wanted and number <= 2 else None

    with breaking(server, break_it) as (url, breaker):
        act(open_at(url))

    assert breaker.broken[wanted] == 2


def test_a_store_that_stays_away_is_given_up_after_a_bounded_number_of_tries(
    server: str, open_at: OpenAt
) -> None:
    with breaking(server, lambda _, __: Break.BEFORE) as (url, breaker):
        with pytest.raises(StoreUnavailable, match="the request failed"):
            open_at(url).read("there", limits=final(30.0))

    assert 3 <= breaker.counts["read"] <= 3 * 3


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b""),
        (403, b""),
        (404, b"<Error><Code>NoSuchBucket</Code></Error>"),
        (412, b""),
        (501, b""),
        (507, b""),
    ],
)
def test_what_cannot_pass_is_not_tried_again(open_at: OpenAt, status: int, body: bytes) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        asked.append(request)
        return Answer(status=status, body=body)

    with serving(answer) as url, pytest.raises(StorageError):
        open_at(url).list()

    # The client itself tries again whatever the server's own failure is.
    assert len(asked) == (1 if status < 500 else ROUTINE.attempts_max)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("status code: 503 Service Unavailable", True),
        ("status code: 429 Too Many Requests", True),
        ("status code: 400 Bad Request: <Code>RequestTimeout</Code>", True),
        ("status code: 400 Bad Request", False),
        ("HttpError { kind: Timeout }", True),
        ("dns error: failed to lookup address", True),
        ("error performing token request to the metadata server", False),
        ("invalid peer certificate: UnknownIssuer", False),
    ],
)
def test_which_failures_may_pass(text: str, passes: bool) -> None:
    class GenericError(Exception):
        pass

    assert may_pass(GenericError(text), has_worked=False) is passes


def test_credentials_that_were_there_before_may_come_back() -> None:
    class GenericError(Exception):
        pass

    error = GenericError("error performing token request to the metadata server")

    assert may_pass(error, has_worked=True)


def test_the_final_save_does_not_wait_for_the_pause_of_a_routine_one(
    s3_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.storage.objects.retrying.FIRST_PAUSE_SECONDS", 600.0)
    monkeypatch.setattr("outlast.storage.objects.retrying.PAUSE_SECONDS_MAX", 600.0)
    broke = threading.Event()

    def break_it(kind: str, number: int) -> Break | None:
        if kind != "write" or broke.is_set() or not armed.is_set():
            return None
        broke.set()
        return Break.BEFORE

    armed = threading.Event()
    with breaking(s3_server, break_it) as (url, _):
        for name, value in object_store_environ("s3", url).items():
            monkeypatch.setenv(name, value)
        run = f"s3://{BUCKET}/{uuid.uuid4().hex}"
        state = {"x": np.zeros(100_000)}
        checkpointer = Checkpointer(run, state, every_steps=1000)
        checkpointer.resume()
        armed.set()
        checkpointer.save(3)
        assert broke.wait(30)

        choice = checkpointer.final_save(4, lambda: 30.0)

        checkpointer.close(10.0)
        assert choice is FinalChoice.FULL
        assert len(manifest_names(open_store(run))) == 2


@pytest.fixture
def broken_server(s3_server: str) -> Iterator[tuple[str, Breaking]]:
    with breaking(s3_server, in_turn(3)) as found:
        yield found


def test_a_checkpointer_with_default_settings_sits_out_broken_connections(
    broken_server: tuple[str, Breaking], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, breaker = broken_server
    for name, value in object_store_environ("s3", url).items():
        monkeypatch.setenv(name, value)
    run = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    state = {"x": np.zeros(100_000)}

    for attempt in range(2):
        with Checkpointer(run, state, every_steps=1, keep_last=1) as checkpointer:
            done = checkpointer.resume()
            assert done == 4 * attempt
            for step in range(done + 1, done + 5):
                state["x"] += 1
                checkpointer.tick(step)

    assert breaker.broken.keys() >= {"write", "read", "list", "delete"}
