"""One transaction on the tables of a queue in SQLite.

Time is given in seconds of the machine's uptime. `asked` is when the caller asked, before it waited
for its turn: a lease counts as expired only if it had expired by then, so that a long publish
by another process costs nobody a lease.
"""

import itertools
import sqlite3
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from outlast.queue.blame import ERRORS_KEPT, EXPIRED_ALONE, next_token, remembered
from outlast.queue.errors import LeaseLost, QueueUnavailable
from outlast.queue.items import Failure, Item, Lease, Outcome, Terms
from outlast.queue.pace import Pace
from outlast.queue.runs import Run, cut, numbers, picked, size
from outlast.queue.sqlite_schema import READY

_NEVER = float("inf")
_WAKE_MAX = 1000
_STATE = ("boot", "token", "wakes", *Pace._fields)
_RUN = ", ".join(Run._fields)


class Times(NamedTuple):
    asked: float
    now: float


class Transaction:
    """Reads the queue's one row and what a lease holds; `finish` writes the row, if it changed.

    Nothing that is delayed or leased ends before `wakes`.
    """

    def __init__(
        self, connection: sqlite3.Connection, times: Times, *, boot: str, lease: int = -1
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._asked, self._now = times
        rows = connection.execute(_READ, (lease,)).fetchall()
        self._boot, self._token, self._wakes = self._read = rows[0][:3]
        self._pace = self._pace_read = Pace._make(rows[0][3:7])
        self._lease = lease
        self._held_rows = [row[7:] for row in rows if row[7] is not None]
        if self._boot != boot:
            self._begin_anew(boot)

    def finish(self) -> None:
        state = (self._boot, self._token, self._wakes)
        if state != self._read or self._pace is not self._pace_read:
            self._execute(_WRITE, (*state, *self._pace))

    def extend(self, until: float) -> None:
        self._held()
        self._execute("UPDATE outlast_runs SET until = ? WHERE lease = ?", (until, self._lease))
        # Lower only if the new terms are shorter than those of the claim.
        self._wakes = min(self._wakes, until)

    def settle(self, lease: Lease, outcome: Outcome, terms: Terms) -> None:
        held = self._held()
        if (
            len(outcome.done) == size(held)
            and not (outcome.failed or outcome.released)
            and set(outcome.done) == {item.key for item in lease.items}
        ):
            done = held
            self._end(self._lease)
        else:
            done = self._settle_parts(lease, outcome, terms, held)
        for run in done:
            # Most items never failed, and have nothing to be forgotten.
            if run.failures:
                self._execute(
                    "DELETE FROM outlast_failures WHERE item BETWEEN ? AND ?", (run.first, run.last)
                )
        self._pace = self._pace.counting(len(outcome.done), now=self._now)

    def reap(self, terms: Terms) -> None:
        """Let delayed items come back that are due, and end the leases that expired."""
        if self._wakes > self._asked:
            return
        self._wake()
        rows = self._execute(
            f"SELECT lease, worker, {_RUN} FROM outlast_runs "
            f"WHERE lease > {READY} AND until <= ? ORDER BY lease, last",
            (self._asked,),
        ).fetchall()
        for (token, worker), group in itertools.groupby(rows, key=lambda row: row[:2]):
            self._expire(token, worker, [Run(*row[2:]) for row in group], terms)
        ends = self._execute(
            f"SELECT min(until) FROM outlast_runs WHERE lease > {READY} "
            "UNION ALL SELECT min(due) FROM outlast_delayed"
        )
        self._wakes = min((end for (end,) in ends if end is not None), default=_NEVER)

    def claim(self, limit: int, terms: Terms, *, expires: float) -> Lease | None:
        taken = self._take(limit) if limit > 0 else []
        if not taken:
            return None
        self._token = next_token(self._token, wall_seconds=time.time())
        until = self._now + terms.lease_seconds
        self._insert(taken, lease=self._token, until=until, worker=terms.worker)
        self._wakes = min(self._wakes, until)
        self._pace = self._pace.counting(0, now=self._now)
        return Lease(self._token, self._items(taken), expires, tuple(taken))

    def _begin_anew(self, boot: str) -> None:
        """After a reboot: the clock began anew, no worker is left, and all that waits is due."""
        self._execute("UPDATE outlast_runs SET until = 0")
        self._execute("UPDATE outlast_delayed SET due = 0")
        self._held_rows = []
        self._boot, self._wakes, self._pace = boot, 0.0, Pace()

    def _held(self) -> list[Run]:
        rows = self._held_rows
        if not rows or rows[0][0] <= self._asked:
            raise _lost(self._lease)
        return [Run._make(row[2:]) for row in rows]

    def _settle_parts(
        self, lease: Lease, outcome: Outcome, terms: Terms, held: list[Run]
    ) -> list[Run]:
        """Settle the named items, and give those that are done. The others stay leased."""
        keys = (item.key for item in lease.items)
        number_of = dict(zip(keys, numbers(lease.handle), strict=True))
        failed = {number_of.get(failure.key, 0): failure for failure in outcome.failed}
        named = [number_of.get(key, 0) for key in (*outcome.done, *outcome.released)]
        named += (number_of.get(failure.key, 0) for failure in outcome.failed)
        settled, rest = picked(held, set(named))
        # Short if an item is not held any more, or is named twice.
        if size(settled) != len(named):
            raise _lost(self._lease)
        until, worker = self._held_rows[0][:2]
        self._end(self._lease)
        self._insert(rest, lease=self._lease, until=until, worker=worker)
        released, settled = picked(settled, {number_of[key] for key in outcome.released})
        self._insert(released)
        blamed, done = picked(settled, failed.keys())
        for run in blamed:
            for number in range(run.first, run.last + 1):
                alone = run._replace(first=number, last=number, suspects=0)
                self._fail(alone, failed[number], terms, terms.worker)
        return done

    def _expire(self, token: int, worker: str, runs: list[Run], terms: Terms) -> None:
        self._end(token)
        count = size(runs)
        if count == 1:
            # It stays apart from now on, so that it takes no other item down with it.
            alone = runs[0]._replace(suspects=2 * token)
            self._fail(alone, Failure("", EXPIRED_ALONE), terms, worker)
            return
        for number, half in enumerate(cut(runs, (count + 1) // 2)):
            self._insert([run._replace(suspects=2 * token + number) for run in half])

    def _fail(self, alone: Run, failure: Failure, terms: Terms, worker: str) -> None:
        item, failures = alone.first, alone.failures + 1
        line = remembered(failure.error, worker=worker, at=datetime.now(UTC))
        self._execute("INSERT INTO outlast_failures VALUES (?, ?, ?)", (item, failures, line))
        self._execute(
            "DELETE FROM outlast_failures WHERE item = ? AND number <= ?",
            (item, failures - ERRORS_KEPT),
        )
        if failure.is_final or failures >= terms.failures_max:
            self._execute("INSERT INTO outlast_dead VALUES (?, ?)", (item, failures))
        elif failure.delay_seconds <= 0:
            self._insert([alone._replace(failures=failures)])
        else:
            due = self._now + failure.delay_seconds
            row = (due, item, failures, alone.published)
            self._execute("INSERT INTO outlast_delayed VALUES (?, ?, ?, ?)", row)
            self._wakes = min(self._wakes, due)

    def _wake(self) -> None:
        """Make delayed items ready that are due; not all at once, if they are many."""
        rows = self._execute(
            "SELECT due, item, failures, published FROM outlast_delayed "
            f"WHERE due <= ? ORDER BY due LIMIT {_WAKE_MAX}",
            (self._asked,),
        ).fetchall()
        self._connection.executemany(
            "DELETE FROM outlast_delayed WHERE due = ? AND item = ?", [row[:2] for row in rows]
        )
        self._insert(
            Run(item, item, failures=failures, published=published)
            for _, item, failures, published in rows
        )

    def _take(self, limit: int) -> list[Run]:
        """Make the oldest runs that may be claimed together no longer ready, up to `limit` items.

        Those of one group of suspects may, and those of none.
        """
        row = self._execute(_OLDEST).fetchone()
        if row is None:
            return []
        found = [Run._make(row)]
        if found[0].last - found[0].first + 1 < limit:
            rows = self._execute(_OLDEST_OF_GROUP, (found[0].suspects, limit))
            found = list(map(Run._make, rows))
        whole, _ = cut(found, limit)
        taken = list(whole)
        shortened = found[len(taken) - 1]
        if taken[-1].last < shortened.last:
            whole.pop()
            self._execute(
                f"UPDATE outlast_runs SET first = ? WHERE lease = {READY} AND last = ?",
                (taken[-1].last + 1, shortened.last),
            )
        for run in whole:
            self._execute(
                f"DELETE FROM outlast_runs WHERE lease = {READY} AND last = ?", (run.last,)
            )
        return taken

    def _items(self, runs: Sequence[Run]) -> tuple[Item, ...]:
        rows: list[Any] = []
        for run in runs:
            rows += self._execute(
                "SELECT key, payload, ? FROM outlast_items WHERE number BETWEEN ? AND ?",
                (run.failures, run.first, run.last),
            )
        if len(rows) != size(runs):
            raise QueueUnavailable(
                f"Of the items {runs[0].first} to {runs[-1].last}, some are missing in the file.",
                hint="The file was changed by another program. Take a copy that is whole.",
            )
        # The quickest way to make many named tuples of tuples.
        return tuple(map(tuple.__new__, itertools.repeat(Item), rows))

    def _insert(
        self, runs: Iterable[Run], *, lease: int = READY, until: float = 0.0, worker: str = ""
    ) -> None:
        for run in runs:
            self._execute(_INSERT, (lease, until, worker, *run))

    def _end(self, token: int) -> None:
        self._execute("DELETE FROM outlast_runs WHERE lease = ?", (token,))


def _lost(token: int) -> LeaseLost:
    return LeaseLost(
        f"The lease {token} no longer holds these items.",
        hint="Others may work on them. Raise lease_seconds if items take longer than that.",
    )


_READ = (
    f"SELECT {', '.join('outlast_queue.' + name for name in _STATE)}, until, worker, {_RUN} "
    "FROM outlast_queue LEFT JOIN outlast_runs ON lease = ? WHERE only_row = 1 ORDER BY last"
)
_WRITE = f"UPDATE outlast_queue SET {', '.join(name + ' = ?' for name in _STATE)}"
_OLDEST = f"SELECT {_RUN} FROM outlast_runs WHERE lease = {READY} ORDER BY last LIMIT 1"
_OLDEST_OF_GROUP = (
    f"SELECT {_RUN} FROM outlast_runs WHERE lease = {READY} AND suspects = ? ORDER BY last LIMIT ?"
)
_INSERT = (
    f"INSERT INTO outlast_runs (lease, until, worker, {_RUN}) "
    f"VALUES ({', '.join('?' * (3 + len(Run._fields)))})"
)
