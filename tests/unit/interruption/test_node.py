"""The expiry of a node, read over TLS from a server that answers like the Kubernetes API."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from outlast.interruption import node
from outlast.interruption.node import ANNOTATION, NodeExpiryLookup, expiry_of
from tests.patience import PATIENCE_SECONDS
from tests.stubs.kubernetes import ApiServer, make_certificate, node_with

EXPIRY = datetime(2026, 11, 22, 18, 30, tzinfo=UTC)


def ask(api: ApiServer) -> list[datetime]:
    answers: list[datetime] = []
    lookup = NodeExpiryLookup(
        "gke-flex-1", answers.append, service_account=api.service_account, environ=api.environ
    )
    lookup.start()
    lookup._thread.join(PATIENCE_SECONDS)
    assert not lookup._thread.is_alive()
    return answers


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    monkeypatch.setattr(node, "_PAUSE_SECONDS", 0.01)
    with ApiServer(tmp_path) as api:
        yield api


@pytest.mark.needs("openssl")
def test_the_annotation_is_read_with_the_pod_s_own_account(api: ApiServer) -> None:
    api.answers = [(200, node_with({ANNOTATION: "2026-11-22T18:30:00Z"}))]

    assert ask(api) == [EXPIRY]
    assert api.seen == [("/api/v1/nodes/gke-flex-1", "Bearer pod-token")]


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_role_that_does_not_allow_it_is_asked_once_and_means_unknown(
    api: ApiServer, status: int
) -> None:
    api.answers = [(status, {"kind": "Status"})]

    assert ask(api) == []
    assert len(api.seen) == 1


@pytest.mark.needs("openssl")
def test_a_server_that_stumbles_is_asked_again_but_not_for_ever(api: ApiServer) -> None:
    api.answers = [
        (500, {}),
        (200, b"junk"),
        (200, node_with({ANNOTATION: "2026-11-22T18:30:00Z"})),
    ]
    assert ask(api) == [EXPIRY]

    api.seen.clear()
    api.answers = [(500, {})]
    assert ask(api) == []
    assert len(api.seen) == 5


@pytest.mark.needs("openssl")
def test_an_unknown_certificate_is_not_trusted(api: ApiServer) -> None:
    api.answers = [(200, node_with({ANNOTATION: "2026-11-22T18:30:00Z"}))]
    make_certificate(api.service_account / "ca.crt", api.service_account / "other.pem")

    assert ask(api) == []
    assert api.seen == []


def test_a_pod_without_a_service_account_does_not_know(tmp_path: Path) -> None:
    answers: list[datetime] = []
    lookup = NodeExpiryLookup("n", answers.append, service_account=tmp_path, environ={})
    lookup.start()
    lookup.close()

    assert answers == []


@pytest.mark.needs("openssl")
def test_a_malformed_token_is_neither_sent_nor_logged(
    api: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    (api.service_account / "token").write_text("Zq7xW9kPv3\r\nX-Other: LmT2secret\n")

    assert ask(api) == []
    assert api.seen == []
    assert "malformed" in caplog.text
    assert "Zq7xW9kPv3" not in caplog.text and "LmT2secret" not in caplog.text


@pytest.mark.parametrize(
    "body",
    [None, [], "x", {}, {"metadata": 1}, node_with(None), node_with({ANNOTATION: 5})],
    ids=repr,
)
def test_an_object_without_the_annotation_means_unknown(body: object) -> None:
    assert expiry_of(body) is None
