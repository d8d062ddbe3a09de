"""A PostgreSQL server of our own, thrown away at the end, that can be stopped and started again."""

import atexit
import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.parts import postgres_program
from tests.patience import PATIENCE_SECONDS
from tests.servers.ports import free_port

USER = "tester"
PASSWORD = "s3cret-p@ss/word"  # with characters that a URL must escape
PASSWORD_IN_URL = "s3cret-p%40ss%2Fword"
# PostgreSQL refuses to run as root.
_USER, _GROUP = ("nobody", "nogroup") if os.geteuid() == 0 else (None, None)


class PostgresServer:
    """A cluster in `folder`. It keeps its port, and what is durable, over a restart."""

    def __init__(self, folder: Path, *, fsync: bool) -> None:
        self.folder = folder
        self.port = free_port()
        self._fsync = fsync
        self._process: subprocess.Popen[bytes] | None = None
        self._make()

    def url(
        self, database: str = "postgres", *, user: str = USER, password: str = PASSWORD_IN_URL
    ) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def new_schema(self, database: str = "postgres") -> str:
        """The URL of a fresh, empty schema; far quicker to have than a database."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self.url(database)}?options=-csearch_path%3D{name}"

    def new_database(self, encoding: str = "UTF8") -> str:
        """The URL of a fresh, empty database."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            statement = f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}'"
            connection.execute(statement.encode())
        return self.url(name)

    def start(self) -> None:
        durable = "on" if self._fsync else "off"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_program("postgres"), "-D", str(self.folder / "data"), "-c", f"fsync={durable}"],
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.folder,
                user=_USER,
                group=_GROUP,
            )
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=3).close()
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.03)
            else:
                return

    def stop(self) -> None:
        """End it at once, as a crash would: SIGQUIT to the server, which leaves no farewell."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Make every process of the server stand still, as a machine that hangs would."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for pid in [main, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _make(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in (self.folder, password):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        subprocess.run(
            [
                _program("initdb"),
                *("--no-sync", "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256"),
                *(f"--username={USER}", f"--pwfile={password}", str(self.folder / "data")),
            ],
            check=True,
            capture_output=True,
            cwd=self.folder,
            user=_USER,
            group=_GROUP,
        )
        with (self.folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.port}\n"
                f"unix_socket_directories = '{self.folder}'\nmax_connections = 60\n"
            )


@contextlib.contextmanager
def running_postgres(*, fsync: bool = False) -> Iterator[PostgresServer]:
    """A fresh server on a free port of 127.0.0.1.

    Without fsync it is quick, and what was committed survives a stop, though no power cut.
    """
    folder = Path(tempfile.mkdtemp(prefix="outlast-postgres-"))
    try:
        server = PostgresServer(folder, fsync=fsync)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def shared_postgres() -> PostgresServer:
    """The server that all tests of this process share, each in a database of its own."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(running_postgres())


def _program(name: str) -> str:
    found = postgres_program(name)
    assert found is not None, f"The program {name!r} of PostgreSQL is not installed."
    return str(found)
