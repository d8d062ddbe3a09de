"""The logs of a run, from Pod to Pod: when one ends, the log of its replacement continues it.

Pods that run at the same time are followed at the same time. A connection that breaks is opened
again at the last line that arrived. Changes nothing.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from outlast._base.backoff import backoff_seconds
from outlast.cluster.connection.api import ClusterReader, Update, UpdateKind
from outlast.cluster.connection.feed import Feed
from outlast.cluster.diagnosis.causes.endings import has_ended
from outlast.cluster.diagnosis.facts import JobFact, PodFact, job_fact, pod_fact
from outlast.cluster.diagnosis.snapshot import moment
from outlast.cluster.errors import ApiRefusal, ClusterError, ClusterUnreachable
from outlast.cluster.runs.selection import RunSelection

_PAUSE_SECONDS_MAX = 5.0
_LINES_MAX = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """A line of a Pod's log. `note` is set instead of `data` for what is not from the Pod."""

    pod: str
    data: bytes = b""
    note: str = ""


def pods_of(cluster: ClusterReader, selection: RunSelection) -> list[PodFact]:
    """The Pods of a run that exist, oldest first."""
    found = [pod_fact(item) for item in cluster.list(selection.pods)]
    return sorted(found, key=lambda pod: (moment(pod.created), pod.name))


def newest_pods(pods: list[PodFact]) -> list[PodFact]:
    """The newest Pod that has started, for each completion index."""
    newest = {pod.index: pod for pod in pods if has_started(pod)}
    return list(newest.values())


def has_started(pod: PodFact) -> bool:
    """Whether there may be a log."""
    return any(one.is_running or one.exit_code is not None for one in pod.containers)


def read_log(cluster: ClusterReader, pod: PodFact, *, tail: int | None = None) -> Iterator[LogLine]:
    """The log of one Pod as it is now."""
    container = pod.containers[0].name if pod.containers else ""
    for line in cluster.logs(pod.name, pod.namespace, container=container, tail=tail):
        yield LogLine(pod=pod.name, data=line)


class LogFollower:
    """Follows the logs of all Pods of a run until the run has ended. Use it in a `with`."""

    def __init__(
        self,
        cluster: ClusterReader,
        selection: RunSelection,
        *,
        tail: int | None = None,
        cut_streams: Callable[[], object] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._tail = tail
        self._cut_streams = cut_streams
        self._stop = threading.Event()
        # Bounded, so that a fast log waits for a slow terminal.
        self._lines: queue.Queue[LogLine | ClusterError | None] = queue.Queue(_LINES_MAX)
        self._lanes: dict[str, _Lane] = {}
        self._pods: dict[str, PodFact] = {}
        self._jobs: dict[str, JobFact] = {}
        self._queries = {selection.pods: pod_fact, selection.jobs: job_fact}
        self._jobs_query = selection.jobs
        self._listed: set[object] = set()
        self._thread = threading.Thread(target=self._follow, name="follow Pods", daemon=True)

    def __enter__(self) -> "LogFollower":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        threads = [self._thread, *(lane.thread for lane in self._lanes.values())]
        for thread in threads:
            while thread.is_alive():
                self._cut_streams()
                self._discard()
                thread.join(0.1)

    def lines(self) -> Iterator[LogLine]:
        """All lines, until the run has ended. Raises if the Pods cannot be followed."""
        while (line := self._lines.get()) is not None:
            if isinstance(line, ClusterError):
                raise line
            yield line

    def _discard(self) -> None:
        while not self._lines.empty():
            self._lines.get_nowait()

    def _follow(self) -> None:
        with Feed(self._cluster, self._queries, cut_streams=self._cut_streams) as feed:
            while not self._stop.is_set():
                update = feed.next(0.5)
                if update is not None:
                    if update.query in feed.ended:
                        self._say(feed.ended[update.query])
                        break
                    self._take(update)
                if self._is_over():
                    break
        for lane in self._lanes.values():
            lane.pods.put(None)
        for lane in self._lanes.values():
            lane.thread.join()
        self._say(None)

    def _is_over(self) -> bool:
        if len(self._listed) < len(self._queries):
            return False
        # No Job at all: it was deleted.
        over = ("Complete", "Failed")
        is_over = all(any(job.is_true(one) for one in over) for job in self._jobs.values())
        return is_over and all(has_ended(pod) for pod in self._pods.values())

    def _take(self, update: Update[PodFact | JobFact]) -> None:
        if update.kind is UpdateKind.LOST:
            return
        is_first = update.kind is UpdateKind.LISTED and update.query not in self._listed
        if update.kind is UpdateKind.LISTED:
            self._listed.add(update.query)
            # What is not in a list is gone, without a report of its deletion. Replaced at once,
            # because other threads read them.
            if update.query == self._jobs_query:
                self._jobs = {}
            else:
                known = {one.uid: one for one in update.objects if isinstance(one, PodFact)}
                self._pods = known
        for fact in update.objects:
            if isinstance(fact, JobFact):
                self._jobs[fact.uid] = fact
            else:
                self._pods[fact.uid] = fact
        if update.kind is UpdateKind.DELETED:
            for fact in update.objects:
                self._pods.pop(fact.uid, None)
                self._jobs.pop(fact.uid, None)
        found = [one for one in update.objects if isinstance(one, PodFact)]
        # At the beginning only the newest of several Pods, whose log is the present.
        found.sort(key=lambda pod: moment(pod.created))
        pods = newest_pods(found) if is_first else found
        for pod in pods:
            if has_started(pod):
                self._open(pod)

    def _open(self, pod: PodFact) -> None:
        """Put a Pod into its lane: one after the other, unless they run at the same time."""
        name = pod.index or "" if self._parallelism <= 1 or pod.index else pod.uid
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(self._stream)
        if pod.uid not in lane.known:
            lane.known.add(pod.uid)
            lane.pods.put(pod)

    @property
    def _parallelism(self) -> int:
        return max((job.parallelism for job in self._jobs.values()), default=1)

    def _stream(self, pod: PodFact) -> None:
        """The log of one Pod to its end, across connections that break."""
        self._say(LogLine(pod=pod.name, note=f"Pod {pod.name} on {pod.node or 'an unknown node'}"))
        last, tries = b"", 0
        while not self._stop.is_set():
            count = 0
            try:
                for stamp, line in self._opened(pod, last):
                    self._say(LogLine(pod=pod.name, data=line))
                    last, count = stamp, count + 1
            except ApiRefusal as refusal:
                if refusal.status == 404:
                    return
                if not refusal.is_transient and refusal.status != 400:
                    self._say(LogLine(pod=pod.name, note=str(refusal)))
                    return
            except ClusterUnreachable:
                pass
            else:
                current = self._pods.get(pod.uid)
                if current is None or has_ended(current):
                    return
            tries = 0 if count else tries + 1
            self._stop.wait(backoff_seconds(tries, 0.2, _PAUSE_SECONDS_MAX))

    def _opened(self, pod: PodFact, last: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The lines after the last one that arrived, each with its time stamp."""
        container = pod.containers[0].name if pod.containers else ""
        lines = self._cluster.logs(
            pod.name,
            pod.namespace,
            container=container,
            follow=True,
            since_time=_second(last),
            tail=None if last else self._tail,
            timestamps=True,
        )
        for line in lines:
            stamp, _, text = line.partition(b" ")
            if stamp > last:
                yield stamp, text

    def _say(self, line: LogLine | ClusterError | None) -> None:
        while not self._stop.is_set():
            try:
                return self._lines.put(line, timeout=0.5)
            except queue.Full:
                continue


@dataclass
class _Lane:
    """Pods whose logs follow one another, and the thread that reads them."""

    stream: Callable[[PodFact], None]
    known: set[str] = field(default_factory=set)
    pods: "queue.SimpleQueue[PodFact | None]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name="follow log", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (pod := self.pods.get()) is not None:
            self.stream(pod)


def _second(stamp: bytes) -> str:
    """The second of a time stamp: the API server ignores fractions, and repeats its lines."""
    text = stamp.decode("ascii", "replace")
    return f"{text[:19]}Z" if text.endswith("Z") else ""
