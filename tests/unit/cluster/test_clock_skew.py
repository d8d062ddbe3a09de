"""A machine whose clock differs from the cluster's: times of objects mean what they mean there."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outlast.cluster.connection.client import connect
from outlast.cluster.connection.link import _skew
from outlast.cluster.resources import JOBS
from tests.unit.cluster.served_runs import NAMESPACE, Served, failed, served

TEN_MINUTES = timedelta(minutes=10)
# The answers take a while to arrive, and times are shown in whole minutes.
HALF_A_MINUTE = timedelta(seconds=30)


def _failed_just_now(cluster: Served, skew: timedelta) -> None:
    """A cluster with another clock, and a Job that waits for its back-off by that clock."""
    cluster.api.clock = lambda: datetime.now(UTC) + skew
    cluster.add_job()
    cluster.api.store.controllers = []
    ended = cluster.api.clock() - timedelta(seconds=2)
    cluster.set_pod("tiny-1", failed(1, ended.strftime("%Y-%m-%dT%H:%M:%SZ")))
    cluster.api.store.merge(JOBS, NAMESPACE, "tiny", {"status": {"active": 0}}, "controller")


@pytest.mark.parametrize(
    ("skew", "words"),
    [
        (TEN_MINUTES + HALF_A_MINUTE, "is 10 min behind the cluster's"),
        (-2 * TEN_MINUTES - HALF_A_MINUTE, "is 20 min ahead of the cluster's"),
    ],
)
def test_a_back_off_is_recognized_whatever_clock_this_machine_has(
    skew: timedelta, words: str, tmp_path: Path
) -> None:
    with served(tmp_path) as cluster:
        _failed_just_now(cluster, skew)
        shown = cluster.outlast("watch", "tiny", "--once", "--format", "json").json
        everything = cluster.outlast("watch", "--all", "--once", "--format", "json").json

    assert shown["why"]["cause"] == "P32"
    assert everything["runs"][0]["why"]["cause"] == "P32"
    clock = datetime.fromisoformat(shown["now"]) - datetime.now(UTC)
    assert abs(clock - skew) < timedelta(minutes=5)
    assert any(words in note for note in shown["notes"])


def test_a_clock_that_is_right_is_not_mentioned(tmp_path: Path) -> None:
    with served(tmp_path) as cluster:
        _failed_just_now(cluster, timedelta(0))
        shown = cluster.outlast("watch", "tiny", "--once", "--format", "json").json

    assert not any("clock" in note for note in shown["notes"])


def test_a_clock_that_was_set_right_counts_again(tmp_path: Path) -> None:
    with served(tmp_path) as cluster, connect(kubeconfig=cluster.kubeconfig) as client:
        cluster.api.clock = lambda: datetime.now(UTC) + TEN_MINUTES
        client.version()
        before = client.skew
        cluster.api.clock = lambda: datetime.now(UTC)
        client.version()

    assert before > timedelta(minutes=9)
    assert client.skew == timedelta(0)


@pytest.mark.parametrize("date", ["", "soon", "Mon, 99 Nov 2026 11:00:00 GMT", "\x00"])
def test_a_date_that_cannot_be_read_changes_nothing(date: str) -> None:
    assert _skew(date, datetime.now(UTC)) is None
