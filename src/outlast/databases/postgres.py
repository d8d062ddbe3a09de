"""A PostgreSQL connection that reconnects when it breaks, within bounds.

The only module that imports psycopg. After any error the connection is dropped, because its state
is unknown. Every wait for an answer has a timeout, because a machine that hangs keeps its
connections open.
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from outlast._base.backoff import backoff_seconds
from outlast._redact import redact
from outlast.databases.errors import StaleResults, UnavailableError
from outlast.databases.postgres_url import PostgresAddress, is_local
from outlast.errors import MissingExtra, OutlastError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as error:
    raise MissingExtra("postgres", needed_for="A PostgreSQL queue or sink") from error

Connection: TypeAlias = "psycopg.Connection[Any]"

_RETRY_SECONDS = 10.0
_PAUSE_SECONDS = (0.05, 1.0)
_CONNECT_SECONDS_MAX = 5
_ANSWER_SECONDS_MAX = 20.0
# The server ends the transaction of a client that disappeared within about a minute. Plans do not
# degrade while tables grow: every statement here is meant to use an index.
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
# Shutdown, startup, too many connections, a standby after a failover, a deadlock.
_PASSING = frozenset({"57P01", "57P02", "57P03", "53300", "25006", "40001", "40P01", "55P03"})
# These messages come without an SQLSTATE.
_REFUSED = re.compile(
    r"authentication failed|no password supplied|does not exist|no pg_hba\.conf entry|"
    r"not permitted to log in|permission denied for database|for connection option|"
    r"does not support SSL|authentication method requirement"
)

T = TypeVar("T")


REFUSED = "outlast_refused"
"""A statement casts this text to a number, and so fails, if it stored too few results."""


class TransactionRolledBack(Exception):
    """A transaction failed its final check, so nothing happened. The cause is the driver's."""


class RequestAlreadySent(Exception):
    """A request turned out to have been sent already, over a connection that then broke."""


class _SharedConnection:
    """The connection of one or more clients, which use it in turn."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: _BoundedConnection | None = None
        self.pid = os.getpid()


class PostgresClient:
    """One connection, which threads use in turn. With `beside`, it is that of another client.

    Raises `unavailable` if the server cannot be reached and `bad_url` if the URL is invalid.
    `retry_seconds` limits how long a call is retried; it is always tried once.
    """

    def __init__(
        self,
        address: PostgresAddress,
        *,
        unavailable: UnavailableError,
        bad_url: type[OutlastError],
        retry_seconds: float = _RETRY_SECONDS,
        beside: "PostgresClient | None" = None,
    ) -> None:
        self._address = address
        self._unavailable = unavailable
        self._bad_url = bad_url
        self._retry_seconds = retry_seconds
        self._is_owner = beside is None
        self.shared: _SharedConnection = _SharedConnection() if beside is None else beside.shared
        try:
            self._parameters = _with_defaults(conninfo_to_dict(address.given))
        except psycopg.Error:
            # Not chained: the driver quotes the part it could not parse.
            raise self._unreadable() from None
        except _DowngradeRefused as refusal:
            raise bad_url(
                str(refusal),
                hint="Use sslmode=verify-full or require, or write sslmode=disable to connect "
                "without encryption.",
            ) from None

    @property
    def database(self) -> str:
        """Identifies the database and schema, to tell whether two clients share them."""
        return self.call(_place)

    def call(self, work: Callable[[Connection], T]) -> T:
        """Call `work` with the connection, and again with a new one if it broke.

        The first call may have taken effect, so work that must not happen twice has to check.
        Errors that do not come from the server pass through.
        """
        give_up_at = time.monotonic() + self._retry_seconds
        tries = 0
        with self.shared.lock:
            while True:
                try:
                    return work(self._connected())
                except (psycopg.Error, RequestAlreadySent) as error:
                    self._drop()
                    if not _is_passing(error) or time.monotonic() >= give_up_at:
                        raise self._translated(error) from None
                except BaseException:
                    self._drop()
                    raise
                time.sleep(backoff_seconds(tries, *_PAUSE_SECONDS))
                tries += 1

    def close(self) -> None:
        if self._is_owner:
            with self.shared.lock:
                self._drop()

    def _connected(self) -> Connection:
        shared = self.shared
        if shared.pid != os.getpid():
            # A connection inherited through a fork still belongs to the parent. The driver knows
            # that too, and does not close it on the server.
            shared.connection, shared.pid = None, os.getpid()
        if shared.connection is None:
            connection = _BoundedConnection.connect(autocommit=True, **self._parameters)
            # Assigned first, so that it is dropped if the next line fails.
            shared.connection = connection
            encoding = connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise self._bad_url(
                    f"The database {self._address.shown} uses the encoding {encoding}.",
                    hint="Use a database with ENCODING 'UTF8': keys and payloads may be any text.",
                )
            connection.execute(_SESSION)
        return shared.connection

    def _drop(self) -> None:
        shared = self.shared
        connection, shared.connection = shared.connection, None
        if connection is not None and shared.pid == os.getpid():
            connection.close()

    def _unreadable(self) -> OutlastError:
        return self._bad_url(
            "The PostgreSQL URL could not be parsed.",
            hint="Use postgresql://USER:PASSWORD@HOST/DATABASE. In a password, write '/' as %2F, "
            "'#' as %23, '@' as %40 and '%' as %25.",
        )

    def _translated(self, error: psycopg.Error | RequestAlreadySent) -> OutlastError:
        text = str(error)
        if "for connection option" in text:
            return self._unreadable()
        for secret in self._address.secrets:
            text = text.replace(secret, "***")
        text = " ".join(redact(text).split())
        return self._unavailable(
            f"Request to the database {self._address.shown} failed: {text:.500}",
            hint=_hint(error),
            permanent=not _is_passing(error),
        )


class _BoundedConnection(psycopg.Connection[Any]):
    """A connection with a timeout for every answer."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        return super().wait(_until(gen, time.monotonic() + _ANSWER_SECONDS_MAX), *args, **kwargs)


@contextlib.contextmanager
def one_transaction(connection: Connection) -> Iterator[None]:
    """Send everything in the block as one transaction, in one round trip if nothing is fetched.

    If the last statement divides by zero, everything is rolled back and `TransactionRolledBack` is
    raised. A statement that fails on `REFUSED` raises `StaleResults`.
    """
    try:
        with connection.pipeline():
            connection.execute("BEGIN")
            yield
            connection.execute("COMMIT")
    except psycopg.errors.DivisionByZero as error:
        raise TransactionRolledBack from error
    except psycopg.errors.InvalidTextRepresentation as error:
        if REFUSED not in str(error):
            raise
        raise StaleResults("The sink holds newer results for some of these keys.") from None


def text_array(values: Iterable[str]) -> str:
    """A text array in PostgreSQL syntax; thirty times as fast as the driver's own adapter."""
    escaped = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return '{"' + '","'.join(escaped) + '"}' if escaped else "{}"


def number_array(values: Iterable[float]) -> str:
    return "{" + ",".join(map(repr, values)) + "}"


def _until(gen: Generator[Any, Any, T], give_up_at: float) -> Generator[Any, Any, T]:
    """The same generator with a timeout. The driver wakes it at least every tenth of a second."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            wanted = gen.send(ready)
            if time.monotonic() > give_up_at:
                raise psycopg.OperationalError("the server did not answer in time")
    except StopIteration as end:
        value: T = end.value
        return value


def _with_defaults(parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        **_security(parameters),
        "connect_timeout": _CONNECT_SECONDS_MAX,
        "application_name": "outlast",
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        **parameters,
        "client_encoding": "utf8",
    }


class _DowngradeRefused(ValueError):
    """The URL allows an unencrypted connection without saying so."""


def _security(parameters: dict[str, Any]) -> dict[str, str]:
    """Over a network: TLS, and a server that authenticates us without seeing the password.

    Options in the URL take precedence, except that `prefer` and `allow` are refused: an attacker
    on the network can turn them into no encryption.
    """
    if is_local(parameters, os.environ):
        return {}
    if (mode := parameters.get("sslmode")) in ("prefer", "allow"):
        raise _DowngradeRefused(
            f"sslmode={mode} in the URL of the database lets the connection fall back to no "
            "encryption."
        )
    known = _known_to_libpq(parameters.get("service")) | parameters
    is_verified = known.get("sslmode") in ("verify-ca", "verify-full")
    secure = {"sslmode": known["sslmode"] if is_verified else "require"}
    # Older versions of libpq do not know the option.
    if psycopg.pq.version() >= 160000 and not known.get("require_auth"):
        # With a client certificate, the server asks for nothing else.
        has_certificate = is_verified and known.get("sslcert")
        secure["require_auth"] = "!password,!md5" + ("" if has_certificate else ",!none")
    return secure


def _known_to_libpq(service: str | None) -> dict[str, str]:
    """The options that libpq takes from a service file and its environment variables.

    libpq resolves them when it starts to connect, so it is given a socket that does not exist.
    """
    nowhere = make_conninfo(host="/nonexistent", hostaddr="", service=service)
    connection = psycopg.pq.PGconn.connect_start(nowhere.encode())
    try:
        return {
            option.keyword.decode(): option.val.decode()
            for option in connection.info
            if option.val is not None
        }
    finally:
        connection.finish()


def _place(connection: Connection) -> str:
    info = connection.info
    [schema] = connection.execute("SELECT current_schema()").fetchone() or [None]
    return f"postgresql://{info.user}@{info.host}:{info.port}/{info.dbname}/{schema}"


def _is_passing(error: psycopg.Error | RequestAlreadySent) -> bool:
    """Whether a new connection may help."""
    if isinstance(error, RequestAlreadySent | psycopg.InterfaceError):
        return True
    if error.sqlstate is not None:
        return error.sqlstate in _PASSING or error.sqlstate.startswith("08")
    return isinstance(error, psycopg.OperationalError) and not _REFUSED.search(str(error))


def _hint(error: psycopg.Error | RequestAlreadySent) -> str:
    if isinstance(error, RequestAlreadySent):
        return "Run it again. Nothing is lost."
    if error.sqlstate is None and "does not support SSL" in str(error):
        return "Enable TLS on the server. To connect without it, add ?sslmode=disable to the URL."
    if error.sqlstate is None and "authentication method requirement" in str(error):
        return (
            "Configure the server to use scram-sha-256. To accept another method, name it in the "
            "URL, for example ?require_auth=md5"
        )
    if error.sqlstate is None and _REFUSED.search(str(error)):
        return "Check the user, password and database name in the URL."
    if error.sqlstate == "55P03":
        return "Another program, such as one publishing the same keys, has locked these rows. Wait."
    if error.sqlstate is None or _is_passing(error):
        return "Check that the server is running and reachable, then run it again. Nothing is lost."
    if error.sqlstate in ("42501", "3F000"):
        return "Grant the user permission to create and change tables there."
    if error.sqlstate.startswith("53"):
        return "Free some space on the server, then run it again. Nothing is lost."
    return "Check that the tables in this database were created by this version of Outlast."
