"""All runs of a namespace or cluster as a table, kept up to date by updates.

Shows what the cluster knows. Only runs that have changed are diagnosed again.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from outlast.cluster.connection.api import ClusterReader
from outlast.cluster.connection.feed import Feed
from outlast.cluster.diagnosis.diagnosis import Diagnosis
from outlast.cluster.diagnosis.engine import why_waiting
from outlast.cluster.diagnosis.snapshot import moment
from outlast.cluster.errors import ClusterError, forbidden_error, shown
from outlast.cluster.watching.gaps import source_gaps
from outlast.cluster.watching.picture import ClusterPicture, RunKey
from outlast.cluster.watching.sources import fleet_sources, is_required
from outlast.cluster.watching.view import RunState, state_of, state_since
from outlast.cluster.watching.view_json import JSON_VERSION, why_json
from outlast.cluster.watching.wording import count, since

_ORDER = tuple(
    RunState(name)
    for name in ("failed", "waiting", "stopped", "running", "finished", "gone", "unknown")
)
_HEAD = ("run", "state", "for", "Pods", "retries", "tier", "why")


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetRow:
    """One run of many."""

    key: RunKey
    state: RunState
    since: datetime | None
    why: Diagnosis | None
    pods_running: int
    pods_wanted: int
    retries_used: int
    tier: str


class Fleet:
    """All runs that Outlast has rendered. Use its feed in a `with`."""

    def __init__(
        self,
        cluster: ClusterReader,
        namespace: str | None,
        *,
        cut_streams: Callable[[], object] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        sources = fleet_sources(cluster, namespace)
        self.picture = ClusterPicture(sources.queries, has_kueue=sources.has_kueue)
        self.feed = Feed(cluster, sources.queries, cut_streams=cut_streams)
        self.now = now
        """The time as the cluster has it."""
        self._rows: dict[RunKey, FleetRow] = {}
        self._changed: set[RunKey] = set()

    def take(self, timeout_seconds: float) -> bool:
        """Wait for news at most this long, and take all there is. Whether there was any."""
        update = self.feed.next(timeout_seconds)
        if update is None:
            return False
        self._changed |= self.picture.take(update, self.now())
        for more in self.feed.drain():
            self._changed |= self.picture.take(more, self.now())
        for query, error in self.feed.ended.items():
            if is_required(query):
                raise forbidden_error(query, error)
        return True

    def rows(self) -> list[FleetRow]:
        """All runs: those that need attention first, then by name."""
        for key in self._changed:
            self._rows.pop(key, None)
        self._changed.clear()
        known = {key for key in self.picture.runs if self.picture.is_ours(key)}
        for key in self._rows.keys() - known:
            del self._rows[key]
        for key in known - self._rows.keys():
            self._rows[key] = self._row(key)
        return sorted(
            self._rows.values(),
            key=lambda row: (_ORDER.index(row.state), row.key.namespace, row.key.name),
        )

    @property
    def as_of(self) -> datetime | None:
        return self.picture.as_of(self.feed.ended)

    @property
    def problem(self) -> ClusterError | None:
        return self.picture.problem(self.feed.ended)

    @property
    def notes(self) -> list[str]:
        return list(source_gaps(self.feed.ended))

    def _row(self, key: RunKey) -> FleetRow:
        snapshot = self.picture.snapshot(key, self.now())
        state = state_of(snapshot, None)
        is_open = state in (RunState.WAITING, RunState.FAILED, RunState.STOPPED)
        running = [pod for pod in snapshot.pods if pod.phase == "Running" and not pod.is_deleted]
        starts = [pod.created for pod in running if pod.created]
        lasting = min(starts, key=moment, default=None)
        return FleetRow(
            key=key,
            state=state,
            since=lasting if state is RunState.RUNNING else state_since(state, snapshot, None, ()),
            why=why_waiting(snapshot) if is_open else None,
            pods_running=len(running),
            pods_wanted=sum(job.parallelism for job in snapshot.jobs),
            retries_used=sum(job.failed for job in snapshot.jobs),
            tier=next((job.tier for job in snapshot.jobs if job.tier), ""),
        )


def fleet_summary(rows: Iterable[FleetRow]) -> str:
    """How many runs there are, by state."""
    counts = Counter(row.state for row in rows)
    listed = ", ".join(f"{counts[state]:,} {state}" for state in _ORDER if counts[state])
    total = count(sum(counts.values()), "run")
    return f"{total}: {listed}" if listed else "No runs. Only runs rendered by Outlast are shown."


def fleet_table(rows: Iterable[FleetRow], now: datetime) -> list[tuple[str, ...]]:
    """The table as cells, with its head. Texts of the cluster are escaped and cut."""
    return [_HEAD, *(_cells(row, now) for row in rows)]


def _cells(row: FleetRow, now: datetime) -> tuple[str, ...]:
    why = row.why
    evidence = why.evidence[0].text if why and why.cause is None and why.evidence else ""
    text = f"{why.summary} {shown(evidence, characters_max=100)}".rstrip() if why else ""
    return (
        shown(f"{row.key.namespace}/{row.key.name}", characters_max=80),
        row.state.value,
        since(row.since, now) if row.since else "-",
        f"{row.pods_running}/{row.pods_wanted}",
        str(row.retries_used),
        shown(row.tier, characters_max=20),
        text,
    )


def fleet_json(fleet: Fleet, now: datetime) -> dict[str, Any]:
    """The table for other programs."""
    as_of = fleet.as_of
    return {
        "version": JSON_VERSION,
        "now": now.isoformat(),
        "as_of": as_of.isoformat() if as_of else None,
        "runs": [
            {
                "run": row.key.name,
                "namespace": row.key.namespace,
                "state": row.state.value,
                "since": row.since.isoformat() if row.since else None,
                "pods": {"running": row.pods_running, "wanted": row.pods_wanted},
                "retries_used": row.retries_used,
                "tier": row.tier or None,
                "why": why_json(row.why),
            }
            for row in fleet.rows()
        ],
        "notes": fleet.notes,
    }
