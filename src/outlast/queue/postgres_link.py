"""A connection to PostgreSQL that is made anew when it breaks, within bounds.

The only module that imports psycopg. Whatever goes wrong, the connection is dropped, because
nobody knows what state it is in. Every wait for an answer has an end, because a machine that hangs
keeps its connections alive.
"""

import contextlib
import os
import random
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from outlast.errors import OutlastError
from outlast.queue.postgres_url import Address
from outlast.storage.errors import MissingExtra

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise MissingExtra("postgres", needed_for="A queue or a sink in PostgreSQL") from error

Connection: TypeAlias = "psycopg.Connection[Any]"

_RETRY_SECONDS = 10.0
_PAUSE_SECONDS = (0.05, 1.0)
_CONNECT_SECONDS_MAX = 5
_ANSWER_SECONDS_MAX = 20.0
# So that the server ends what a client that vanished had begun, within about a minute, and that
# plans do not change for the worse while tables grow: every statement here is one for an index.
_SESSION = """
    SET tcp_keepalives_idle = 30;
    SET tcp_keepalives_interval = 10;
    SET tcp_keepalives_count = 3;
    SET lock_timeout = '15s';
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET jit = off;
    SET plan_cache_mode = force_generic_plan
"""
# Shut down, starting, too many connections, a standby after a failover, a deadlock.
_PASSING = frozenset({"57P01", "57P02", "57P03", "53300", "25006", "40001", "40P01", "55P03"})
# The server says so before there is a code for it.
_REFUSED = re.compile(
    r"authentication failed|no password supplied|does not exist|no pg_hba\.conf entry|"
    r"not permitted to log in|permission denied for database|for connection option"
)

T = TypeVar("T")


class Undone(Exception):
    """A transaction failed in its last check: nothing of it happened. The cause is the driver's."""


class SentBefore(Exception):
    """Raised by work that finds that it was sent before, on a connection that broke."""


class PostgresLink:
    """One connection for all threads, which take turns.

    `unavailable` and `bad_url` are raised when the server cannot be reached and when the URL is of
    no use. `retry_seconds` bounds how long a call tries again; it always tries once.
    """

    def __init__(
        self,
        address: Address,
        *,
        unavailable: type[OutlastError],
        bad_url: type[OutlastError],
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        self._address = address
        self._unavailable = unavailable
        self._bad_url = bad_url
        self._retry_seconds = retry_seconds
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        self._pid = os.getpid()
        try:
            self._parameters = _with_defaults(conninfo_to_dict(address.given))
        except psycopg.Error:
            # Not chained: the driver quotes the part that it could not read.
            raise self._unreadable() from None

    @property
    def place(self) -> str:
        """The database as this role sees it, by which two links are known to share it."""
        return self.call(_place)

    def call(self, work: Callable[[Connection], T]) -> T:
        """Do `work` with the connection, and again with a new one if it broke.

        So `work` may have taken effect before it is done again: what must not happen twice has to
        find out. Whatever it raises that is not about the server passes through.
        """
        give_up_at = time.monotonic() + self._retry_seconds
        tries = 0
        with self._lock:
            while True:
                try:
                    return work(self._connected())
                except (psycopg.Error, SentBefore) as error:
                    self._drop()
                    if not _is_passing(error) or time.monotonic() >= give_up_at:
                        raise self._translated(error) from None
                except BaseException:
                    self._drop()
                    raise
                time.sleep(_pause_seconds(tries))
                tries += 1

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _connected(self) -> Connection:
        if self._pid != os.getpid():
            # Of a connection that was inherited by a fork, the parent remains the owner. The driver
            # knows that, too, and does not say farewell to the server in our name.
            self._connection, self._pid = None, os.getpid()
        if self._connection is None:
            connection = _Connection.connect(autocommit=True, **self._parameters)
            # Kept first, so that it is dropped should the next line fail.
            self._connection = connection
            encoding = connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise self._bad_url(
                    f"The database {self._address.shown} is encoded in {encoding}.",
                    hint="Use one made with ENCODING 'UTF8': keys and payloads may be any text.",
                )
            connection.execute(_SESSION)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            connection.close()

    def _unreadable(self) -> OutlastError:
        return self._bad_url(
            "The URL of the PostgreSQL database cannot be read.",
            hint="Write postgresql://user:password@host/database; in a password, write "
            "'/' as %2F, '#' as %23, '@' as %40 and '%' as %25.",
        )

    def _translated(self, error: psycopg.Error | SentBefore) -> OutlastError:
        text = " ".join(str(error).split())
        if "for connection option" in text:
            return self._unreadable()
        for secret in self._address.secrets:
            text = text.replace(secret, "***")
        return self._unavailable(
            f"The database {self._address.shown} did not do what was asked: {text:.500}",
            hint=_hint(error),
        )


class _Connection(psycopg.Connection[Any]):
    """A connection on which no answer is waited for without end."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        return super().wait(_until(gen, time.monotonic() + _ANSWER_SECONDS_MAX), *args, **kwargs)


@contextlib.contextmanager
def one_transaction(connection: Connection) -> Iterator[None]:
    """Send everything in the block as one transaction, in one round trip if nothing is fetched.

    A last statement that divides by zero undoes it all, and raises `Undone`.
    """
    try:
        with connection.pipeline():
            connection.execute("BEGIN")
            yield
            connection.execute("COMMIT")
    except psycopg.errors.DivisionByZero as error:
        raise Undone from error


def text_array(values: Iterable[str]) -> str:
    """An array of text as PostgreSQL writes it; thirty times as fast as the driver's own way."""
    escaped = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return '{"' + '","'.join(escaped) + '"}' if escaped else "{}"


def number_array(values: Iterable[float]) -> str:
    return "{" + ",".join(map(repr, values)) + "}"


def _until(gen: Generator[Any, Any, T], give_up_at: float) -> Generator[Any, Any, T]:
    """The same generator; the driver wakes it every tenth of a second, if nothing else does."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            wanted = gen.send(ready)
            if time.monotonic() > give_up_at:
                raise psycopg.OperationalError("the server does not answer")
    except StopIteration as end:
        value: T = end.value
        return value


def _with_defaults(parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "connect_timeout": _CONNECT_SECONDS_MAX,
        "application_name": "outlast",
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        **parameters,
        "client_encoding": "utf8",
    }


def _place(connection: Connection) -> str:
    info = connection.info
    [schema] = connection.execute("SELECT current_schema()").fetchone() or [None]
    return f"postgresql://{info.user}@{info.host}:{info.port}/{info.dbname}/{schema}"


def _is_passing(error: psycopg.Error | SentBefore) -> bool:
    """Whether a new connection may help."""
    if isinstance(error, SentBefore | psycopg.InterfaceError):
        return True
    if error.sqlstate is not None:
        return error.sqlstate in _PASSING or error.sqlstate.startswith("08")
    return isinstance(error, psycopg.OperationalError) and not _REFUSED.search(str(error))


def _hint(error: psycopg.Error | SentBefore) -> str:
    if isinstance(error, SentBefore):
        return "Start again: nothing is lost."
    if error.sqlstate is None and _REFUSED.search(str(error)):
        return "Check the user, the password and the name of the database in the URL."
    if error.sqlstate == "55P03":
        return "Another program holds these rows, such as one that publishes the same keys. Wait."
    if error.sqlstate is None or _is_passing(error):
        return "Check that the server runs and can be reached, then start again: nothing is lost."
    if error.sqlstate in ("42501", "3F000"):
        return "Give the user the right to create and change tables there."
    if error.sqlstate.startswith("53"):
        return "Make room on the server, then start again: nothing is lost."
    return "Check that the tables of this database were made by this version of Outlast."


def _pause_seconds(tries: int) -> float:
    least, most = _PAUSE_SECONDS
    return min(least * 2.0 ** min(tries, 30), most) * random.uniform(0.5, 1.0)
