"""The backends of the sink contract: one row each."""

import atexit
import contextlib
import functools
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from outlast.results import Sink, open_sink
from outlast.testing import MemorySink
from tests.servers.moto import BUCKET, running_moto
from tests.servers.postgres import shared_postgres


@dataclass(frozen=True, kw_only=True, slots=True)
class Backend:
    """A fresh, empty sink: `open` gives one more handle on it; `url` opens it elsewhere.

    `many` is how many results are many for the server behind it.
    """

    open: Callable[[], Sink]
    url: str | None = None
    many: int = 2500


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    name: str
    opened: Callable[[Path], AbstractContextManager[Backend]]
    marks: tuple[pytest.MarkDecorator, ...] = ()


def backend_of(request: pytest.FixtureRequest, folder: Path) -> AbstractContextManager[Backend]:
    row: Row = request.param
    return row.opened(folder)


@contextlib.contextmanager
def _memory(_folder: Path) -> Iterator[Backend]:
    sink = MemorySink()
    yield Backend(open=lambda: sink)


@contextlib.contextmanager
def _sqlite(folder: Path) -> Iterator[Backend]:
    url = f"sqlite:///{folder / 'results.db'}"
    yield Backend(open=lambda: open_sink(url), url=url)


@contextlib.contextmanager
def _postgres(_folder: Path) -> Iterator[Backend]:
    url = f"{shared_postgres().new_schema()}#Embeddings_2"
    yield Backend(open=lambda: open_sink(url), url=url)


@contextlib.contextmanager
def _folder(folder: Path) -> Iterator[Backend]:
    url = f"{folder}/results"
    yield Backend(open=lambda: open_sink(url), url=url)


@contextlib.contextmanager
def _s3(_folder: Path) -> Iterator[Backend]:
    environ = {
        "AWS_ENDPOINT_URL": _shared_moto(),
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_REGION": "us-east-1",
    }
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    with mock.patch.dict(os.environ, environ):
        yield Backend(open=lambda: open_sink(url), url=url, many=100)


@functools.cache
def _shared_moto() -> str:
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(running_moto())


ROWS = (
    Row(name="memory", opened=_memory),
    Row(name="sqlite", opened=_sqlite),
    Row(name="postgres", opened=_postgres, marks=(pytest.mark.needs("postgres"),)),
    Row(name="folder", opened=_folder),
    Row(name="s3", opened=_s3),
)
PARAMS = [pytest.param(row, id=row.name, marks=row.marks) for row in ROWS]
