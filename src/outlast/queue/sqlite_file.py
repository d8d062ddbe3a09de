"""One SQLite file that many processes of a machine write in turn, durably.

WAL with a sync at every commit. A lock file beside it is taken before each write: SQLite's own
waiting lets one writer starve another. Queues and sinks share this module, and it refuses what
cannot be trusted with either: network file systems, and files that are no database.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote

from outlast._base.filelock import FileLock
from outlast.errors import OutlastError
from outlast.storage.mounts import is_remote

# A publish of millions holds the lock for a minute or more; a process that is stopped, for ever.
WAIT_SECONDS = 300.0
_BUSY_SECONDS = 10.0
_HINTS = {
    "SQLITE_FULL": "Free some space, or raise the quota. What is leased comes back by itself.",
    "SQLITE_READONLY": "Check the owner and the mode of the file and its folder.",
    "SQLITE_CANTOPEN": "Check that its folder is there and may be written to.",
    "SQLITE_BUSY": "A program that is none of ours holds the file. End what it does there.",
    "SQLITE_CORRUPT": "Take a copy that is whole, or save what can be read: "
    "sqlite3 FILE .recover | sqlite3 NEW",
    "SQLITE_NOTADB": "Name a file made by outlast, or one that is not there yet.",
    "SQLITE_IOERR": "Check the disk: `dmesg` may say more.",
}


def path_of(url: str, *, refused: type[OutlastError]) -> Path:
    """The file that `sqlite:///file` (here) or `sqlite:////folder/file` (from the root) names."""
    rest = url.partition("#")[0].removeprefix("sqlite://")
    if not rest.startswith("/") or "?" in rest or rest in ("/", "/:memory:"):
        raise refused(
            f"{url!r} does not name a file.",
            hint="Write sqlite:///file, with a fourth slash before an absolute path. "
            "For tests in memory, there is outlast.testing.",
        )
    return Path(unquote(rest[1:]))


class SQLiteFile:
    """An open database. May be used from any thread, and after a fork.

    `schema` is run once, within a transaction, by whoever finds that `table` is missing.
    `unavailable` is what is raised when the file cannot be used.
    """

    def __init__(
        self, path: Path, *, schema: str, table: str, unavailable: type[OutlastError]
    ) -> None:
        self._path = path.absolute()
        self._shown = str(path)
        self._schema = schema
        self._table = table
        self._unavailable = unavailable
        self._threads = threading.RLock()
        self._abandoned: list[object] = []
        self._refuse_remote()
        self._pid = os.getpid()
        self._lock = self._lock_file()
        self._connection: sqlite3.Connection | None = None
        self._open()

    @property
    def place(self) -> str:
        return f"sqlite:{self._path.resolve()}"

    def writing(self, connection: sqlite3.Connection | None = None) -> "_Writing":
        """A transaction: committed at the end of the block, undone if it raises.

        If killed: nothing of the block happened.
        """
        return _Writing(self, connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For single statements: each sees one state of the file."""
        with self._threads, self._translated("read"):
            yield self._own()

    @contextlib.contextmanager
    def staging(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own, for slow work that must not hold up other threads."""
        with self._translated("written"), contextlib.closing(self._connect()) as connection:
            yield connection

    def close(self) -> None:
        with self._threads:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
                self._lock.close()
            self._connection = None

    def begin(self, given: sqlite3.Connection | None) -> sqlite3.Connection:
        self._threads.acquire()
        try:
            own = self._own()
            self._acquire()
        except BaseException:
            self._threads.release()
            raise
        connection = given or own
        try:
            connection.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self.end(connection, error)
            raise
        return connection

    def end(self, connection: sqlite3.Connection, error: BaseException | None) -> None:
        try:
            with self._translated("written"):
                if error is None:
                    connection.execute("COMMIT")
                elif isinstance(error, sqlite3.DatabaseError):
                    raise error
        finally:
            # A signal handler may raise anywhere, and a failed commit may leave it open.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._lock.release()
            self._threads.release()

    def _open(self) -> None:
        with self._translated("opened"):
            self._connection = self._connect()
            try:
                if not self._is_prepared(self._connection):
                    self._prepare(self._connection)
            except BaseException:
                self.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # fullfsync is for macOS, where a plain sync stops at the disk's own memory.
        for pragma in ("synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _is_prepared(self, connection: sqlite3.Connection) -> bool:
        [mode] = connection.execute("PRAGMA journal_mode").fetchone()
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return mode == "wal" and connection.execute(query, (self._table,)).fetchone() is not None

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._acquire()
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        finally:
            self._lock.release()
        with self.writing():
            for statement in self._schema.split(";\n"):
                connection.execute(statement)

    def _own(self) -> sqlite3.Connection:
        if self._connection is None:
            raise self._unavailable(f"{self._shown!r} was closed.", hint="Open it again.")
        if self._pid != os.getpid():
            # What the parent of a fork opened must not be used, nor closed, by the child.
            self._abandoned += [self._connection, self._lock]
            self._pid = os.getpid()
            self._lock = self._lock_file()
            self._open()
        return self._connection

    def _acquire(self) -> None:
        if not self._lock.acquire(timeout_seconds=WAIT_SECONDS):
            holder = self._lock.holder()
            raise self._unavailable(
                f"{self._shown!r} has been locked for {WAIT_SECONDS:.0f} s"
                + (f" by process {holder}." if holder else "."),
                hint="If that process is stopped or hangs, continue it or end it.",
            )

    def _lock_file(self) -> FileLock:
        try:
            return FileLock(self._path.with_name(self._path.name + "-lock"))
        except OSError as error:
            raise self._unavailable(
                f"{self._shown + '-lock'!r} could not be opened: {error.strerror}.",
                hint=_HINTS["SQLITE_CANTOPEN"],
            ) from error

    def _refuse_remote(self) -> None:
        if is_remote(self._path.parent):
            raise self._unavailable(
                f"{self._shown!r} is on a network or FUSE file system.",
                hint="SQLite can lose writes there: use a local disk, or postgresql://...",
            )

    @contextlib.contextmanager
    def _translated(self, done: str) -> Iterator[None]:
        """Raise errors as ours that are about the file, and not about a statement."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            # "SQLITE_IOERR_WRITE" is a kind of "SQLITE_IOERR".
            kind = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
            if kind not in _HINTS:
                raise
            raise self._unavailable(
                f"{self._shown!r} could not be {done}: {error}.", hint=_HINTS[kind]
            ) from error


class _Writing:
    """A block in a transaction. No generator: this is entered thousands of times a second."""

    __slots__ = ("_connection", "_file", "_given")

    def __init__(self, file: SQLiteFile, given: sqlite3.Connection | None) -> None:
        self._file = file
        self._given = given

    def __enter__(self) -> sqlite3.Connection:
        self._connection = self._file.begin(self._given)
        return self._connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.end(self._connection, error)
