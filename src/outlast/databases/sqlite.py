"""A SQLite file that many processes on one machine can write to, one at a time and durably.

It uses WAL mode with a sync at every commit. Each writer first locks a file next to the database,
because with SQLite's own locking one writer can starve another. Network file systems and damaged
files are refused. New files are private unless `OUTLAST_SHARE` says otherwise; SQLite gives the
files next to them the same mode.
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
from outlast._redact import shows_secret
from outlast.databases.errors import UnavailableError
from outlast.errors import OutlastError
from outlast.storage.local.folders import is_remote
from outlast.storage.settings import shared_mode

# Publishing millions of items holds the lock for a minute or more; a stopped process, forever.
WAIT_SECONDS = 300.0
_BUSY_SECONDS = 10.0
# The file may come from someone else: its schema must not call functions with side effects, and
# damaged pages must be detected.
DISTRUST = ("trusted_schema=OFF", "cell_size_check=ON")
_HINTS = {
    "SQLITE_FULL": "Free some disk space or raise the quota. Leased items come back on their own.",
    "SQLITE_READONLY": "Check the owner and permissions of the file and its folder.",
    "SQLITE_CANTOPEN": "Check that its folder exists and is writable.",
    "SQLITE_BUSY": "Another program has locked the file. Close it and try again.",
    "SQLITE_CORRUPT": "Restore the file from a backup, or recover what is readable: "
    "sqlite3 FILE .recover | sqlite3 NEW",
    "SQLITE_NOTADB": "Use a file created by Outlast, or a new one.",
    "SQLITE_IOERR": "Check the disk. `dmesg` may show more.",
}
_DAMAGED_HINT = (
    "Its tables are damaged, or another program changed them. Restore the file from a backup, or "
    "use a new one."
)
# Waiting does not help with these.
_PERMANENT = frozenset({"SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_CORRUPT", "SQLITE_NOTADB"})


INTEGER_MAX = 2**53
"""The largest integer that is read from a file. A larger one was not written by this library."""

SECONDS_MAX = 1e12


class DamagedRow(Exception):
    """A row holds a value that this library never writes.

    Raised inside `SQLiteFile.reading` or `writing`, which report it with the name of the file.
    """


def as_integer(value: object, name: str, *, least: int = 0, most: int = INTEGER_MAX) -> int:
    """The value of a column, which may hold anything: SQLite does not enforce its types."""
    if type(value) is not int or not least <= value <= most:
        raise DamagedRow(f"{name} is {value!r:.60}")
    return value


def as_seconds(value: object, name: str) -> float:
    # Both kinds of infinity are greater; NaN cannot be stored.
    if type(value) not in (int, float) or not 0 <= value <= SECONDS_MAX:  # type: ignore[operator]  # it is a number
        raise DamagedRow(f"{name} is {value!r:.60}")
    return value  # type: ignore[return-value]  # it is a number


def as_text(value: object, name: str) -> str:
    if type(value) is not str:
        raise DamagedRow(f"{name} is {value!r:.60}")
    return value


def path_of(url: str, *, refused: type[OutlastError]) -> Path:
    """The file of `sqlite:///file` (relative) or `sqlite:////folder/file` (absolute)."""
    if shows_secret(url):
        raise refused(
            f"The URL {url!r} contains a secret, but SQLite URLs do not take one.",
            hint="Use sqlite:///file, with a fourth slash for an absolute path.",
        )
    rest = url.partition("#")[0].removeprefix("sqlite://")
    if not rest.startswith("/") or "?" in rest or rest in ("/", "/:memory:"):
        raise refused(
            f"{url!r} does not name a file.",
            hint="Use sqlite:///file, with a fourth slash for an absolute path. For tests in "
            "memory, see outlast.testing.",
        )
    return Path(unquote(rest[1:]))


class SQLiteFile:
    """An open database, which can be used from any thread and after a fork.

    If `table` is missing, `schema` is run in a transaction. `unavailable` is raised if the file
    cannot be used.
    """

    def __init__(
        self, path: Path, *, schema: str, table: str, unavailable: UnavailableError
    ) -> None:
        self._path = path.absolute()
        self._shown = str(path)
        self._schema = schema
        self._table = table
        self._unavailable = unavailable
        self._threads = threading.RLock()
        self._abandoned: list[object] = []
        self._mode = shared_mode(0o600)
        self._refuse_remote()
        self._pid = os.getpid()
        self._lock = self._lock_file()
        self._connection: sqlite3.Connection | None = None
        self._open()

    @property
    def database(self) -> str:
        return f"sqlite:{self._path.resolve()}"

    def writing(self, connection: sqlite3.Connection | None = None) -> "_Writing":
        """A transaction: committed at the end of the block, rolled back if it raises.

        If killed: nothing in the block took effect.
        """
        return _Writing(self, connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For single statements, each of which sees a consistent state of the file."""
        with self._threads, self._translated("read"):
            yield self._own()

    @contextlib.contextmanager
    def staging(self) -> Iterator[sqlite3.Connection]:
        """A separate connection, for slow work that must not block other threads."""
        with self._translated("write"), contextlib.closing(self._connect()) as connection:
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
            with self._translated("write"):
                if error is None:
                    connection.execute("COMMIT")
                elif isinstance(error, sqlite3.DatabaseError | DamagedRow | UnicodeDecodeError):
                    raise error
        finally:
            # A signal handler may raise anywhere, and a failed commit may leave it open.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._lock.release()
            self._threads.release()

    def _open(self) -> None:
        with self._translated("open"):
            self._create()
            self._connection = self._connect()
            try:
                _refuse_foreign_code(self._connection)
                if not self._is_prepared(self._connection):
                    self._prepare(self._connection)
            except BaseException:
                self.close()
                raise

    def _create(self) -> None:
        """Create the file with the right permissions; SQLite would leave them to the umask.

        If killed: an empty file may be left, which is an empty database.
        """
        # SQLite reports what is wrong with the path.
        with contextlib.suppress(OSError):
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self._mode)
            try:
                os.fchmod(fd, self._mode)
            finally:
                os.close(fd)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # fullfsync is for macOS, where a plain sync stops at the disk's own memory.
        for pragma in ("synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON", *DISTRUST):
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
            raise self._unavailable(f"{self._shown!r} is closed.", hint="Open it again.")
        if self._pid != os.getpid():
            # After a fork, the child must neither use nor close what the parent opened.
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
                hint="If that process is stopped or hangs, resume or kill it.",
            )

    def _lock_file(self) -> FileLock:
        try:
            return FileLock(self._path.with_name(self._path.name + "-lock"), mode=self._mode)
        except OSError as error:
            raise self._unavailable(
                f"Could not open {self._shown + '-lock'!r}: {error.strerror}.",
                hint=_HINTS["SQLITE_CANTOPEN"],
                permanent=True,
            ) from error

    def _refuse_remote(self) -> None:
        if is_remote(self._path.parent):
            raise self._unavailable(
                f"{self._shown!r} is on a network or FUSE file system.",
                hint="SQLite can lose writes there. Use a local disk, or postgresql://...",
                permanent=True,
            )

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Report what is wrong with the file. A mistake in a statement of ours passes through."""
        try:
            yield
        # The driver quotes damaged text in its errors, and cannot always decode it.
        except (DamagedRow, UnicodeDecodeError) as error:
            raise self._unavailable(
                f"Could not {doing} {self._shown!r}: {error}.",
                hint=_DAMAGED_HINT,
                permanent=True,
            ) from error
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.DatabaseError as error:
            # "SQLITE_IOERR_WRITE" is a kind of "SQLITE_IOERR".
            kind = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
            raise self._unavailable(
                f"Could not {doing} {self._shown!r}: {error}.",
                hint=_HINTS.get(kind, _DAMAGED_HINT),
                permanent=kind in _PERMANENT or kind not in _HINTS,
            ) from error


def _refuse_foreign_code(connection: sqlite3.Connection) -> None:
    """Refuse triggers and views in the place of our tables: they could run forever."""
    found = connection.execute(
        "SELECT type, name FROM sqlite_master "
        "WHERE type IN ('trigger', 'view') AND lower(tbl_name) GLOB 'outlast_*'"
    ).fetchone()
    if found is not None:
        raise DamagedRow(f"it has a {found[0]} {found[1]!r:.60}")


class _Writing:
    """A block in a transaction. Not a generator, because it runs thousands of times per second."""

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
