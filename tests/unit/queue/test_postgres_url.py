"""The URL of a database is shown without its secrets, and refused without being shown."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.queue.postgres_url import parse_address


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgres://user@host:5433/db", "postgresql://user@host:5433/db"),
        ("postgresql://user:s3cret@host/db", "postgresql://user@host/db"),
        ("postgresql://user:s3cr@t@host/db", "postgresql://user@host/db"),
        ("postgresql://user:s3cret@a:1,b:2/db", "postgresql://user@a:1,b:2/db"),
        ("postgresql:///db?host=/run/x&user=me", "postgresql:///db?host=%2Frun%2Fx&user=me"),
        ("postgresql://h/db?password=s3cret&user=me", "postgresql://h/db?user=me"),
        ("postgresql://h/db?sslpassword=s3cret", "postgresql://h/db"),
        ("postgresql://user:s3cret@host/db#table", "postgresql://user@host/db#table"),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
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
        ("postgresql://user:s3cret@[::1/db", "cannot be read"),
        ("postgresql://user:s3cret#x@host/db", "not the name of a table"),
        ("postgresql://host/db#a-b", "not the name of a table"),
        ("postgresql://host/db#" + "x" * 64, "not the name of a table"),
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
