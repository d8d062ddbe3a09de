"""The end of the logs of Pods whose program has failed: some causes are visible only there.

Each log is read once, in a thread, because a screen must never wait for it. Changes nothing.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable

from outlast.cluster.connection.api import ClusterReader
from outlast.cluster.diagnosis.causes.endings import INTERRUPTED_CODE, disruption, exited
from outlast.cluster.diagnosis.causes.job import ended_at
from outlast.cluster.diagnosis.facts import PodFact
from outlast.cluster.diagnosis.snapshot import Snapshot, moment
from outlast.cluster.errors import ApiRefusal, ClusterError

LINES_MAX = 100
_LINE_CHARACTERS_MAX = 2000
_KEPT_MAX = 8
_TRIES_MAX = 3


def newest_failure(snapshot: Snapshot) -> PodFact | None:
    """The Pod whose program failed last, None if none did by itself."""
    failed = [pod for pod in snapshot.pods if pod.phase == "Failed" and not disruption(pod)]
    exits = [
        pod
        for pod in failed
        if (container := exited(pod)) is not None
        and container.exit_code not in (0, INTERRUPTED_CODE)
    ]
    return max(exits, key=lambda pod: (moment(ended_at(pod)), pod.name), default=None)


class ProgramLogs:
    """Reads the end of one log at a time. `texts` has what was read, by the UID of the Pod.

    `problem` says why the last log could not be read, None if it could; `reads` counts both.
    """

    def __init__(
        self, cluster: ClusterReader, *, cut_streams: Callable[[], object] = lambda: None
    ) -> None:
        self.problem: ClusterError | None = None
        self.reads = 0
        self._cluster = cluster
        self._cut_streams = cut_streams
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._tries: dict[str, int] = {}
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "ProgramLogs":
        return self

    def __exit__(self, *_: object) -> None:
        while self._is_reading:
            # Again and again, because it may open its stream only now.
            self._cut_streams()
            self.wait(0.1)

    @property
    def texts(self) -> dict[str, str]:
        return dict(self._texts)

    def ask(self, pod: PodFact) -> None:
        """Read the log of a Pod that has ended, unless it was read or another one is being read."""
        tries = self._tries.get(pod.uid, 0)
        if self._is_reading or pod.uid in self._texts or tries >= _TRIES_MAX:
            return
        self._tries[pod.uid] = tries + 1
        self._thread = threading.Thread(
            target=self._read, args=(pod,), name="read log", daemon=True
        )
        self._thread.start()

    def wait(self, timeout_seconds: float) -> None:
        """Wait until the log that was asked for is there, or cannot be read."""
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    @property
    def _is_reading(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _read(self, pod: PodFact) -> None:
        self._keep(pod)
        self.reads += 1

    def _keep(self, pod: PodFact) -> None:
        container = exited(pod)
        try:
            lines = self._cluster.logs(
                pod.name,
                pod.namespace,
                container=container.name if container else "",
                tail=LINES_MAX,
            )
            found = [line[:_LINE_CHARACTERS_MAX].decode(errors="replace") for line in lines]
        except ClusterError as error:
            self.problem = error
            if not isinstance(error, ApiRefusal) or error.is_transient:
                return
            found = []
        else:
            self.problem = None
        self._texts[pod.uid] = "\n".join(found[-LINES_MAX:])
        while len(self._texts) > _KEPT_MAX:
            self._texts.popitem(last=False)
