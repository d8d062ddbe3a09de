"""The advice about a far bucket, from servers that speak the real protocols over real sockets."""

import http.client
import json
import logging
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from outlast._base import http as base_http
from outlast.checkpoint.runs import bucket_location as region
from outlast.checkpoint.runs.bucket_location import far_apart, warn_if_far
from tests.patience import PATIENCE_SECONDS
from tests.stubs.gcs import StorageServer
from tests.stubs.kubernetes import make_certificate
from tests.stubs.metadata import MetadataServer, reply

TOKEN = "ya29.c.the-secret_token~1234"
TOKEN_PATH = "instance/service-accounts/default/token"
HANG_SECONDS = PATIENCE_SECONDS

Mood = Callable[[BaseHTTPRequestHandler], bool]


@pytest.fixture(autouse=True)
def _nothing_asked_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region, "_asked", set())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has requests for a path given up after a second; all others wait on a slow machine too."""

    def give_up(bad_path: str) -> None:
        get = base_http.get

        def limited(
            connection: http.client.HTTPConnection, path: str, *args: Any, **limits: Any
        ) -> Any:
            if bad_path in path:
                limits |= {"silence_seconds_max": 1.0, "total_seconds_max": 1.0}
            return get(connection, path, *args, **limits)

        monkeypatch.setattr(base_http, "get", limited)

    return give_up


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region, "_ANSWER_SECONDS_MAX", PATIENCE_SECONDS)


@pytest.fixture(autouse=True)
def _the_token_is_never_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Holds for every test here, at the level that tells most."""
    caplog.set_level(logging.DEBUG)
    yield
    for record in caplog.get_records("call"):
        assert TOKEN not in record.getMessage()
        assert TOKEN not in repr(vars(record))


@pytest.fixture
def metadata() -> Iterator[MetadataServer]:
    with MetadataServer() as server:
        server.values["instance/zone"] = "projects/123/zones/us-central1-a"
        server.values[TOKEN_PATH] = json.dumps(
            {"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"}
        )
        yield server


@pytest.fixture
def storage() -> Iterator[StorageServer]:
    with StorageServer(TOKEN) as server:
        server.locations["runs"] = "EUROPE-WEST4"
        yield server


def check(metadata: MetadataServer, storage: StorageServer, url: str = "gs://runs/tiny") -> None:
    """Have the check run to its end."""
    environ = {"STORAGE_EMULATOR_HOST": storage.url}
    thread = warn_if_far(url, metadata_host=metadata.host, environ=environ)
    if thread is not None:
        assert thread.daemon
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.INFO]


def remarks(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(r.getMessage() for r in caplog.records if r.name == region.__name__)


def test_a_far_bucket_is_warned_of_with_the_cost_in_words(
    metadata: MetadataServer, storage: StorageServer, caplog: pytest.LogCaptureFixture
) -> None:
    check(metadata, storage)

    assert warnings(caplog) == [
        "The bucket runs is in europe-west4, but this machine is in us-central1. Every save and "
        "resume crosses regions, which is slower and billed per GiB. Keep checkpoints in the "
        "region of the machine, for example in a bucket created with `gcloud storage buckets "
        "create "
        "gs://NAME --location=us-central1`."
    ]
    assert storage.seen == [
        ("/storage/v1/b/runs/storageLayout", f"Bearer {TOKEN}"),
    ]
    assert [path.removeprefix("/computeMetadata/v1/") for path in metadata.requests] == [
        "instance/zone",
        TOKEN_PATH,
    ]


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("US-CENTRAL1", None),
        ("US", None),
        ("NAM4", None),
        ("EU", "is in the multi-region EU, but this machine is in us-central1"),
        ("EUR4", "is in EUR4 (europe-north1 and europe-west4), but this machine is in us-central1"),
        ("us-east1", "is in us-east1, but this machine is in us-central1"),
        ("NAM99", None),
        ("US-CENTRAL1+US-WEST1", None),
        ("EUROPE-WEST4\nforged line", None),
        ("", None),
        (None, None),
        (7, None),
        (["US"], None),
    ],
)
def test_only_a_bucket_without_a_copy_near_is_warned_of(
    metadata: MetadataServer,
    storage: StorageServer,
    caplog: pytest.LogCaptureFixture,
    location: object,
    words: str | None,
) -> None:
    storage.locations["runs"] = location

    check(metadata, storage)

    assert len(storage.seen) == 1
    assert len(warnings(caplog)) == (words is not None)
    assert words is None or words in warnings(caplog)[0]


@pytest.mark.parametrize(
    ("location", "machine_region", "expected"),
    [
        ("US-CENTRAL1", "us-central1", False),
        ("US-EAST1", "us-central1", True),
        ("us-central1", "us-central10", True),
        ("NORTHAMERICA-NORTHEAST1", "northamerica-northeast1", False),
        ("US", "us-west4", False),
        ("US", "northamerica-northeast1", True),
        ("EU", "europe-southwest1", False),
        ("EU", "us-east1", True),
        ("ASIA", "asia-south2", False),
        ("ASIA", "australia-southeast1", True),
        ("NAM4", "us-central1", False),
        ("NAM4", "us-east1", False),
        ("nam4", "us-west1", True),
        ("EUR4", "europe-north1", False),
        ("EUR4", "europe-west4", False),
        ("EUR4", "europe-west1", True),
        ("ASIA1", "asia-northeast2", False),
        ("ASIA1", "asia-east1", True),
        ("MOON1", "us-central1", False),
        ("", "us-central1", False),
        ("US-EAST1", "", False),
        ("US-EAST1", "global", False),
        ("US-EAST1", "us-central1-a", False),
        ("US-EAST1\n", "us-central1", False),
    ],
)
def test_near_and_far(location: str, machine_region: str, expected: bool) -> None:
    assert far_apart(location, machine_region) is expected


def test_a_program_with_many_runs_is_told_once(
    metadata: MetadataServer, storage: StorageServer, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        check(metadata, storage, f"gs://runs/{number}")

    assert len(warnings(caplog)) == 1
    assert len(storage.seen) == 1


@pytest.mark.parametrize(
    "url", ["/checkpoints", "runs/tiny", "file:///runs", "s3://runs/tiny", "az://runs/tiny", ""]
)
def test_other_stores_are_not_asked_about(
    metadata: MetadataServer, storage: StorageServer, url: str
) -> None:
    assert warn_if_far(url, metadata_host=metadata.host, environ={}) is None
    assert metadata.requests == []


def test_away_from_compute_engine_nothing_is_asked(storage: StorageServer) -> None:
    environ = {"STORAGE_EMULATOR_HOST": storage.url}

    assert warn_if_far("gs://runs/tiny", metadata_host=None, environ=environ) is None
    assert storage.seen == []


@pytest.mark.parametrize(
    "url",
    [
        "gs://",
        "gs://UP/run",
        "gs://ab",
        "gs://a b/run",
        "gs://runs:80/run",
        "gs://..%2f..%2fother/run",
        "gs://runs%0d%0aHost:evil/run",
        "gs://user:secret@runs/run",
        "gs://runs?fields=acl",
        "gs://runs#x",
        "gs://[runs/run",
        "gs://-runs/run",
        "gs://bücket/run",
        "gs://" + "a" * 300,
    ],
)
def test_a_bucket_with_a_hostile_name_is_never_asked_for(
    metadata: MetadataServer, storage: StorageServer, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    check(metadata, storage, url)

    assert metadata.requests == []
    assert storage.seen == []
    assert "secret" not in remarks(caplog)
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    "server",
    [
        "https://private.example",
        "http://private.example",
        "http://127.0.0.1@private.example",
        "https://storage.googleapis.com.private.example",
        "http://storage.googleapis.com",
        "127.0.0.1:junk",
    ],
)
def test_the_token_is_not_even_fetched_for_a_server_that_may_not_have_it(
    metadata: MetadataServer, server: str
) -> None:
    environ = {"STORAGE_EMULATOR_HOST": server}

    assert warn_if_far("gs://runs/tiny", metadata_host=metadata.host, environ=environ) is None
    assert metadata.requests == []


def test_without_an_emulator_google_is_asked_over_tls() -> None:
    bucket = region._bucket_of("gs://runs/tiny", {})

    connection = region._connection(bucket)

    assert isinstance(connection, http.client.HTTPSConnection)
    assert (connection.host, connection.port) == ("storage.googleapis.com", 443)


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("is_trusted", [True, False])
def test_the_token_goes_only_to_a_server_whose_certificate_is_trusted(
    metadata: MetadataServer,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_trusted: bool,
) -> None:
    make_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    monkeypatch.setattr(ssl, "_create_default_https_context", ssl._create_unverified_context)
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with StorageServer(TOKEN, tmp_path) as storage:
        storage.locations["runs"] = "EUROPE-WEST4"
        check(metadata, storage)

        assert len(storage.seen) == is_trusted
        assert len(warnings(caplog)) == is_trusted


def hang(request: BaseHTTPRequestHandler) -> bool:
    time.sleep(HANG_SECONDS)
    return True


def drip(request: BaseHTTPRequestHandler) -> bool:
    """Never silent for as long as a timeout, and never done."""
    request.wfile.write(b"HTTP/1.0 200 OK\r\nMetadata-Flavor: Google\r\n\r\n")
    try:
        for _ in range(int(HANG_SECONDS / 0.1)):
            request.wfile.write(b" ")
            time.sleep(0.1)
    except OSError:
        pass
    return True


def drip_headers(request: BaseHTTPRequestHandler) -> bool:
    try:
        for byte in b"HTTP/1.0 200 OK\r\nMetadata-Flavor: Google\r\nX: ".ljust(600, b"x"):
            request.wfile.write(bytes([byte]))
            time.sleep(0.1)
    except OSError:
        pass
    return True


def not_http(request: BaseHTTPRequestHandler) -> bool:
    request.wfile.write(f"{request.headers['Authorization']} {TOKEN}\r\n\r\n".encode())
    return True


def nothing(request: BaseHTTPRequestHandler) -> bool:
    return True


def answers(status: int, body: str = "", headers: dict[str, str] | None = None) -> Mood:
    return lambda request: reply(request, status, body, headers)


def raw_bytes(request: BaseHTTPRequestHandler) -> bool:
    reply(request, 200)
    request.wfile.write(b'{"access_token": "\xff\xfe' + TOKEN.encode())
    return True


GOOD_BODY = json.dumps({"location": "EU", "access_token": TOKEN})
BAD_MOODS = {
    "401": answers(401, GOOD_BODY),
    "403": answers(403, GOOD_BODY),
    "404": answers(404, GOOD_BODY),
    "500": answers(500, GOOD_BODY),
    "not json": answers(200, f"junk {TOKEN}"),
    "other json": answers(200, json.dumps([TOKEN])),
    "deep json": answers(200, "[" * 16_000),
    "too long": answers(200, GOOD_BODY + " " * 20_000),
    "empty": answers(200),
    "hang": hang,
    "drip": drip,
    "drip headers": drip_headers,
    "not http": not_http,
    "nothing": nothing,
    "raw bytes": raw_bytes,
}


@pytest.mark.parametrize("mood", BAD_MOODS.values(), ids=BAD_MOODS)
def test_a_storage_server_in_a_bad_mood_is_asked_once_and_nothing_is_said(
    metadata: MetadataServer,
    storage: StorageServer,
    caplog: pytest.LogCaptureFixture,
    impatient: Callable[[str], None],
    mood: Mood,
) -> None:
    storage.mood = mood
    impatient("/storage/")
    started = time.monotonic()

    check(metadata, storage)

    assert time.monotonic() - started < HANG_SECONDS
    assert len(storage.seen) == 1
    assert warnings(caplog) == []
    assert "Could not compare the region of runs: " in remarks(caplog)


@pytest.mark.parametrize("path", ["instance/zone", TOKEN_PATH])
@pytest.mark.parametrize("mood", BAD_MOODS.values(), ids=BAD_MOODS)
def test_a_metadata_server_in_a_bad_mood_is_asked_once_and_nothing_is_said(
    metadata: MetadataServer,
    storage: StorageServer,
    caplog: pytest.LogCaptureFixture,
    impatient: Callable[[str], None],
    mood: Mood,
    path: str,
) -> None:
    impatient(path)
    metadata.mood = lambda request: request.path.endswith(path) and mood(request)

    check(metadata, storage)

    assert sum(request.endswith(path) for request in metadata.requests) == 1
    assert storage.seen == []
    assert warnings(caplog) == []
    assert "Could not compare the region of runs: " in remarks(caplog)


@pytest.mark.parametrize(
    "zone", ["", "us-central1-a", "projects/1/zones/", "projects/1/zones/moon", "<html>"]
)
def test_without_a_zone_that_is_understood_no_token_is_fetched(
    metadata: MetadataServer, storage: StorageServer, zone: str
) -> None:
    metadata.values["instance/zone"] = zone

    check(metadata, storage)

    assert len(metadata.requests) == 1


def test_a_zone_for_accelerators_is_in_its_region(
    metadata: MetadataServer, storage: StorageServer, caplog: pytest.LogCaptureFixture
) -> None:
    metadata.values["instance/zone"] = "projects/123/zones/europe-west4-ai1a"

    check(metadata, storage)

    assert len(storage.seen) == 1
    assert warnings(caplog) == []


@pytest.mark.parametrize("token", [f"{TOKEN}\r\nX: y", f"{TOKEN} x", "", None, 7, [TOKEN]])
def test_a_token_that_is_none_is_not_sent(
    metadata: MetadataServer, storage: StorageServer, token: object
) -> None:
    metadata.values[TOKEN_PATH] = json.dumps({"access_token": token})

    check(metadata, storage)

    assert storage.seen == []


def test_an_answer_that_no_metadata_server_gives_is_not_believed(
    metadata: MetadataServer, storage: StorageServer
) -> None:
    metadata.mood = answers(
        200, "projects/123/zones/us-central1-a", {"Metadata-Flavor": "a captive portal"}
    )

    check(metadata, storage)

    assert len(metadata.requests) == 1


def test_the_token_follows_no_redirect(metadata: MetadataServer, storage: StorageServer) -> None:
    with StorageServer(TOKEN) as elsewhere:
        storage.mood = answers(307, "", {"Location": f"{elsewhere.url}/storage/v1/b/runs"})

        check(metadata, storage)

        assert len(storage.seen) == 1
        assert elsewhere.seen == []


def test_a_program_that_debugs_http_does_not_print_the_token(
    metadata: MetadataServer,
    storage: StorageServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)

    check(metadata, storage)

    assert len(storage.seen) == 1
    assert TOKEN not in "".join(capfd.readouterr())


def test_a_machine_without_its_servers_says_nothing(
    metadata: MetadataServer, storage: StorageServer, caplog: pytest.LogCaptureFixture
) -> None:
    with MetadataServer() as gone:
        pass

    check(gone, storage)

    assert warnings(caplog) == []
    assert "ConnectionRefusedError" in remarks(caplog)


def test_a_process_that_can_start_no_thread_goes_on(
    monkeypatch: pytest.MonkeyPatch, metadata: MetadataServer
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)

        assert warn_if_far("gs://runs/tiny", metadata_host=metadata.host, environ={}) is None


def test_a_program_ends_without_waiting_for_the_answer(
    metadata: MetadataServer, storage: StorageServer
) -> None:
    storage.mood = hang
    program = (
        "import sys, time; from outlast.checkpoint.runs.bucket_location import warn_if_far\n"
        f"warn_if_far('gs://runs/x', metadata_host={metadata.host!r})\n"
        "time.sleep(0.3); print('done')"
    )

    started = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "STORAGE_EMULATOR_HOST": storage.url},
        capture_output=True,
        text=True,
        check=True,
    )

    assert (result.stdout, result.stderr) == ("done\n", "")
    assert time.monotonic() - started < HANG_SECONDS


def test_the_module_is_light_and_the_thread_imports_nothing(
    metadata: MetadataServer, storage: StorageServer
) -> None:
    """An import under way in a thread is a lock that a forked worker would inherit."""
    program = (
        "import sys; from outlast.checkpoint.runs.bucket_location import warn_if_far\n"
        "import outlast.checkpoint.runs.bucket_location as region\n"
        "assert 'http.client' not in sys.modules and 'ssl' not in sys.modules\n"
        "before = []\n"
        "find_out = region._find_out\n"
        "def noting(*args):\n"
        "    before.append(set(sys.modules))\n"
        "    find_out(*args)\n"
        "region._find_out = noting\n"
        f"warn_if_far('gs://runs/x', metadata_host={metadata.host!r}).join()\n"
        "print(sorted(set(sys.modules) - before[0]))"
    )

    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "STORAGE_EMULATOR_HOST": storage.url},
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout == "[]\n"
    assert len(storage.seen) == 1
