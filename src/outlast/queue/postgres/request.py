"""Requests to a PostgreSQL queue: settle a chunk, claim one, or both, in one transaction.

Every request has a number. If its answer is lost, it is sent again with the same number, and the
database can tell whether it was already done.
"""

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn

from outlast.databases.postgres import (
    Connection,
    RequestAlreadySent,
    TransactionRolledBack,
    number_array,
    one_transaction,
    text_array,
)
from outlast.queue.errors import LeaseLost
from outlast.queue.items import (
    EXPIRED_ALONE,
    Failure,
    Item,
    Lease,
    LeaseTerms,
    Settlement,
    failure_line,
)
from outlast.queue.postgres import sql
from outlast.queue.postgres.outlook import QueueView
from outlast.queue.protocol import StoreInTransaction

_DELAY_SECONDS_MAX = 10 * 365 * 86400.0


class QueueAnswer(NamedTuple):
    """A lease, and whether everything was brought back that was due; None if it did not look."""

    lease: Lease | None
    brought_all_back: bool | None = None


class QueueRequest(NamedTuple):
    """Settles a chunk, claims one, or both."""

    session: uuid.UUID
    number: int
    limit: int
    terms: LeaseTerms
    settling: "PreparedSettlement | None"
    view: QueueView

    def send(self, connection: Connection) -> QueueAnswer:
        started = time.monotonic()
        begun: Any = None
        brought: Any = None
        claimed: Any = None
        try:
            with one_transaction(connection):
                begun = self._begin(connection)
                if self.settling is not None:
                    self.settling.send(connection)
                if self.limit:
                    brought = self._bring_back(connection)
                    claimed = self._claim(connection)
                else:
                    connection.execute(sql.VERIFY, prepare=True)
        except TransactionRolledBack as undone:
            self._explain(begun.fetchone(), undone)
        return QueueAnswer(
            _lease(claimed.fetchall(), started) if claimed is not None else None,
            brought.fetchone()[0] if brought is not None else None,
        )

    def was_done(self, connection: Connection) -> bool:
        row = connection.execute(sql.WAS_DONE, (self.session, self.number)).fetchone()
        return bool(row and row[0])

    def lease_made(self, connection: Connection) -> Lease | None:
        """The lease it made before the answer was lost, unless it has expired since."""
        started = time.monotonic()
        rows = connection.execute(sql.FIND_LEASE, (self.session, self.number)).fetchall()
        return _lease(rows, started)

    def _begin(self, connection: Connection) -> Any:
        values: dict[str, object] = {
            "session": self.session,
            "request": self.number,
            "done": 0,
            "known": self.view.known_id,
        }
        if self.settling is None:
            return connection.execute(sql.BEGIN_CLAIM, values, prepare=True)
        return self.settling.begin(connection, values | {"done": self.settling.done})

    def _bring_back(self, connection: Connection) -> Any:
        if self.view.due_seconds is None:
            return None
        values = {
            "failures_max": self.terms.failures_max,
            "expired_alone": EXPIRED_ALONE,
            "seconds": self.view.due_seconds,
        }
        return connection.execute(sql.BRING_BACK, values, prepare=True)

    def _claim(self, connection: Connection) -> Any:
        terms = self.terms
        values = {
            "limit": self.limit,
            "first": self.view.first_id,
            "worker": storable(terms.worker),
            "seconds": float(terms.lease_seconds),
            "session": self.session,
            "request": self.number,
        }
        return connection.execute(sql.CLAIM, values, prepare=True)

    def _explain(self, noted: Any, undone: TransactionRolledBack) -> NoReturn:
        """Raise the reason for the rollback: what the first statement noted, or another error."""
        is_new, is_held, _ = noted
        if not is_new:
            raise RequestAlreadySent from None
        if not is_held:
            assert self.settling is not None
            raise lost(self.settling.token) from None
        assert undone.__cause__ is not None
        raise undone.__cause__


class PreparedSettlement(NamedTuple):
    """A settlement with the IDs of its items."""

    token: int
    done: int
    ids: list[int]
    takes_all: bool
    failed: dict[str, object] | None
    released: list[int]
    is_alone: bool
    storing: StoreInTransaction | None

    @classmethod
    def of(
        cls,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        storing: StoreInTransaction | None,
    ) -> "PreparedSettlement":
        ids, is_alone = lease.handle
        id_of = dict(zip((item.key for item in lease.items), ids, strict=True))
        keys = (
            *settlement.done,
            *(failure.key for failure in settlement.failed),
            *settlement.released,
        )
        if len(set(keys)) < len(keys) or not id_of.keys() >= set(keys):
            raise lost(lease.token)
        return cls(
            token=lease.token,
            done=len(settlement.done),
            ids=[id_of[key] for key in keys],
            takes_all=len(keys) == len(id_of),
            failed=_failed(settlement.failed, id_of, terms) if settlement.failed else None,
            released=sorted(id_of[key] for key in settlement.released),
            is_alone=is_alone,
            storing=storing,
        )

    def begin(self, connection: Connection, values: dict[str, object]) -> Any:
        values |= {"token": self.token, "count": len(self.ids)}
        if self.takes_all:
            return connection.execute(sql.BEGIN_TAKING_ALL, values, prepare=True)
        values["ids"] = number_array(self.ids)
        return connection.execute(sql.BEGIN_TAKING_SOME, values)

    def send(self, connection: Connection) -> None:
        if not self.takes_all:
            connection.execute(sql.END_EMPTY, (self.token,))
        if self.storing is not None:
            self.storing(connection)
        if self.failed is not None:
            connection.execute(sql.FAIL, self.failed)
        if self.released:
            release = sql.RELEASE_GROUP if self.is_alone else sql.RELEASE
            connection.execute(release, (number_array(self.released),))


class RequestSession:
    """Numbers requests, so that the server recognizes one that is sent again.

    A request that was not answered keeps its number if it is the next one to be sent.
    """

    def __init__(self) -> None:
        self._pid = 0
        self._unanswered: object = None
        self._renew()

    def number(self, asked: object) -> tuple[int, bool]:
        """The number of a request, and whether it may have been sent before."""
        if self._pid != os.getpid():
            self._renew()
        if self._unanswered == asked:
            return self._number, True
        self._number += 1
        self._unanswered = asked
        return self._number, False

    def answered(self) -> None:
        self._unanswered = None

    def _renew(self) -> None:
        """Start a new session: a forked child must not be confused with its parent."""
        self._pid = os.getpid()
        self.name = uuid.uuid4()
        self._number = 0
        self._unanswered = None


def _failed(
    failures: Sequence[Failure], id_of: Mapping[str, int], terms: LeaseTerms
) -> dict[str, object]:
    at = datetime.now(UTC)
    lines = [failure_line(failure.error, worker=terms.worker, at=at) for failure in failures]
    delays = [min(float(failure.delay_seconds), _DELAY_SECONDS_MAX) for failure in failures]
    return {
        "ids": number_array(id_of[failure.key] for failure in failures),
        "errors": text_array(map(storable, lines)),
        "delays": number_array(delays),
        "finals": number_array(int(failure.is_final) for failure in failures),
        "failures_max": terms.failures_max,
    }


def _lease(rows: Sequence[Any], started: float) -> Lease | None:
    if not rows:
        return None
    _, _, _, _, token, is_alone, seconds = rows[0]
    return Lease(
        token=token,
        items=tuple([Item(row[0], row[1], row[2]) for row in rows]),
        expires=started + seconds,
        handle=([row[3] for row in rows], is_alone),
    )


def lost(token: int) -> LeaseLost:
    return LeaseLost.of(f"Lease {token}")


def storable(text: str) -> str:
    """Text the database accepts."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\0")
