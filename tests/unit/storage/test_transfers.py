"""Large objects on their way: parts of several at once, and ranges in pieces as they arrive."""

import hashlib
import re
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from outlast.storage import (
    AccessDenied,
    AlreadyExists,
    StorageTimeout,
    Store,
    StoreUnavailable,
    final,
    open_store,
)
from outlast.storage.objects import uploads
from outlast.storage.objects.store import ACCESS
from tests.patience import PATIENCE_SECONDS
from tests.servers.faults import hanging, kind_of
from tests.servers.forwarding import Answer, Request, forward, serving
from tests.servers.moto import BUCKET
from tests.servers.places import object_store_environ

PART = 64 * 1024
OpenAt = Callable[[str], Store]


@pytest.fixture
def open_at(monkeypatch: pytest.MonkeyPatch) -> OpenAt:
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}"

    def open_it(server: str) -> Store:
        for name, value in object_store_environ("s3", server).items():
            monkeypatch.setenv(name, value)
        return open_store(url)

    return open_it


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.storage.objects.store.SINGLE_PUT_BYTES_MAX", PART)
    monkeypatch.setattr("outlast.storage.objects.uploads.PART_BYTES_MIN", PART)
    monkeypatch.setattr("outlast.storage.objects.retrying.FIRST_PAUSE_SECONDS", 0.01)


class Uploads:
    """Takes uploads in parts. `on_part` is called with each name before the part is answered."""

    def __init__(self, on_part: Callable[[str], object]) -> None:
        self._on_part = on_part
        self._lock = threading.Lock()
        self._under_way = 0
        self.most_under_way = 0
        self.refused: str | None = None

    def answer(self, request: Request) -> Answer:
        name = request.path.partition("?")[0].rpartition("/")[2]
        kind = kind_of(request)
        if kind == "look":
            return Answer(status=404)
        if name == self.refused:
            return Answer(status=403)
        if kind == "begin upload":
            return Answer(status=200, body=_xml("Initiate", "<UploadId>1</UploadId>"))
        if kind == "end upload":
            return Answer(status=200, body=_xml("Complete", "<ETag>1</ETag>"))
        with self._lock:
            self._under_way += 1
            self.most_under_way = max(self.most_under_way, self._under_way)
        try:
            self._on_part(name)
        finally:
            with self._lock:
                self._under_way -= 1
        return Answer(status=200, headers={"ETag": '"1"'})


def _xml(what: str, body: str) -> bytes:
    return f"<{what}MultipartUploadResult>{body}</{what}MultipartUploadResult>".encode()


def test_an_upload_begins_while_the_last_parts_of_the_previous_one_arrive(open_at: OpenAt) -> None:
    second_began = threading.Event()

    def on_part(name: str) -> None:
        if name == "second":
            second_began.set()
        # The first upload cannot end before the second one has begun.
        assert second_began.wait(PATIENCE_SECONDS)

    with serving(Uploads(on_part).answer) as url, ThreadPoolExecutor(2) as pool:
        store = open_at(url)
        for one in [pool.submit(store.create, n, [bytes(3 * PART)]) for n in ("first", "second")]:
            one.result()


def test_no_more_parts_are_under_way_than_a_slow_network_can_take(
    open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_SLOW_SECONDS", 0.0)
    server = Uploads(lambda _: None)

    with serving(server.answer) as url, ThreadPoolExecutor(4) as pool:
        store = open_at(url)
        # What has fewer parts is sent with one request.
        sizes = (40, 9, 33, 8, 25, 12, 13)
        creates = [
            pool.submit(store.create, str(number), [bytes(size * PART + 1)])
            for number, size in enumerate(sizes)
        ]
        for one in creates:
            one.result(PATIENCE_SECONDS)

    assert server.most_under_way <= uploads.PARTS_AT_ONCE + uploads._PARTS_BESIDE_SLOW


@pytest.mark.parametrize(
    ("setting", "is_signed"), [(None, False), ("true", False), ("false", True)]
)
def test_the_content_of_uploads_is_signed_only_on_request(
    setting: str | None, is_signed: bool, open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bytes, str]] = []
    server = Uploads(lambda _: None)

    def answer(request: Request) -> Answer:
        if request.method == "PUT":
            seen.append((request.body, request.headers["x-amz-content-sha256"]))
        return server.answer(request)

    if setting is not None:
        monkeypatch.setenv("AWS_UNSIGNED_PAYLOAD", setting)
    with serving(answer) as url:
        store = open_at(url)
        store.create("small", [b"x"])
        store.create("large", [bytes(3 * PART)])

    assert len(seen) == 4
    for body, given in seen:
        assert given == (hashlib.sha256(body).hexdigest() if is_signed else "UNSIGNED-PAYLOAD")


def test_an_upload_that_fails_does_not_stop_the_next(open_at: OpenAt) -> None:
    server = Uploads(lambda _: None)
    server.refused = "refused"

    with serving(server.answer) as url, ThreadPoolExecutor(3) as pool:
        store = open_at(url)
        refused = [pool.submit(store.create, "refused", [bytes(20 * PART)]) for _ in range(2)]
        others = [pool.submit(store.create, f"{n}", [bytes(20 * PART)]) for n in range(4)]
        for one in refused:
            with pytest.raises(AccessDenied):
                one.result(PATIENCE_SECONDS)
        for one in others:
            one.result(PATIENCE_SECONDS)


def test_a_name_that_is_taken_does_not_stop_the_next_upload(
    s3_server: str, open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S3 takes no smaller parts.
    monkeypatch.setattr("outlast.storage.objects.uploads.PART_BYTES_MIN", 5 * 1024**2)
    store = open_at(s3_server)
    data = bytes(range(256)) * 4096 * 6
    store.create("taken", [data])

    with ThreadPoolExecutor(2) as pool:
        again = pool.submit(store.create, "taken", [data])
        other = pool.submit(store.create, "other", [data])
        with pytest.raises(AlreadyExists):
            again.result(PATIENCE_SECONDS)
        other.result(PATIENCE_SECONDS)

    assert store.read("other") == data


def test_a_range_whose_connection_breaks_is_continued_where_it_broke(
    s3_server: str, open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.storage.objects.store.SINGLE_PUT_BYTES_MAX", 64 * 1024**2)
    data = bytes(range(251)) * (ACCESS.read_bytes // 251 + 10_000)
    open_at(s3_server).create("large", [data])
    starts: list[int] = []

    def answer(request: Request) -> Answer:
        given = forward(s3_server, request)
        if request.method != "GET":
            return given
        wanted = re.fullmatch(r"bytes=(\d+)-\d+", request.headers["range"])
        assert wanted is not None
        starts.append(int(wanted[1]))
        breaks_at = len(given.body) - 100 if len(starts) <= 2 else None
        return Answer(
            status=given.status,
            headers=given.headers,
            body=given.body,
            reset_after=breaks_at,
        )

    found = bytearray(len(data))
    with serving(answer) as url:
        open_at(url).read_into("large", found)

    assert found == data
    assert starts[0] == 0
    assert starts.count(0) == 1


def test_an_answer_that_stops_within_its_bytes_is_left_in_time(open_at: OpenAt) -> None:
    words = (
        b'HTTP/1.1 206 Partial Content\r\nContent-Length: 1000\r\nETag: "1"\r\n'
        b"Content-Range: bytes 0-999/1000\r\nLast-Modified: Thu, 19 Nov 2026 20:00:00 GMT\r\n\r\n"
    )
    with hanging(words + bytes(500)) as url:
        store = open_at(url)
        started = time.monotonic()

        with pytest.raises((StorageTimeout, StoreUnavailable)):
            store.read_into("a", bytearray(1000), limits=final(2.0))

    # The client counts its time from the start of the last request.
    assert time.monotonic() - started < 2 * 2.0 + PATIENCE_SECONDS / 2
