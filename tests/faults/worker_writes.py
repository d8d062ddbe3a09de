"""Has a database count every write of a result, whoever writes it, within the same transaction."""

import sqlite3
from collections import Counter
from contextlib import closing

from outlast.databases.sqlite import path_of
from outlast.queue.errors import QueueUrlError

_SQLITE = """
CREATE TABLE writes (key TEXT);
CREATE TRIGGER inserted AFTER INSERT ON results BEGIN INSERT INTO writes VALUES (new.key); END;
CREATE TRIGGER updated AFTER UPDATE ON results BEGIN INSERT INTO writes VALUES (new.key); END;
"""
_POSTGRES = """
CREATE TABLE writes (key TEXT);
CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO writes VALUES (new.key); RETURN new; END';
CREATE TRIGGER written AFTER INSERT OR UPDATE ON results
    FOR EACH ROW EXECUTE FUNCTION note_write();
"""


def count_writes(url: str) -> None:
    """From now on. The sink must have been opened once, so that its table is there."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(path_of(url, refused=QueueUrlError))) as database:
            database.executescript(_SQLITE)
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_POSTGRES.encode())


def writes(url: str) -> Counter[str]:
    """How often each key was written."""
    query = "SELECT key FROM writes"
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(path_of(url, refused=QueueUrlError))) as database:
            return Counter(key for (key,) in database.execute(query))
    import psycopg

    with psycopg.connect(url) as connection:
        return Counter(key for (key,) in connection.execute(query))
