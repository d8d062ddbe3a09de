"""Checks for read-only commands: they must not create a missing queue or sink."""

import contextlib
import sqlite3
from pathlib import Path

from outlast.databases.sqlite import DISTRUST, path_of
from outlast.errors import OutlastError
from outlast.queue.errors import QueueUrlError
from outlast.queue.sqlite.schema import TABLE_MADE_LAST
from outlast.results.errors import SinkUrlError


def refuse_missing_queue(url: str) -> None:
    """Refuse a SQLite file that does not exist or has no queue; opening would create one."""
    if url.startswith("sqlite:"):
        path = _file_of(url, QueueUrlError)
        if not _has_table(path, TABLE_MADE_LAST, QueueUrlError):
            raise QueueUrlError(
                f"No queue in {str(path)!r}.",
                hint="Check the URL. `outlast publish` creates a queue.",
            )


def refuse_missing_sink(url: str) -> None:
    """Refuse a file, table or folder that does not exist; opening would create it."""
    if url.startswith("sqlite:"):
        path = _file_of(url, SinkUrlError)
        table = url.partition("#")[2] or "results"
        if not _has_table(path, table, SinkUrlError):
            raise SinkUrlError(
                f"No table {table!r:.100} in {str(path)!r}.",
                hint="Check the file and the table after '#' in the URL. A worker creates the "
                "table when it starts.",
            )
    elif "://" not in url and not Path(url).is_dir():
        what = "is a file, not a folder" if Path(url).exists() else "does not exist"
        raise SinkUrlError(
            f"{url!r} {what}.",
            hint=f"Name the folder with the results. For a SQLite file, use sqlite:///{url}.",
        )


def _file_of(url: str, refused: type[OutlastError]) -> Path:
    path = path_of(url, refused=refused)
    if not path.exists():
        raise refused(
            f"The file {str(path)!r} does not exist.",
            hint="Check the URL. An absolute path needs a fourth slash: sqlite:////folder/file",
        )
    if path.is_dir():
        raise refused(f"{str(path)!r} is a folder.", hint="Name a SQLite file: sqlite:///jobs.db")
    return path


def _has_table(path: Path, table: str, refused: type[OutlastError]) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            for pragma in DISTRUST:
                connection.execute(f"PRAGMA {pragma}")
            return connection.execute(query, (table,)).fetchone() is not None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorname", "") != "SQLITE_NOTADB":
            # Opening it the usual way gives a better error.
            return True
        raise refused(f"{str(path)!r} is not a SQLite database.", hint="Check the URL.") from None
