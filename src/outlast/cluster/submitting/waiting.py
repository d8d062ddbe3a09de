"""Wait until submitted work has started or finished. Changes nothing, and polls nothing."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from outlast.cluster.connection.api import ClusterReader, Update, UpdateKind
from outlast.cluster.connection.feed import Feed
from outlast.cluster.resources import Object, Query, Resource, name_of, namespace_of, title_of
from outlast.cluster.submitting.state import JobEnding, ending_of, is_started
from outlast.errors import OutlastError

WORK_KINDS = ("Job", "JobSet", "Deployment")


class WaitFor(StrEnum):
    """What to wait for."""

    STARTED = "started"
    FINISHED = "finished"


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitResult:
    """How waiting ended. `deleted` names objects; `is_late` if time ran out."""

    endings: dict[str, JobEnding]
    is_late: bool = False
    deleted: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        ended = all(ending.is_success for ending in self.endings.values())
        return ended and not self.is_late and not self.deleted


def wait_for(
    cluster: ClusterReader,
    work: Iterable[tuple[Resource, Object]],
    wanted: WaitFor,
    *,
    timeout_seconds: float | None = None,
    say: Callable[[str], object] = lambda _: None,
    cut_streams: Callable[[], object] = lambda: None,
    now: Callable[[], float] = time.monotonic,
) -> WaitResult:
    """Wait for all of the work. Raises `OutlastError` for work that never finishes by itself."""
    work = [(resource, item) for resource, item in work if resource.kind in WORK_KINDS]
    if wanted is WaitFor.FINISHED and any(one.kind == "Deployment" for one, _ in work):
        raise OutlastError(
            "A Deployment never finishes.", hint="Use --wait started, or leave out --wait."
        )
    wait = _Wait({_query(*one): title_of(one[1]) for one in work}, wanted, say)
    until = None if timeout_seconds is None else now() + timeout_seconds
    with Feed(cluster, dict.fromkeys(wait.titles, _as_it_is), cut_streams=cut_streams) as feed:
        while wait.titles:
            rest = None if until is None else until - now()
            update = None if rest is not None and rest <= 0 else feed.next(rest)
            if update is None:
                return wait.result(is_late=True)
            if update.query in feed.ended:
                raise feed.ended[update.query]
            wait.take(update)
    return wait.result()


class _Wait:
    """What is still waited for, and how the rest ended."""

    def __init__(
        self, titles: dict[Query, str], wanted: WaitFor, say: Callable[[str], object]
    ) -> None:
        self.titles = titles
        self._wanted = wanted
        self._say = say
        self._endings: dict[str, JobEnding] = {}
        self._deleted: list[str] = []

    def result(self, *, is_late: bool = False) -> WaitResult:
        return WaitResult(endings=self._endings, is_late=is_late, deleted=tuple(self._deleted))

    def take(self, update: Update[Object]) -> None:
        title = self.titles.get(update.query)
        if title is None:
            return
        if update.kind is UpdateKind.LOST:
            self._say(f"{update.problem} Waiting until it answers.")
        elif update.kind is UpdateKind.DELETED or (
            update.kind is UpdateKind.LISTED and not update.objects
        ):
            del self.titles[update.query]
            # A Job may be deleted as soon as it has ended.
            ending = ending_of(update.objects[0]) if update.objects else None
            if ending is None:
                self._deleted.append(title)
            else:
                self._endings[title] = ending
        elif update.objects and self._is_there(update.objects[0], title):
            del self.titles[update.query]

    def _is_there(self, item: Object, title: str) -> bool:
        ending = ending_of(item)
        if ending is not None:
            self._endings[title] = ending
            return True
        return self._wanted is WaitFor.STARTED and is_started(item)


def _query(resource: Resource, item: Object) -> Query:
    return Query(
        resource=resource,
        namespace=namespace_of(item),
        fields=f"metadata.name={name_of(item)}",
    )


def _as_it_is(item: Object) -> Object:
    return item
