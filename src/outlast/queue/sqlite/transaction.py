"""One transaction on the tables of a SQLite queue.

Times are seconds of the machine's uptime. `asked` is when the caller asked, before it waited for
the lock: a lease counts as expired only if it had expired by then, so no worker loses its lease
because another process was publishing for a long time.
"""

import itertools
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from outlast.databases.sqlite import (
    INTEGER_MAX,
    SECONDS_MAX,
    DamagedRow,
    as_integer,
    as_seconds,
    as_text,
)
from outlast.queue.errors import LeaseLost
from outlast.queue.items import (
    ERRORS_KEPT,
    EXPIRED_ALONE,
    Failure,
    Item,
    Lease,
    LeaseTerms,
    Settlement,
    failure_line,
)
from outlast.queue.sqlite.ranges import ItemRange, numbers, partition, size, split_at
from outlast.queue.sqlite.schema import READY
from outlast.queue.throughput import Throughput

_NEVER = float("inf")
_WAKE_MAX = 1000
_STATE = ("boot", "token", "wakes", *Throughput._fields)
_STATE_TYPES = (str, str, int, float, float, int, float, int)
_SUSPECTS_MAX = 2 * INTEGER_MAX + 1
_RANGE = ", ".join(ItemRange._fields)


class RequestTimes(NamedTuple):
    asked: float
    now: float


class Transaction:
    """Reads the queue's state row and the items of a lease; `finish` writes changes to the row.

    No delay and no lease ends before `wakes`.
    """

    def __init__(
        self, connection: sqlite3.Connection, times: RequestTimes, *, boot: str, lease: int = -1
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._asked, self._now = times
        rows = connection.execute(_READ, (lease,)).fetchall()
        if not rows:
            raise DamagedRow("outlast_queue is empty")
        state = rows[0][:8]
        if not _is_sound(state):
            raise _damaged_state(state)
        self._id = state[0]
        self._boot, self._token, self._wakes = self._read = state[1:4]
        self._throughput = self._throughput_read = Throughput._make(state[4:])
        self._lease = lease
        self._held_rows = [row[8:] for row in rows if row[8] is not None]
        if self._boot != boot:
            self._reset_after_reboot(boot)

    def finish(self) -> None:
        state = (self._boot, self._token, self._wakes)
        if state != self._read or self._throughput is not self._throughput_read:
            self._execute(_WRITE, (*state, *self._throughput))

    def extend(self, until: float) -> None:
        self._held()
        self._execute("UPDATE outlast_runs SET until = ? WHERE lease = ?", (until, self._lease))
        # Earlier only if the new lease is shorter than the claimed one.
        self._wakes = min(self._wakes, until)

    def settle(self, lease: Lease, settlement: Settlement, terms: LeaseTerms) -> None:
        held = self._held()
        if size(held) > len(lease.items):
            raise DamagedRow(f"lease {self._lease} has more items than were claimed")
        if (
            len(settlement.done) == size(held)
            and not (settlement.failed or settlement.released)
            and set(settlement.done) == {item.key for item in lease.items}
        ):
            done = held
            self._end(self._lease)
        else:
            done = self._settle_parts(lease, settlement, terms, held)
        for one in done:
            # Most items never failed and have no errors to delete.
            if one.failures:
                self._execute(
                    "DELETE FROM outlast_failures WHERE item BETWEEN ? AND ?", (one.first, one.last)
                )
        self._throughput = self._throughput.counting(len(settlement.done), now=self._now)

    def reap(self, terms: LeaseTerms) -> None:
        """Make delayed items ready that are due, and end expired leases."""
        if self._wakes > self._asked:
            return
        self._wake()
        rows = self._execute(
            f"SELECT lease, worker, {_RANGE} FROM outlast_runs "
            f"WHERE lease > {READY} AND until <= ? ORDER BY lease, last",
            (self._asked,),
        ).fetchall()
        for (token, worker), group in itertools.groupby(rows, key=lambda row: row[:2]):
            self._expire(
                token, as_text(worker, "worker"), [_read_range(row[2:]) for row in group], terms
            )
        ends = self._execute(
            f"SELECT min(until) FROM outlast_runs WHERE lease > {READY} "
            "UNION ALL SELECT min(due) FROM outlast_delayed"
        )
        known = (as_seconds(end, "until") for (end,) in ends if end is not None)
        self._wakes = min(known, default=_NEVER)

    def claim(self, limit: int, terms: LeaseTerms, *, expires: float) -> Lease | None:
        taken = self._take(limit) if limit > 0 else []
        if not taken:
            return None
        self._token += 1
        until = self._now + terms.lease_seconds
        self._insert(taken, lease=self._token, until=until, worker=terms.worker)
        self._wakes = min(self._wakes, until)
        self._throughput = self._throughput.counting(0, now=self._now)
        return Lease(self._token, self._items(taken), expires, tuple(taken), self._id)

    def _reset_after_reboot(self, boot: str) -> None:
        """After a reboot the clock restarts, no worker is left, and all delayed items are due."""
        self._execute("UPDATE outlast_runs SET until = 0")
        self._execute("UPDATE outlast_delayed SET due = 0")
        self._held_rows = []
        self._boot, self._wakes, self._throughput = boot, 0.0, Throughput()

    def _held(self) -> list[ItemRange]:
        """The items of the lease. An expired lease keeps them until a claim takes them."""
        if not self._held_rows:
            raise _lost(self._lease)
        return [_read_range(row[2:]) for row in self._held_rows]

    def _settle_parts(
        self, lease: Lease, settlement: Settlement, terms: LeaseTerms, held: list[ItemRange]
    ) -> list[ItemRange]:
        """Settle these items and return those that are done. All others stay leased."""
        keys = (item.key for item in lease.items)
        number_of = dict(zip(keys, numbers(lease.handle), strict=True))
        failed = {number_of.get(failure.key, 0): failure for failure in settlement.failed}
        named = [number_of.get(key, 0) for key in (*settlement.done, *settlement.released)]
        named += (number_of.get(failure.key, 0) for failure in settlement.failed)
        settled, rest = partition(held, set(named))
        # Smaller if an item is no longer held or is listed twice.
        if size(settled) != len(named):
            raise _lost(self._lease)
        until, worker = self._held_rows[0][:2]
        self._end(self._lease)
        self._insert(rest, lease=self._lease, until=until, worker=worker)
        released, settled = partition(settled, {number_of[key] for key in settlement.released})
        self._insert(released)
        blamed, done = partition(settled, failed.keys())
        for one in blamed:
            for number in range(one.first, one.last + 1):
                alone = one._replace(first=number, last=number, suspects=0)
                self._fail(alone, failed[number], terms, terms.worker)
        return done

    def _expire(self, token: int, worker: str, ranges: list[ItemRange], terms: LeaseTerms) -> None:
        self._end(token)
        count = size(ranges)
        if count == 1:
            # From now on it is claimed alone, so that it cannot take other items down with it.
            alone = ranges[0]._replace(suspects=2 * token)
            self._fail(alone, Failure("", EXPIRED_ALONE), terms, worker)
            return
        for number, half in enumerate(split_at(ranges, (count + 1) // 2)):
            self._insert([one._replace(suspects=2 * token + number) for one in half])

    def _fail(self, alone: ItemRange, failure: Failure, terms: LeaseTerms, worker: str) -> None:
        item, failures = alone.first, alone.failures + 1
        line = failure_line(failure.error, worker=worker, at=datetime.now(UTC))
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
        """Make delayed items ready that are due, up to a limit per transaction."""
        rows = self._execute(
            "SELECT due, item, failures, published FROM outlast_delayed "
            f"WHERE due <= ? ORDER BY due LIMIT {_WAKE_MAX}",
            (self._asked,),
        ).fetchall()
        self._connection.executemany(
            "DELETE FROM outlast_delayed WHERE due = ? AND item = ?", [row[:2] for row in rows]
        )
        self._insert(
            _read_range((item, item, failures, 0, published))
            for _, item, failures, published in rows
        )

    def _take(self, limit: int) -> list[ItemRange]:
        """Take the oldest ready ranges that may be claimed together, up to `limit` items.

        Items of the same group of suspects may be, and items of no group.
        """
        row = self._execute(_OLDEST).fetchone()
        if row is None:
            return []
        found = [_read_range(row)]
        if found[0].last - found[0].first + 1 < limit:
            rows = self._execute(_OLDEST_OF_GROUP, (found[0].suspects, limit))
            found = list(map(_read_range, rows))
        whole, _ = split_at(found, limit)
        taken = list(whole)
        shortened = found[len(taken) - 1]
        if taken[-1].last < shortened.last:
            whole.pop()
            self._execute(
                f"UPDATE outlast_runs SET first = ? WHERE lease = {READY} AND last = ?",
                (taken[-1].last + 1, shortened.last),
            )
        for one in whole:
            self._execute(
                f"DELETE FROM outlast_runs WHERE lease = {READY} AND last = ?", (one.last,)
            )
        return taken

    def _items(self, ranges: Sequence[ItemRange]) -> tuple[Item, ...]:
        rows: list[Any] = []
        for one in ranges:
            rows += self._execute(
                "SELECT key, payload, ? FROM outlast_items WHERE number BETWEEN ? AND ? "
                "AND typeof(key) = 'text' AND typeof(payload) = 'text'",
                (one.failures, one.first, one.last),
            )
        if len(rows) != size(ranges):
            raise DamagedRow(
                f"some of the items {ranges[0].first} to {ranges[-1].last} are missing or not text"
            )
        # The fastest way to convert tuples to named tuples.
        return tuple(map(tuple.__new__, itertools.repeat(Item), rows))

    def _insert(
        self,
        ranges: Iterable[ItemRange],
        *,
        lease: int = READY,
        until: float = 0.0,
        worker: str = "",
    ) -> None:
        for one in ranges:
            self._execute(_INSERT, (lease, until, worker, *one))

    def _end(self, token: int) -> None:
        self._execute("DELETE FROM outlast_runs WHERE lease = ?", (token,))


def read_throughput(row: Sequence[Any]) -> Throughput:
    since, done, before_seconds, before_done = row
    return Throughput(
        as_seconds(since, "since"),
        as_integer(done, "done"),
        as_seconds(before_seconds, "before_seconds"),
        as_integer(before_done, "before_done"),
    )


def _is_sound(state: Sequence[Any]) -> bool:
    # One expression, because it is evaluated thousands of times per second; likewise below.
    return tuple(map(type, state)) == _STATE_TYPES and (
        0 <= state[2] <= INTEGER_MAX
        and 0 <= state[3]
        and 0 <= state[4] <= SECONDS_MAX
        and 0 <= state[5] <= INTEGER_MAX
        and 0 <= state[6] <= SECONDS_MAX
        and 0 <= state[7] <= INTEGER_MAX
    )


def _damaged_state(state: Sequence[Any]) -> DamagedRow:
    named = zip(("id", *_STATE), state, strict=True)
    return DamagedRow(", ".join(f"{name} is {value!r:.60}" for name, value in named))


def _read_range(row: Sequence[Any]) -> ItemRange:
    first, last, failures, suspects, published = row
    if not (
        type(first) is type(last) is type(failures) is type(suspects) is int
        and type(published) is float
        and 0 < first <= last <= INTEGER_MAX
        and 0 <= failures <= INTEGER_MAX
        and 0 <= suspects <= _SUSPECTS_MAX
        and 0 <= published <= SECONDS_MAX
    ):
        raise DamagedRow(f"a range of items is {tuple(row)!r:.200}")
    return ItemRange._make(row)


def _lost(token: int) -> LeaseLost:
    return LeaseLost.of(f"Lease {token}")


_READ = (
    f"SELECT {', '.join('outlast_queue.' + name for name in ('id', *_STATE))}, "
    f"until, worker, {_RANGE} "
    "FROM outlast_queue LEFT JOIN outlast_runs ON lease = ? WHERE only_row = 1 ORDER BY last"
)
_WRITE = f"UPDATE outlast_queue SET {', '.join(name + ' = ?' for name in _STATE)}"
_OLDEST = f"SELECT {_RANGE} FROM outlast_runs WHERE lease = {READY} ORDER BY last LIMIT 1"
_OLDEST_OF_GROUP = (
    f"SELECT {_RANGE} FROM outlast_runs WHERE lease = {READY} AND suspects = ? "
    "ORDER BY last LIMIT ?"
)
_INSERT = (
    f"INSERT INTO outlast_runs (lease, until, worker, {_RANGE}) "
    f"VALUES ({', '.join('?' * (3 + len(ItemRange._fields)))})"
)
