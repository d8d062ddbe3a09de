"""How a database is reached over a network: encrypted, and without a password in plain text."""

from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg")

from psycopg.conninfo import conninfo_to_dict  # noqa: E402 - only where psycopg is

from outlast.databases.postgres import _hint, _is_passing, _with_defaults  # noqa: E402
from outlast.queue.errors import QueueUrlError  # noqa: E402
from outlast.queue.postgres.queue import PostgresQueue  # noqa: E402


@pytest.fixture(autouse=True)
def _no_variables_of_libpq(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGSSLMODE", "PGREQUIREAUTH"):
        monkeypatch.delenv(name, raising=False)


def security_of(url: str) -> tuple[str | None, str | None]:
    parameters = _with_defaults(conninfo_to_dict(url))
    return parameters.get("sslmode"), parameters.get("require_auth")


@pytest.mark.parametrize(
    ("url", "security"),
    [
        ("postgresql://localhost/db", (None, None)),
        ("postgresql:///db?host=/run/postgresql", (None, None)),
        ("postgresql://db/jobs", ("require", "!password,!md5,!none")),
        ("postgresql://localhost,db/jobs", ("require", "!password,!md5,!none")),
        ("postgresql://db/jobs?sslmode=disable", ("disable", "!password,!md5,!none")),
        ("postgresql://db/jobs?sslmode=verify-full", ("verify-full", "!password,!md5,!none")),
        ("postgresql://db/jobs?sslcert=c.pem", ("require", "!password,!md5,!none")),
        (
            "postgresql://db/jobs?sslcert=c.pem&sslmode=verify-full",
            ("verify-full", "!password,!md5"),
        ),
        ("postgresql://db/jobs?require_auth=md5", ("require", "md5")),
    ],
)
def test_over_a_network_tls_is_required_unless_the_url_says_otherwise(
    url: str, security: tuple[str | None, str | None]
) -> None:
    assert security_of(url) == security


@pytest.mark.parametrize("mode", ["prefer", "allow"])
def test_a_mode_that_can_be_downgraded_is_refused_over_a_network(mode: str) -> None:
    with pytest.raises(QueueUrlError, match=f"sslmode={mode} .* no encryption") as caught:
        PostgresQueue(f"postgresql://db/jobs?sslmode={mode}")

    assert "sslmode=disable" in str(caught.value.hint)
    assert security_of(f"postgresql://localhost/jobs?sslmode={mode}") == (mode, None)


def test_an_address_in_the_environment_counts_before_the_host_in_the_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOSTADDR", "10.0.0.5")

    assert security_of("postgresql://localhost/db")[0] == "require"


@pytest.mark.parametrize(
    ("lines", "security"),
    [
        ("sslmode=verify-full", ("verify-full", "!password,!md5,!none")),
        ("sslmode=prefer", ("require", "!password,!md5,!none")),
        ("sslmode=disable", ("require", "!password,!md5,!none")),
        ("require_auth=gss\nsslmode=verify-ca", ("verify-ca", None)),
    ],
)
def test_a_service_file_can_only_make_it_stricter(
    lines: str,
    security: tuple[str, str | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "services").write_text(f"[jobs]\nhost=db.example.com\n{lines}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))

    assert security_of("postgresql:///?service=jobs") == security
    monkeypatch.setenv("PGSERVICE", "jobs")
    assert security_of("postgresql:///jobs") == security


@pytest.mark.parametrize(
    ("variable", "mode"),
    [("disable", "require"), ("prefer", "require"), ("verify-full", "verify-full")],
)
def test_a_variable_can_only_make_it_stricter(
    variable: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSSLMODE", variable)

    assert security_of("postgresql://db/jobs")[0] == mode


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("server does not support SSL, but SSL was required", "sslmode=disable"),
        (
            'authentication method requirement "!password,!md5,!none" failed: server requested a '
            "cleartext password",
            "scram-sha-256",
        ),
    ],
)
def test_a_server_that_offers_less_is_refused_at_once(text: str, hint: str) -> None:
    error = psycopg.OperationalError(text)

    assert not _is_passing(error)
    assert hint in _hint(error)


@pytest.mark.parametrize(
    "message",
    [
        "connection refused",
        'connection to server at "db", port 5432 failed: FATAL:  sorry, too many clients already',
        'FATAL:  too many connections for role "worker"',
        "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
        "FATAL:  the database system is starting up",
    ],
)
def test_a_server_that_is_full_or_starting_is_waited_for(message: str) -> None:
    """While connecting, the driver gives no code, only the text."""
    assert _is_passing(psycopg.OperationalError(message))
