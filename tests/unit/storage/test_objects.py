"""Object stores whose servers fail, and addresses that cannot be meant."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from obstore.exceptions import PermissionDeniedError

from outlast.errors import MissingExtra
from outlast.storage import (
    AccessDenied,
    BadURL,
    Limits,
    StorageError,
    StorageTimeout,
    Store,
    StoreFull,
    StoreUnavailable,
    create_or_confirm,
    final,
    open_store,
)
from outlast.storage.objects.endpoints import find_endpoint
from outlast.storage.objects.errors import as_storage_error
from outlast.storage.objects.store import ObjectStore
from tests.patience import PATIENCE_SECONDS
from tests.servers.faults import answering, hanging
from tests.servers.ports import free_port

SECRET = "wJalrXUtnFEMIsecret"
SECRET_BASE64 = "d0phbHJYVXRuRkVNSXNlY3JldA=="
ENDPOINTS = {
    "s3": "AWS_ENDPOINT_URL",
    "gs": "STORAGE_EMULATOR_HOST",
    "az": "AZURE_STORAGE_ENDPOINT",
}
CALLS: dict[str, Callable[[Store, Limits], object]] = {
    "create": lambda store, limits: store.create("a", [b"x"], limits=limits),
    "create-large": lambda store, limits: store.create("a", [bytes(65 * 1024**2)], limits=limits),
    "read": lambda store, limits: store.read("a", limits=limits),
    "read_into": lambda store, limits: store.read_into("a", bytearray(9), limits=limits),
    "list": lambda store, limits: store.list(limits=limits),
    "delete": lambda store, limits: store.delete(["a"], limits=limits),
    "confirm": lambda store, limits: create_or_confirm(store, "a", b"x", limits=limits),
}
PATIENT = final(PATIENCE_SECONDS)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.storage.objects.retrying.FIRST_PAUSE_SECONDS", 0.01)


@pytest.fixture(params=ENDPOINTS)
def store_at(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Store]:
    scheme: str = request.param
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", SECRET_BASE64)

    def open_at(server: str) -> Store:
        monkeypatch.setenv(ENDPOINTS[scheme], server)
        return open_store(f"{scheme}://bucket/run")

    return open_at


def test_a_server_that_hangs_is_left_in_time(store_at: Callable[[str], Store]) -> None:
    with hanging() as server:
        store = store_at(server)
        started = time.monotonic()

        with pytest.raises(StorageTimeout, match=r"took longer than the 1\.0 s|in time"):
            store.create("a", [b"x"], limits=final(1.0))

        assert time.monotonic() - started < PATIENCE_SECONDS


def test_every_call_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    took_seconds: dict[str, float] = {}
    with hanging() as server, ThreadPoolExecutor(len(CALLS)) as threads:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server)
        store = open_store("gs://bucket/run")

        def leave(call: str) -> None:
            started = time.monotonic()
            with pytest.raises(StorageTimeout):
                CALLS[call](store, final(1.0))
            took_seconds[call] = time.monotonic() - started

        list(threads.map(leave, CALLS))

    assert took_seconds.keys() == CALLS.keys()
    assert max(took_seconds.values()) < PATIENCE_SECONDS


def test_a_server_that_always_answers_503_is_unavailable(
    store_at: Callable[[str], Store],
) -> None:
    with answering(503, SECRET.encode()) as server, ThreadPoolExecutor(len(CALLS)) as threads:
        store = store_at(server)

        def fail(call: str) -> None:
            with pytest.raises(StoreUnavailable, match="the server answered 503") as caught:
                CALLS[call](store, PATIENT)
            assert_no_secret(caught.value)

        assert len(list(threads.map(fail, CALLS))) == len(CALLS)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [401, 403])
def test_expired_credentials_are_refused_without_telling_them(
    store_at: Callable[[str], Store], call: str, status: int
) -> None:
    body = f"<Error><Code>ExpiredToken</Code><StringToSign>{SECRET}</StringToSign></Error>"
    with answering(status, body.encode()) as server:
        store = store_at(server)

        with pytest.raises(AccessDenied, match=f"the server answered {status}") as caught:
            CALLS[call](store, PATIENT)

    assert caught.value.hint is not None
    assert "expired" in caught.value.hint
    assert_no_secret(caught.value)


def test_a_server_that_is_not_there_is_unavailable(store_at: Callable[[str], Store]) -> None:
    store = store_at(f"http://127.0.0.1:{free_port()}")

    with pytest.raises(StoreUnavailable, match=r"refused|failed"):
        store.read("a", limits=PATIENT)


def assert_no_secret(error: StorageError) -> None:
    """Not in the message, the hint or a chained cause; the context is not shown."""
    shown = f"{error} {error.hint}"
    assert SECRET not in shown
    assert SECRET_BASE64 not in shown
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_process_with_a_hung_call_can_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
from outlast.storage import StorageTimeout, final, open_store
store = open_store("gs://bucket/run")
try:
    store.create("a", [bytes(1000)], limits=final(0.3))
except StorageTimeout:
    raise SystemExit(75)
"""
    with hanging() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server)

        done = subprocess.run(
            [sys.executable, "-c", program], check=False, timeout=PATIENCE_SECONDS
        )

    assert done.returncode == 75


def test_a_forked_child_is_told_instead_of_waiting_for_ever() -> None:
    program = """
import os
from outlast.storage import StoreUnavailable, final, open_store
store = open_store("gs://bucket/run")
try:
    store.read("a", limits=final(0.2))
except Exception:
    pass
child = os.fork()
if child == 0:
    try:
        store.read("a")
    except StoreUnavailable as error:
        os._exit(7 if "forked" in str(error) else 1)
    os._exit(2)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    with hanging() as server:
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=False,
            timeout=PATIENCE_SECONDS,
            env={**os.environ, "STORAGE_EMULATOR_HOST": server},
        )

    assert done.returncode == 7


@pytest.mark.parametrize(("scheme", "extra"), [("gs", "gcs"), ("s3", "s3"), ("az", "azure")])
def test_a_missing_client_is_named_with_the_extra_of_its_scheme(
    scheme: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "outlast.storage.objects.store", raising=False)

    with pytest.raises(
        MissingExtra, match=f"Storage at {scheme}:// needs .* not installed"
    ) as caught:
        open_store(f"{scheme}://bucket/run")

    assert caught.value.hint == f"Run: pip install 'outlast[{extra}]'"
    assert caught.value.extra == extra


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("status code: 507 Insufficient Storage", StoreFull),
        ("status code: 404 Not Found: <Code>NoSuchBucket</Code>", StoreUnavailable),
        ("status code: 400 Bad Request: <Code>ExpiredToken</Code>", AccessDenied),
        ("HttpError { kind: Timeout }", StorageTimeout),
        ("dns error: failed to lookup address", StoreUnavailable),
    ],
)
def test_what_the_client_says_becomes_one_of_our_errors(
    text: str, kind: type[StorageError]
) -> None:
    error = as_storage_error(Exception(text), "write", "gs://bucket", "a")

    assert type(error) is kind
    assert error.name == "a"
    assert error.hint


@pytest.mark.parametrize(
    ("doing", "url", "is_named"),
    [("write", "s3://bucket", True), ("read", "s3://bucket", False), ("write", "gs://b", False)],
)
def test_a_refused_upload_names_the_setting_that_signs_its_content(
    doing: str, url: str, is_named: bool
) -> None:
    error = as_storage_error(PermissionDeniedError("status code: 403 Forbidden"), doing, url, "a")

    assert isinstance(error, AccessDenied)
    assert ("AWS_UNSIGNED_PAYLOAD=false" in str(error.hint)) is is_named


def test_opening_a_store_asks_nobody() -> None:
    store: Store = ObjectStore("gs://bucket/run/", environ={"STORAGE_EMULATOR_HOST": "127.0.0.1:1"})

    assert store.url == "gs://bucket/run"


@pytest.mark.parametrize("url", ["gs://", "s3:///folder"])
def test_an_address_without_a_bucket_is_refused(url: str) -> None:
    with pytest.raises(BadURL, match="has no bucket name"):
        find_endpoint(url, {})


@pytest.mark.parametrize("url", [f"s3://key:{SECRET}@bucket/run", f"az://bucket/run?sig={SECRET}"])
def test_an_address_with_a_secret_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(BadURL, match="only a bucket and a folder") as caught:
        find_endpoint(url, {})

    assert SECRET not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("scheme", ENDPOINTS)
def test_a_distant_server_is_not_asked_without_encryption(scheme: str) -> None:
    with pytest.raises(BadURL, match=r"does not use encryption|is not on this machine"):
        find_endpoint(f"{scheme}://bucket", {ENDPOINTS[scheme]: "http://storage.example"})


@pytest.mark.parametrize(
    ("scheme", "variable"), [("s3", "AWS_ALLOW_HTTP"), ("az", "AZURE_ALLOW_HTTP")]
)
def test_a_server_without_encryption_has_to_be_allowed_by_name(
    scheme: str, variable: str, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {ENDPOINTS[scheme]: "http://minio.storage:9000"}

    with pytest.raises(BadURL, match=f"{ENDPOINTS[scheme]} does not use encryption") as caught:
        find_endpoint(f"{scheme}://bucket", {**environ, variable: "false"})
    found = find_endpoint(f"{scheme}://bucket", {**environ, variable: "true"})

    assert f"set {variable}=true" in str(caught.value.hint)
    assert found.config["endpoint"] == "http://minio.storage:9000"
    assert found.allows_http
    assert f"sent unencrypted, because {variable} is set" in caplog.text


@pytest.mark.parametrize(
    ("server", "is_unsigned"),
    [
        (None, "true"),
        ("https://minio.example", "true"),
        ("http://127.0.0.1:9000", "true"),
        ("http://minio.storage:9000", "false"),
    ],
)
def test_what_could_be_changed_on_the_way_is_always_signed(
    server: str | None, is_unsigned: str
) -> None:
    environ = {"AWS_ENDPOINT_URL": server} if server else {}
    allowed = {"AWS_ALLOW_HTTP": "true", "AWS_UNSIGNED_PAYLOAD": "true"}

    assert find_endpoint("s3://bucket", {**environ, **allowed}).config["unsigned_payload"] == (
        is_unsigned
    )


@pytest.mark.parametrize("server", ["https://elsewhere.example", "http://10.0.0.7:4443"])
def test_an_emulator_elsewhere_never_gets_the_access_token(server: str) -> None:
    with pytest.raises(BadURL, match="STORAGE_EMULATOR_HOST names a server that is not on"):
        find_endpoint("gs://bucket", {"STORAGE_EMULATOR_HOST": server})


def test_only_a_server_on_this_machine_gets_the_token_of_an_emulator() -> None:
    near = find_endpoint("gs://bucket/a/b/", {"STORAGE_EMULATOR_HOST": "localhost:4443"})
    far = find_endpoint("gs://bucket", {"OUTLAST_GCS_ENDPOINT": "https://private.example"})

    assert near.config == {"base_url": "http://localhost:4443", "bearer_token": "emulator"}
    assert near.allows_http
    assert (near.url, near.prefix) == ("gs://bucket/a/b", "a/b")
    assert far.config == {"base_url": "https://private.example"}
    assert not far.allows_http
