"""All that is known of the objects that are followed, kept up to date by updates.

Asks nothing itself. Pods that are gone are remembered for a while, because how they ended counts,
and the API server forgets them within a second of an eviction.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from outlast.cluster.connection.api import Update, UpdateKind
from outlast.cluster.diagnosis.causes.endings import has_ended
from outlast.cluster.diagnosis.facts import EventFact, JobFact, NodeFact, PodFact
from outlast.cluster.diagnosis.queue_facts import (
    JobSetFact,
    ProvisioningRequestFact,
    WorkloadFact,
)
from outlast.cluster.diagnosis.snapshot import Snapshot
from outlast.cluster.errors import ClusterError
from outlast.cluster.resources import Query
from outlast.cluster.watching.places import place_of
from outlast.cluster.watching.sources import is_required

if TYPE_CHECKING:
    from outlast.journal.place import AttemptPlace

GONE_MAX = 2000
PLACES_MAX = 20_000
_ENDED = ("Complete", "Completed", "Failed")
_AUTOPILOT_LABEL = "cloud.google.com/autopilot-managed-node"


@dataclass(slots=True)
class SourceState:
    """How up to date a source is. `problem` is None while it is followed without trouble."""

    is_listed: bool = False
    seen: datetime | None = None
    problem: ClusterError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunKey:
    namespace: str
    name: str


@dataclass(slots=True)
class _Members:
    jobs: dict[str, JobFact] = field(default_factory=dict)
    job_sets: dict[str, JobSetFact] = field(default_factory=dict)


class ClusterPicture:
    """The facts of a cluster by kind, indexed by what belongs together. Not thread-safe."""

    def __init__(self, queries: Iterable[Query], *, has_kueue: bool | None = None) -> None:
        self.sources: dict[Query, SourceState] = {query: SourceState() for query in queries}
        self.has_kueue = has_kueue
        self._facts: dict[str, dict[str, Any]] = defaultdict(dict)
        self._children: dict[str, dict[str, PodFact]] = defaultdict(dict)
        self._gone: dict[str, dict[str, PodFact]] = defaultdict(dict)
        self._gone_order: deque[tuple[str, str]] = deque()
        self._events: dict[str, dict[str, EventFact]] = defaultdict(dict)
        self._by_node: dict[str, NodeFact] = {}
        self.places: OrderedDict[str, AttemptPlace] = OrderedDict()
        """Tier, machine and zone of nodes by name, of those that are gone too."""
        self._left_nodes: OrderedDict[str, NodeFact] = OrderedDict()
        self._nodes: tuple[NodeFact, ...] | None = None
        self._owned: dict[str, dict[str, WorkloadFact]] = defaultdict(dict)
        self._requests: dict[str, dict[str, ProvisioningRequestFact]] = defaultdict(dict)
        self._runs: dict[RunKey, _Members] = {}
        self._over: OrderedDict[RunKey, _Members] = OrderedDict()
        self._run_of: dict[str, RunKey] = {}
        self._put: dict[str, Callable[[str, Any, bool], Iterable[str]]] = {
            "Job": self._put_job,
            "JobSet": self._put_job,
            "Pod": self._put_pod,
            "Event": self._put_event,
            "Node": self._put_node,
            "Workload": self._put_workload,
            "ProvisioningRequest": self._put_request,
        }

    @property
    def is_complete(self) -> bool:
        """Whether every source was listed, or cannot be."""
        return all(state.is_listed or state.problem for state in self.sources.values())

    @property
    def has_required(self) -> bool:
        """Whether everything was listed without which nothing can be shown."""
        return all(state.is_listed for query, state in self.sources.items() if is_required(query))

    @property
    def runs(self) -> Iterator[RunKey]:
        return iter(self._runs)

    @property
    def over(self) -> Iterator[RunKey]:
        """Runs that had ended before their Jobs were deleted, the newest last."""
        return iter(self._over)

    def is_ours(self, key: RunKey) -> bool:
        """Whether Outlast has rendered the run."""
        members = self._runs[key]
        has_job = any(job.is_ours for job in members.jobs.values())
        return has_job or any(one.is_ours for one in members.job_sets.values())

    def take(self, update: Update[tuple[str, Any]], at: datetime) -> set[RunKey]:
        """Add an update, and return the runs that it changes. Nodes change none."""
        state = self.sources[update.query]
        if update.kind is UpdateKind.LOST:
            state.problem = update.problem
            return set()
        state.problem, state.seen = None, at
        kind = update.query.resource.kind
        if update.kind is UpdateKind.LISTED:
            state.is_listed = True
            return self._listed(kind, dict(update.objects))
        changed: set[RunKey] = set()
        for uid, fact in update.objects:
            changed |= self._changed(kind, uid, fact, is_gone=update.kind is UpdateKind.DELETED)
        return changed

    def snapshot(self, key: RunKey, now: datetime) -> Snapshot:
        """One run, as the diagnosis sees it."""
        members = self._runs.get(key) or self._over.get(key) or _Members()
        pods = [pod for uid in members.jobs for pod in self._pods_of(uid)]
        owners = [*members.jobs, *members.job_sets]
        workloads = [one for uid in owners for one in self._owned.get(uid, {}).values()]
        requests = [one for uid in workloads for one in self._requests.get(uid.uid, {}).values()]
        about = [*owners, *(pod.uid for pod in pods), *(one.uid for one in (*workloads, *requests))]
        return Snapshot(
            now=now,
            jobs=tuple(members.jobs.values()),
            job_sets=tuple(members.job_sets.values()),
            pods=tuple(pods),
            nodes=self._all_nodes(),
            events=tuple(one for uid in about for one in self._events.get(uid, {}).values()),
            workloads=tuple(workloads),
            requests=tuple(requests),
            compute_classes=tuple(self._facts["ComputeClass"].values()),
            has_kueue=self.has_kueue,
            is_autopilot=self._is_autopilot,
            unread=self.unread,
            is_current=self._is_current,
        )

    def problem(self, ended: Container[Query] = ()) -> ClusterError | None:
        """Why the picture gets old, None while it is up to date. `ended` ones are left out."""
        return next((state.problem for state in self._open(ended) if state.problem), None)

    def as_of(self, ended: Container[Query] = ()) -> datetime | None:
        """How old the picture is if a connection is lost, None otherwise."""
        lost = (state.seen for state in self._open(ended) if state.problem and state.seen)
        return min(lost, default=None)

    def _open(self, ended: Container[Query]) -> list[SourceState]:
        return [state for query, state in self.sources.items() if query not in ended]

    @property
    def unread(self) -> frozenset[str]:
        """The kinds that are not known, such as `events`."""
        return frozenset(
            query.resource.plural for query, state in self.sources.items() if not state.is_listed
        )

    @property
    def _is_current(self) -> bool:
        """Whether the Pods are those of this moment."""
        pods = [state for query, state in self.sources.items() if query.resource.kind == "Pod"]
        return all(state.is_listed and state.problem is None for state in pods)

    @property
    def _is_autopilot(self) -> bool | None:
        is_marked = any(_AUTOPILOT_LABEL in node.labels for node in self._by_node.values())
        return True if is_marked else None

    def _listed(self, kind: str, found: dict[str, Any]) -> set[RunKey]:
        changed: set[RunKey] = set()
        for uid in self._facts[kind].keys() - found.keys():
            changed |= self._changed(kind, uid, self._facts[kind][uid], is_gone=True)
        for uid, fact in found.items():
            changed |= self._changed(kind, uid, fact, is_gone=False)
        return changed

    def _changed(self, kind: str, uid: str, fact: Any, *, is_gone: bool) -> set[RunKey]:
        _set(self._facts[kind], uid, fact, is_gone)
        before = self._run_of.get(uid)
        put = self._put.get(kind)
        owners = put(uid, fact, is_gone) if put else ()
        changed = {self._run_of[owner] for owner in owners if owner in self._run_of}
        return changed if before is None else changed | {before}

    def _put_job(self, uid: str, fact: JobFact | JobSetFact, is_gone: bool) -> tuple[str, ...]:
        key = self._key_of(fact)
        members = self._runs.setdefault(key, _Members())
        table: dict[str, Any] = members.jobs if isinstance(fact, JobFact) else members.job_sets
        _set(table, uid, fact, is_gone)
        self._run_of[uid] = key
        if not is_gone:
            self._over.pop(key, None)
        elif any(fact.is_true(kind) for kind in _ENDED):
            # Deleted right after its end, as ttlSecondsAfterFinished does: how it ended counts.
            over = self._over.setdefault(key, _Members())
            ended: dict[str, Any] = over.jobs if isinstance(fact, JobFact) else over.job_sets
            ended[uid] = fact
            while len(self._over) > GONE_MAX:
                self._over.popitem(last=False)
        if is_gone:
            del self._run_of[uid]
            self._children.pop(uid, None)
            if not members.jobs and not members.job_sets:
                del self._runs[key]
        return (uid,)

    def _key_of(self, fact: JobFact | JobSetFact) -> RunKey:
        name = (fact.app if isinstance(fact, JobFact) else "") or fact.name
        return RunKey(namespace=fact.namespace, name=name)

    def _put_pod(self, uid: str, fact: PodFact, is_gone: bool) -> tuple[str, ...]:
        children = self._children[fact.owner]
        if not is_gone:
            children[uid] = fact
        else:
            children.pop(uid, None)
            if has_ended(fact):
                self._remember(uid, fact)
        return (fact.owner,)

    def _remember(self, uid: str, pod: PodFact) -> None:
        self._gone[pod.owner][uid] = pod
        self._gone_order.append((pod.owner, uid))
        while len(self._gone_order) > GONE_MAX:
            owner, oldest = self._gone_order.popleft()
            self._gone[owner].pop(oldest, None)

    def _pods_of(self, owner: str) -> Iterator[PodFact]:
        yield from self._children.get(owner, {}).values()
        yield from self._gone.get(owner, {}).values()

    def _put_event(self, uid: str, fact: EventFact, is_gone: bool) -> tuple[str, ...]:
        about = self._events[fact.about]
        if not is_gone:
            about[uid] = fact
        else:
            about.pop(uid, None)
            if not about:
                del self._events[fact.about]
        pod: PodFact | None = self._facts["Pod"].get(fact.about)
        return (pod.owner if pod else fact.about,)

    def _all_nodes(self) -> tuple[NodeFact, ...]:
        if self._nodes is None:
            self._nodes = (*self._by_node.values(), *self._left_nodes.values())
        return self._nodes

    def _put_node(self, uid: str, fact: NodeFact, is_gone: bool) -> tuple[str, ...]:
        self._nodes = None
        if not is_gone:
            self._by_node[fact.name] = fact
            self._place(fact)
        elif self._by_node.get(fact.name, fact).uid == uid:
            self._by_node.pop(fact.name, None)
            if fact.expires_at is not None:
                self._left_nodes[uid] = fact
                while len(self._left_nodes) > GONE_MAX:
                    self._left_nodes.popitem(last=False)
        return ()

    def _place(self, node: NodeFact) -> None:
        place = place_of(node)
        if place != self.places.get(node.name):
            self.places[node.name] = place
            while len(self.places) > PLACES_MAX:
                self.places.popitem(last=False)

    def _put_workload(self, uid: str, fact: WorkloadFact, is_gone: bool) -> tuple[str, ...]:
        _set(self._owned[fact.owner], uid, fact, is_gone)
        return (fact.owner,)

    def _put_request(
        self, uid: str, fact: ProvisioningRequestFact, is_gone: bool
    ) -> tuple[str, ...]:
        _set(self._requests[fact.owner], uid, fact, is_gone)
        workload: WorkloadFact | None = self._facts["Workload"].get(fact.owner)
        return (workload.owner,) if workload else ()


def _set(table: dict[str, Any], uid: str, fact: Any, is_gone: bool) -> None:
    if is_gone:
        table.pop(uid, None)
    else:
        table[uid] = fact
