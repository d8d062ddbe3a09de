"""The client against a server that answers as a broken or busy one does."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.cluster.connection.api import Update, UpdateKind
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.feed import Feed
from outlast.cluster.connection.kubeconfig import find_access
from outlast.cluster.connection.link import Link
from outlast.cluster.errors import ApiRefusal, ClusterUnreachable
from outlast.cluster.resources import JOBS, PODS, Query, name_of
from tests.servers.forwarding import Answer, Request, serving
from tests.unit.cluster.kubeconfigs import write_kubeconfig

QUERY = Query(resource=PODS, namespace="team-a")
JSON = {"content-type": "application/json"}


def _json(body: object, status: int = 200, **headers: str) -> Answer:
    return Answer(status=status, headers={**JSON, **headers}, body=json.dumps(body).encode())


def _status(code: int, message: str = "no", **headers: str) -> Answer:
    body = {"kind": "Status", "code": code, "message": message, "reason": "Because"}
    return _json(body, code, **headers)


def _pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def _list(*pods: dict[str, Any], version: int = 1, token: str = "") -> Answer:
    return _json({"metadata": {"resourceVersion": str(version), "continue": token}, "items": pods})


def _events(*events: tuple[str, dict[str, Any]]) -> Answer:
    lines = [json.dumps({"type": kind, "object": item}) for kind, item in events]
    return Answer(status=200, headers=JSON, body="".join(f"{line}\n" for line in lines).encode())


class Impatient(threading.Event):
    """Stops nothing, and waits for nothing: the pauses between tries are not tested here."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


class Script:
    """Answers in order, then the last one again. `asked` has the requests."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self._lock = threading.Lock()
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> Answer:
        with self._lock:
            self.asked.append(request)
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@contextmanager
def _client(
    tmp_path: Path, answer: Callable[[Request], Answer], **user: str
) -> Iterator[tuple[ClusterClient, list[float]]]:
    slept: list[float] = []
    with serving(answer) as url:
        file = write_kubeconfig(tmp_path / "config", url, user=user)
        with ClusterClient(Link(find_access(kubeconfig=file)), sleep=slept.append) as client:
            yield client, slept


def test_a_list_is_requested_in_pages(tmp_path: Path) -> None:
    script = Script(_list(_pod("a", 1), token="next"), _list(_pod("b", 2)))
    with _client(tmp_path, script) as (client, _):
        names = [name_of(pod) for pod in client.list(QUERY)]

    assert names == ["a", "b"]
    assert [request.path for request in script.asked] == [
        "/api/v1/namespaces/team-a/pods?limit=500",
        "/api/v1/namespaces/team-a/pods?limit=500&continue=next",
    ]


def test_too_many_requests_are_repeated_when_the_server_says(tmp_path: Path) -> None:
    busy = Answer(status=429, headers={"retry-after": "7"}, body=b"Too many requests")
    with _client(tmp_path, Script(busy, busy, _list(_pod("a", 1)))) as (client, slept):
        assert len(list(client.list(QUERY))) == 1

    assert slept == [7.0, 7.0]


def test_a_server_that_stays_busy_is_given_up(tmp_path: Path) -> None:
    busy = _status(429, "busy", **{"retry-after": "40"})
    with _client(tmp_path, Script(busy)) as (client, slept), pytest.raises(ApiRefusal) as caught:
        list(client.list(QUERY))

    assert caught.value.exit_code == 3
    assert slept == [40.0]


def test_a_connection_that_breaks_is_made_again(tmp_path: Path) -> None:
    broken = Answer(status=200, headers=JSON, body=b"x" * 100, reset_after=10)
    script = Script(Answer(status=200, reset_after=-1), broken, _list(_pod("a", 1)))
    with _client(tmp_path, script) as (client, _):
        assert len(list(client.list(QUERY))) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=502, body=b"<html>\x1b[31mBad\nGateway</html>"), "HTTP 502, and not from"),
        (Answer(status=200, body=b"<html>Log in</html>"), "not JSON"),
        (Answer(status=200, body=b"[]"), "not an object"),
        (Answer(status=401), "does not accept the credentials"),
    ],
    ids=["proxy", "portal", "list", "unauthorized"],
)
def test_what_is_not_kubernetes_is_unreachable(tmp_path: Path, answer: Answer, words: str) -> None:
    with (
        _client(tmp_path, Script(answer)) as (client, _),
        pytest.raises(ClusterUnreachable, match=words) as caught,
    ):
        list(client.list(QUERY))

    assert caught.value.exit_code == 3
    assert caught.value.hint
    assert "\x1b" not in str(caught.value)


def test_an_expired_token_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    def answer(request: Request) -> Answer:
        if request.headers["authorization"] == "Bearer new":
            return _list(_pod("a", 1))
        token.write_text("new")
        return Answer(status=401)

    with _client(tmp_path, answer, tokenFile="token") as (client, slept):
        assert len(list(client.list(QUERY))) == 1

    assert slept == []


def test_a_message_of_the_server_is_escaped_and_cut(tmp_path: Path) -> None:
    hostile = "\x1b]0;title\x07\u202e\nhint:  rm -rf /" + "x" * 250_000
    with _client(tmp_path, Script(_status(422, hostile))) as (client, _):
        with pytest.raises(ApiRefusal) as caught:
            client.apply(JOBS, {"metadata": {"name": "a"}})

    assert caught.value.text == hostile
    assert len(str(caught.value)) < 1200
    assert str(caught.value).isprintable()


def test_an_object_that_is_not_there_is_none(tmp_path: Path) -> None:
    with _client(tmp_path, Script(_status(404))) as (client, _):
        assert client.get(PODS, "a", "team-a") is None
        client.delete(PODS, "a", "team-a", uid="1")
        assert client.find("nosuch.example/v1", "Thing") is None


def test_names_cannot_change_the_path(tmp_path: Path) -> None:
    script = Script(_status(404))
    with _client(tmp_path, script) as (client, _):
        client.get(PODS, "../../secrets", "a/b?c")

    assert script.asked[0].path == "/api/v1/namespaces/a%2Fb%3Fc/pods/..%2F..%2Fsecrets"


def test_following_survives_everything_that_a_server_may_do(tmp_path: Path) -> None:
    gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
    script = Script(
        _list(_pod("a", 1), version=5),
        _events(("MODIFIED", _pod("a", 6)), ("BOOKMARK", _pod("", 9))),
        Answer(status=200, reset_after=-1),
        _status(500, "etcd is away"),
        _events(("ADDED", _pod("b", 10)), ("ERROR", gone)),
        _list(_pod("c", 20), version=20),
        _status(410, "expired"),
        _list(_pod("d", 30), version=30),
        _events(("DELETED", _pod("d", 31))),
    )
    seen = []
    with _client(tmp_path, script) as (client, _):
        for update in client.follow(QUERY, name_of, stop=Impatient()):
            if update.kind is not UpdateKind.CURRENT:
                seen.append((update.kind.value, update.objects))
            if update.kind is UpdateKind.DELETED:
                break

    assert seen == [
        ("listed", ("a",)),
        ("changed", ("a",)),
        ("lost", ()),
        ("lost", ()),
        ("changed", ("b",)),
        ("listed", ("c",)),
        ("listed", ("d",)),
        ("deleted", ("d",)),
    ]
    watches = [request.path for request in script.asked if "watch=true" in request.path]
    versions = [path.partition("resourceVersion=")[2].partition("&")[0] for path in watches]
    assert versions == ["5", "9", "9", "9", "20", "30"]
    assert all("allowWatchBookmarks=true" in path for path in watches)
    assert all("timeoutSeconds=300" in path for path in watches)


class Timed(Impatient):
    """Waits for nothing, and remembers for how long it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return self.is_set()


def test_following_pauses_for_as_long_as_a_busy_server_asks(tmp_path: Path) -> None:
    busy = {"retry-after": "7"}
    script = Script(
        _list(_pod("a", 1), version=5),
        _status(429, "too many requests", **busy),
        _status(429, "too many requests", **{"retry-after": "3600"}),
        _events(("DELETED", _pod("a", 6))),
    )
    stop, problems = Timed(), []
    with _client(tmp_path, script) as (client, _):
        for update in client.follow(QUERY, name_of, stop=stop):
            if update.kind is UpdateKind.LOST:
                problems.append(update.problem)
            if update.kind is UpdateKind.DELETED:
                break

    assert [wait for wait in stop.waits if wait >= 7] == [7.0, 60.0]
    assert ["too many requests" in str(one) for one in problems] == [True, True]
    assert [one.exit_code for one in problems if one is not None] == [3, 3]


def test_a_half_line_is_not_taken_for_an_event(tmp_path: Path) -> None:
    half = Answer(status=200, headers=JSON, body=b'{"type": "ADDED", "obj')
    script = Script(_list(version=5), half, _events(("ADDED", _pod("b", 6))))
    with _client(tmp_path, script) as (client, _):
        kinds = []
        for update in client.follow(QUERY, name_of, stop=Impatient()):
            kinds.append(update.kind)
            if update.kind is UpdateKind.CHANGED:
                break

    assert UpdateKind.LOST in kinds


def test_a_missing_permission_ends_only_its_own_query(tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        if "/jobs" in request.path:
            said = 'jobs is forbidden: User "u" cannot list resource "jobs" in API group "batch"'
            return _status(403, said)
        return _events() if "watch" in request.path else _list(_pod("a", 1))

    jobs = Query(resource=JOBS, namespace="team-a")
    with _client(tmp_path, answer) as (client, _):
        with Feed(client, {QUERY: name_of, jobs: name_of}, cut_streams=client.cut_streams) as feed:
            updates: list[Update[str]] = []
            while len({update.query for update in updates}) < 2 or jobs not in feed.ended:
                update = feed.next(60)
                assert update is not None
                updates.append(update)

    assert list(feed.ended) == [jobs]
    assert "outlast doctor --role" in (feed.ended[jobs].hint or "")


def test_a_feed_closes_while_its_streams_are_silent(tmp_path: Path) -> None:
    opened, release = threading.Event(), threading.Event()

    def answer(request: Request) -> Answer:
        if "watch" in request.path:
            opened.set()
            # The headers are not even sent: the thread waits for them when the feed closes.
            release.wait(60)
            return _events()
        return _list(_pod("a", 1))

    with _client(tmp_path, answer) as (client, _):
        with Feed(client, {QUERY: name_of}, cut_streams=client.cut_streams):
            assert opened.wait(60)
            release.set()


def test_no_server_is_one_error(tmp_path: Path) -> None:
    with serving(lambda _: _list()) as url:
        pass
    file = write_kubeconfig(tmp_path / "config", url)
    with (
        ClusterClient(Link(find_access(kubeconfig=file)), sleep=lambda _: None) as client,
        pytest.raises(ClusterUnreachable, match="cannot be reached") as caught,
    ):
        client.version()

    assert "kubectl cluster-info" in (caught.value.hint or "")
