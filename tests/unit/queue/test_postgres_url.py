"""The URL of a database is shown without its secrets, and refused without being shown."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.databases.postgres_url import is_local, parse_address


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgres://user@host:5433/db", "postgresql://user@host:5433/db"),
        ("postgresql://user:s3cret@host/db", "postgresql://user@host/db"),
        ("postgresql://user:s3cret@a:1,b:2/db", "postgresql://user@a:1,b:2/db"),
        ("postgresql:///db?host=/run/x&user=me", "postgresql:///db?host=%2Frun%2Fx&user=me"),
        ("postgresql://h/db?password=s3cret&user=me", "postgresql://h/db?user=me"),
        ("postgresql://h/db?sslpassword=s3cret", "postgresql://h/db"),
        ("postgresql://user:s3cret@host/db#table", "postgresql://user@host/db#table"),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("postgresql://me%40srv:s3cret@host/db", "postgresql://me%40srv@host/db"),
        ("postgresql://%2Frun%2Fpg/db?password=s3cret", "postgresql://%2Frun%2Fpg/db"),
        (
            "postgresql://h/db?options=-csearch_path%3Dx&API_KEY=s3cret",
            "postgresql://h/db?options=-csearch_path%3Dx",
        ),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    address = parse_address(url)

    assert address.shown == shown
    assert address.given == url.partition("#")[0]
    assert "s3cret" not in address.shown


@given(password=st.text(min_size=1))
def test_no_password_is_shown_whatever_it_is(password: str) -> None:
    password = "s3" + password.encode(errors="replace").decode() + "cret"
    url = f"postgresql://user:{quote(password, safe='')}@host/db"

    address = parse_address(url)

    assert address.shown == "postgresql://user@host/db"
    assert password in address.secrets


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://user:s3cret@[::1/db", "could not be parsed"),
        ("postgresql://user:s3cret#x@host/db", "not a valid table name"),
        ("postgresql://user:x@s3cret@host/db", "must be percent-encoded"),
        ("postgresql://user:s3cret/x@host/db", "must be percent-encoded"),
        ("postgresql://user:x/s3cret@host/db", "must be percent-encoded"),
        ("postgresql://user:12/s3cret@host/db", "must be percent-encoded"),
        ("postgresql://user:x s3cret@host/db", "must be percent-encoded"),
        ("postgresql://user:12?s3cret@host/db", "must be percent-encoded"),
        ("postgresql://user:s3cret\n@host/db", "must be percent-encoded"),
        ("postgresql://user:s3cret@host:port/db", "must be percent-encoded"),
        ("postgresql://host/db#a-b", "not a valid table name"),
        ("postgresql://host/db#" + "x" * 64, "not a valid table name"),
    ],
)
def test_what_cannot_be_read_is_not_quoted(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        parse_address(url)

    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_table_is_named_by_the_fragment() -> None:
    assert parse_address("postgresql://host/db#Results_2").table == "Results_2"
    assert parse_address("postgresql://host/db").table == ""


@pytest.mark.parametrize(
    ("parameters", "environ", "local"),
    [
        ({}, {}, True),
        ({"host": "localhost"}, {}, True),
        ({"host": "127.0.0.9"}, {}, True),
        ({"host": "::1"}, {}, True),
        ({"host": "/run/postgresql"}, {}, True),
        ({"host": "localhost,127.0.0.1"}, {}, True),
        ({"host": "db"}, {}, False),
        ({"host": "10.0.0.7"}, {}, False),
        ({"host": "localhost,db"}, {}, False),
        ({"host": "localhost.example.com"}, {}, False),
        ({"host": "localhost", "hostaddr": "10.0.0.7"}, {}, False),
        ({"host": "db", "hostaddr": "127.0.0.1"}, {}, True),
        ({}, {"PGHOST": "db"}, False),
        ({"host": "localhost"}, {"PGHOST": "db"}, True),
        ({}, {"PGHOSTADDR": "10.0.0.7"}, False),
        ({"host": "localhost"}, {"PGHOSTADDR": "10.0.0.7"}, False),
        ({"host": "localhost", "hostaddr": "127.0.0.1"}, {"PGHOSTADDR": "10.0.0.7"}, True),
        ({"host": "localhost,db", "hostaddr": "127.0.0.1,"}, {}, False),
        ({"service": "jobs"}, {}, False),
        ({}, {"PGSERVICE": "jobs"}, False),
    ],
)
def test_only_this_machine_is_local(
    parameters: dict[str, str], environ: dict[str, str], local: bool
) -> None:
    assert is_local(parameters, environ) is local
