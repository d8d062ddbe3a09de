"""A program without access to its bucket (P42), as `outlast watch` finds it out."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outlast.cluster.resources import JOBS, PODS
from outlast.cluster.runs.selection import select_run
from outlast.cluster.runs.target import RunTarget
from outlast.cluster.watching.session import RunCluster, WatchSession
from tests.patience import eventually
from tests.unit.cli.journal_files import write_journal
from tests.unit.cluster.served_runs import NAMESPACE, Served, failed, served
from tests.unit.cluster.watched_runs import records_of, three_attempts

LOG = b"""Traceback (most recent call last):
google.api_core.exceptions.Forbidden: 403 GET https://storage.googleapis.com/runs: Forbidden
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Served]:
    """A Job whose Pod has just failed with exit code 1."""
    with served(tmp_path) as found:
        found.api.store.controllers = []
        found.add_job()
        found.api.store.put(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "tiny-1",
                    "namespace": NAMESPACE,
                    "labels": {"batch.kubernetes.io/job-name": "tiny"},
                    "ownerReferences": [
                        {"uid": found.api.store.all(JOBS)[0]["metadata"]["uid"], "controller": True}
                    ],
                },
                "spec": {"nodeName": "n1"},
                "status": failed(1, _stamp(datetime.now(UTC) - timedelta(seconds=3))),
            },
        )
        found.api.logs["tiny-1"] = LOG
        yield found


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _cause(cluster: Served, *words: str | Path) -> str | None:
    done = cluster.outlast("watch", "tiny", "--once", "--format", "json", *words)
    assert done.code == 0, done
    cause: str | None = done.json["why"]["cause"]
    return cause


def test_no_start_in_the_journal_and_403_in_the_log(cluster: Served, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()

    done = cluster.outlast("watch", "tiny", "--once", "--journal", tmp_path / "run")

    assert "The program has no access to its bucket (403)" in done.stdout
    assert "google.api_core.exceptions.Forbidden: 403 GET" in done.stdout
    assert "`outlast doctor`" in done.stdout


def test_near_miss_the_journal_has_a_start(cluster: Served, tmp_path: Path) -> None:
    url = write_journal(tmp_path / "run", records_of(three_attempts()))

    assert _cause(cluster, "--journal", url) == "P32"


def test_near_miss_the_log_has_no_403(cluster: Served, tmp_path: Path) -> None:
    cluster.api.logs["tiny-1"] = b"ValueError: 403 rows are too few\n"

    assert _cause(cluster, "--journal", tmp_path) == "P32"


def test_near_miss_no_journal_is_known(cluster: Served) -> None:
    assert _cause(cluster) == "P32"


def test_near_miss_the_journal_cannot_be_read(cluster: Served, tmp_path: Path) -> None:
    """Whether the program had started is not known then."""
    (tmp_path / "run").touch()

    assert _cause(cluster, "--journal", tmp_path / "run") == "P32"


def test_near_miss_interrupted_after_saving(cluster: Served, tmp_path: Path) -> None:
    cluster.set_pod("tiny-1", failed(75, _stamp(datetime.now(UTC) - timedelta(seconds=3))))

    assert _cause(cluster, "--journal", tmp_path) == "P32"


def test_without_permission_for_logs_the_line_of_the_role_is_shown(
    cluster: Served, tmp_path: Path
) -> None:
    cluster.api.forbidden.add(("get", "pods/log"))

    done = cluster.outlast(
        "watch", "tiny", "--once", "--format", "json", "--journal", str(tmp_path)
    )

    assert done.json["why"]["cause"] == "P32"
    assert done.json["notes"][-1] == (
        "No permission for pods/log: why the program fails may not be known. Add to a Role: "
        '{apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}.'
    )


def test_a_log_is_read_once_and_news_reaches_a_screen_that_waits(
    cluster: Served, tmp_path: Path
) -> None:
    from outlast.cluster.connection.client import connect

    reads = []
    with connect(kubeconfig=cluster.kubeconfig) as client:
        watched = RunCluster(client, select_run(client, "tiny", NAMESPACE))
        logs = client.logs

        def counted(*args: str, **options: object) -> Iterator[bytes]:
            reads.append(args)
            return logs(*args, **options)  # type: ignore[arg-type]

        client.logs = counted  # type: ignore[method-assign]
        target = RunTarget(name="tiny", url=str(tmp_path))
        with WatchSession(target, cluster=watched, namespace=NAMESPACE) as session:
            session.collect(20.0)

            def cause() -> str | None:
                # As the screen does: it looks again only if there is news.
                why = session.view().why if session.wait(0.05) else None
                return why.cause if why else None

            eventually(lambda: cause() == "P42", "the log was read")
            for _ in range(3):
                session.view()

    assert len(reads) == 1
