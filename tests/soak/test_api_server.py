"""A minute without an API server. Prints how long it takes after the server answers again.

The server forgets what it had sent, so its first answers to the streams are 410.
"""

import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from outlast.cluster.connection.api import UpdateKind
from outlast.cluster.connection.feed import Feed
from outlast.cluster.errors import ClusterError
from outlast.cluster.resources import (
    EVENTS,
    JOBS,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    Query,
    Resource,
    name_of,
)
from tests.patience import PATIENCE_SECONDS, eventually
from tests.programs import outlast as outlast_program
from tests.servers.control_plane import ControlPlane, OwnApiServer

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600), pytest.mark.needs("control-plane")]

AWAY_SECONDS = 60.0
JOB = {
    "apiVersion": JOBS.api_version,
    "kind": JOBS.kind,
    "metadata": {"name": "tiny", "namespace": "default"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "example.com/train:1"}],
            }
        }
    },
}
KINDS = (PODS, EVENTS, JOBS, NODES, SERVICE_ACCOUNTS)


def test_the_feed_is_back_soon_after_the_server(tmp_path: Path) -> None:
    queries = {
        Query(resource=one, namespace="default" if one.is_namespaced else None): name_of
        for one in KINDS
    }
    with (
        closing(OwnApiServer(tmp_path)) as server,
        server.plane.client() as client,
        Feed(client, queries, cut_streams=client.cut_streams) as feed,
    ):
        _until_current(feed)
        server.kill()
        lost = _watched_for(feed, AWAY_SECONDS)
        server.start()
        eventually(lambda: _answers(server.plane), "the API server answers")
        answered = time.monotonic()
        _until_current(feed)
        print(f"back after {time.monotonic() - answered:.1f} s; reported as lost: {dict(lost)}")

    assert set(lost) == {str(kind) for kind in KINDS}


def test_watch_shows_the_age_of_its_picture_meanwhile(tmp_path: Path) -> None:
    words = {"one run": ("tiny",), "all runs": ("--all",)}
    kubeconfig = tmp_path / "kubeconfig"
    with closing(OwnApiServer(tmp_path)) as server, ExitStack() as stack:
        server.plane.kubeconfig(kubeconfig)
        with server.plane.client() as client:
            client.apply(JOBS, JOB)
        flags = ("--format", "json", "--kubeconfig", str(kubeconfig))
        watches = {
            name: stack.enter_context(outlast_program("watch", *given, *flags))
            for name, given in words.items()
        }
        for watch in watches.values():
            watch.wait_for('"as_of": null')
        server.kill()
        for watch in watches.values():
            watch.wait_for('"as_of": "')
        time.sleep(AWAY_SECONDS)
        server.start()
        eventually(lambda: _answers(server.plane), "the API server answers")
        answered = time.monotonic()
        for name, watch in watches.items():
            watch.wait_for('"as_of": null')
            print(f"{name}: current {time.monotonic() - answered:.1f} s after it answered")


def _until_current(feed: Feed) -> None:
    """Until all kinds are up to date."""
    current: set[Resource] = set()
    while current != set(KINDS):
        update = feed.next(PATIENCE_SECONDS)
        assert update is not None, current
        if update.kind is UpdateKind.CURRENT:
            current.add(update.query.resource)


def _watched_for(feed: Feed, seconds: float) -> Counter[str]:
    """How often each kind was reported as lost in this time."""
    lost: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        update = feed.next(left)
        if update is not None and update.kind is UpdateKind.LOST:
            lost[str(update.query.resource)] += 1
    return lost


def _answers(plane: ControlPlane) -> bool:
    try:
        with plane.client() as other:
            return bool(list(other.list(Query(resource=SERVICE_ACCOUNTS))) or True)
    except ClusterError:
        return False
