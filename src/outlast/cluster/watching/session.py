"""Follow one run: its objects in the cluster by the feed, and its journal in a thread.

Works with either of them alone. Changes nothing; if killed, nothing is left.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self, TypeAlias

from outlast.cluster.connection.api import ClusterReader
from outlast.cluster.connection.feed import Feed
from outlast.cluster.diagnosis.causes.job import ended_at
from outlast.cluster.diagnosis.snapshot import Snapshot, moment
from outlast.cluster.errors import ClusterError, forbidden_error
from outlast.cluster.runs.journals import JournalReading, JournalWatch
from outlast.cluster.runs.selection import RunSelection
from outlast.cluster.runs.target import RunTarget, reachable_url
from outlast.cluster.watching.figures import FinishTimes, Money, NoEstimate
from outlast.cluster.watching.gaps import clock_gaps, journal_gaps, log_gaps, source_gaps
from outlast.cluster.watching.join import ends_of
from outlast.cluster.watching.picture import ClusterPicture
from outlast.cluster.watching.program_logs import ProgramLogs, newest_failure
from outlast.cluster.watching.sources import is_required, run_sources
from outlast.cluster.watching.view import RunSources, RunState, RunView, state_of, view_of
from outlast.journal.place import AttemptPlace

if TYPE_CHECKING:
    from outlast.capacity.vocabulary import Tier

Figures: TypeAlias = tuple[Money | None, FinishTimes | NoEstimate | None]

_SKEW_MIN = timedelta(seconds=1)
_ESTIMATE_SECONDS = 300.0
"""The simulation is repeated this often while nothing changes: the present moves on."""


class RunCluster:
    """A run in a cluster, followed by a feed."""

    def __init__(
        self,
        cluster: ClusterReader,
        selection: RunSelection,
        *,
        cut_streams: Callable[[], object] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        sources = run_sources(cluster, selection)
        self.selection = selection
        self.picture = ClusterPicture(sources.queries, has_kueue=sources.has_kueue)
        self.feed = Feed(cluster, sources.queries, cut_streams=cut_streams)
        self.logs = ProgramLogs(cluster, cut_streams=cut_streams)
        self.now = now
        """The time as the cluster has it."""

    def take(self, timeout_seconds: float) -> bool:
        """Wait for news at most this long, and take all there is. Whether there was any."""
        update = self.feed.next(timeout_seconds)
        if update is None:
            return False
        self.picture.take(update, self.now())
        for more in self.feed.drain():
            self.picture.take(more, self.now())
        for query, error in self.feed.ended.items():
            if is_required(query):
                raise forbidden_error(query, error)
        return True

    def snapshot(self) -> Snapshot:
        key = next(self.picture.runs, None) or next(self.picture.over, None)
        if key is None:
            return Snapshot(now=self.now(), unread=self.picture.unread)
        return self.picture.snapshot(key, self.now())

    @property
    def problem(self) -> ClusterError | None:
        """Why the picture gets old, None while it is up to date."""
        return self.picture.problem(self.feed.ended)

    @property
    def as_of(self) -> datetime | None:
        """How old the picture is if the connection is lost, None otherwise."""
        return self.picture.as_of(self.feed.ended)


class WatchSession:
    """What is known of a run, from a cluster, a journal, or both. Use it in a `with`."""

    def __init__(
        self,
        target: RunTarget,
        *,
        cluster: RunCluster | None,
        namespace: str,
        gaps: tuple[str, ...] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._target = target
        self._cluster = cluster
        self._namespace = namespace
        self._gaps = gaps
        self._now = cluster.now if cluster is not None else now
        self._stack = ExitStack()
        self._journal: JournalWatch | None = None
        self._is_final = False
        self._seen: tuple[JournalReading | None, int] = (None, 0)
        self._figures = _Figures(target)

    def __enter__(self) -> Self:
        if self._cluster is not None:
            self._stack.enter_context(self._cluster.feed)
            self._stack.enter_context(self._cluster.logs)
        if self._target.url:
            self._open_journal(self._target.url)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def collect(self, timeout_seconds: float) -> None:
        """Wait until everything was read once. Raises if the cluster does not answer in time."""
        until = time.monotonic() + timeout_seconds
        while self._cluster is not None and not self._cluster.picture.is_complete:
            left = until - time.monotonic()
            if left <= 0 or (self._cluster.problem is not None and left < timeout_seconds / 2):
                break
            self.wait(min(left, 1.0))
        if self._cluster is not None and not self._cluster.picture.has_required:
            raise self._cluster.problem or ClusterError("The cluster did not answer in time.")
        self._open_stated_journal()
        if self._journal is not None:
            self._journal.first_look.wait(max(1.0, until - time.monotonic()))
        if self._cluster is not None:
            self._explained(self._cluster, self._reading)
            self._cluster.logs.wait(max(1.0, until - time.monotonic()))

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for news at most this long. Whether there was any."""
        has_news = False
        if self._cluster is not None:
            has_news = self._cluster.take(timeout_seconds)
            self._open_stated_journal()
        elif self._journal is not None:
            time.sleep(timeout_seconds)
        seen = (self._reading, self._cluster.logs.reads if self._cluster is not None else 0)
        has_news |= seen[0] is not self._seen[0] or seen[1] != self._seen[1]
        self._seen = seen
        return has_news

    def final_view(self, timeout_seconds: float) -> RunView:
        """The run after it has ended: its last events are newer than the last look at them."""
        if self._journal is not None:
            self._is_final = self._journal.look_again(timeout_seconds)
        return self.view()

    def view(self) -> RunView:
        """The run as it is known now."""
        now = self._now()
        reading = self._reading
        snapshot = self._explained(self._cluster, reading) if self._cluster is not None else None
        journals = reading.journals if reading else ()
        places = self._cluster.picture.places if self._cluster is not None else {}
        figures = self._figures.of(reading, snapshot, places, now)
        gaps = (*self._gaps, *journal_gaps(reading, self._target, snapshot))
        gaps += tuple(clock_gaps(self._skew))
        if self._cluster is not None:
            gaps += tuple(source_gaps(self._cluster.feed.ended))
            gaps += tuple(log_gaps(self._cluster.logs.problem))
        return view_of(
            RunSources(
                name=self._target.name,
                namespace=self._namespace,
                now=now,
                snapshot=snapshot,
                journals=journals,
                is_final=self._is_final,
                money=figures[0],
                finish=figures[1],
                url=reading.url if reading else "",
                gaps=gaps,
                as_of=self._cluster.as_of if self._cluster is not None else None,
            )
        )

    def _explained(self, cluster: RunCluster, reading: JournalReading | None) -> Snapshot:
        """What the cluster shows, with what the journal and the program's log add to it."""
        snapshot = cluster.snapshot()
        if reading is not None:
            snapshot = replace(snapshot, attempts_ended=ends_of(reading.journals, snapshot))
        failure = newest_failure(snapshot)
        if failure is None or reading is None or reading.problem or reading.read_at is None:
            return snapshot
        if reading.journals:
            return replace(snapshot, has_started=True)
        if reading.read_at + self._skew < moment(ended_at(failure)):
            # Read before the program ended, so whether it had started is not known yet.
            return snapshot
        cluster.logs.ask(failure)
        return replace(snapshot, has_started=False, logs=cluster.logs.texts)

    @property
    def _skew(self) -> timedelta:
        """How far the cluster's clock is ahead of this machine's."""
        skew = self._now() - datetime.now(UTC)
        return skew if abs(skew) >= _SKEW_MIN else timedelta(0)

    @property
    def _reading(self) -> JournalReading | None:
        return self._journal.latest if self._journal is not None else None

    def _open_stated_journal(self) -> None:
        """Open the journal where the Job states that it is, unless another place was given."""
        if self._journal is not None or self._cluster is None:
            return
        for job in self._cluster.snapshot().jobs:
            if url := reachable_url(job.run_url):
                self._open_journal(url)
                return

    def _open_journal(self, url: str) -> None:
        self._journal = self._stack.enter_context(JournalWatch(url))


class _Figures:
    """Money and the estimate, computed again only if something changed."""

    def __init__(self, target: RunTarget) -> None:
        self._target = target
        self._key: object = None
        self._reading: JournalReading | None = None
        self._found: Figures = (None, None)

    def of(
        self,
        reading: JournalReading | None,
        snapshot: Snapshot | None,
        places: Mapping[str, AttemptPlace],
        now: datetime,
    ) -> Figures:
        if reading is None or not reading.journals:
            return None, None
        is_running = snapshot is None or state_of(snapshot, None) is RunState.RUNNING
        tier = _stated_tier(snapshot)
        known = _known_places(reading, places)
        key = (is_running, tier, known, int(now.timestamp() // _ESTIMATE_SECONDS))
        # The reading itself is kept: another one may get the identity of one that is gone.
        if reading is not self._reading or key != self._key:
            self._reading, self._key = reading, key
            self._found = self._compute(reading, known, tier, is_running=is_running, now=now)
        return self._found

    def _compute(
        self,
        reading: JournalReading,
        places: Mapping[str, AttemptPlace],
        tier: "Tier | None",
        *,
        is_running: bool,
        now: datetime,
    ) -> Figures:
        # NumPy and the models of a workload are imported after the first request was sent.
        from outlast.cluster.watching.estimate import finish_of
        from outlast.cluster.watching.money import money_of

        workload = self._target.workload
        money = money_of(reading.journals, workload, places=places)
        if all(one.summary.finished for one in reading.journals):
            return money, None
        if workload is None:
            return money, NoEstimate(why="Pass the workload file to see when it finishes.")
        if len(reading.journals) > 1:
            return money, NoEstimate(why="There is no estimate for a run of several parts.")
        journal = reading.journals[0]
        return money, finish_of(journal, workload, is_running=is_running, now=now, tier=tier)


def _stated_tier(snapshot: Snapshot | None) -> "Tier | None":
    """Where the Job runs now: the file may state another tier than it was submitted with."""
    from outlast.capacity.vocabulary import Tier

    stated = {job.tier for job in snapshot.jobs} if snapshot is not None else set()
    return next((tier for tier in Tier if stated == {tier.value}), None)


def _known_places(
    reading: JournalReading, places: Mapping[str, AttemptPlace]
) -> dict[str, AttemptPlace]:
    attempts = (one for journal in reading.journals for one in journal.summary.attempts)
    nodes = dict.fromkeys(one.place.node for one in attempts)
    return {node: places[node] for node in nodes if node is not None and node in places}
