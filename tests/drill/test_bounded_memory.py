"""However large the results and items are, a command holds only a few of them at a time.

Each measurement is the peak of a process of its own, beyond what it needed for a small job.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from outlast.queue import open_queue
from outlast.results import Result, open_sink
from tests.programs import python
from tests.servers.postgres import shared_postgres

MIB = 1024**2
RESULTS = 100
RESULT_BYTES = 2 * MIB
BEYOND_BYTES_MAX = 150 * MIB

PEAK = """
    def peak():
        for line in open("/proc/self/status"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return shared_postgres().new_schema()
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(
    params=["sqlite", "folder", pytest.param("postgres", marks=pytest.mark.needs("postgres"))]
)
def sink_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    places = {
        "postgres": lambda: shared_postgres().new_schema(),
        "sqlite": lambda: f"sqlite:///{tmp_path}/results.db",
        "folder": lambda: f"{tmp_path}/results",
    }
    return places[request.param]()


def large_results() -> Iterator[Result]:
    for number in range(RESULTS):
        yield Result(f"{number:04}", f'"{number:08}' + "x" * RESULT_BYTES + '"')


def measured(source: str, *arguments: str) -> int:
    """The bytes beyond the small job that the program printed."""
    with python(PEAK + source, *arguments) as program:
        line = program.wait_for("beyond")
        assert program.wait() == 0, program.output
    return int(line.split()[1])


@pytest.mark.parametrize("name", ["results.jsonl", "results.parquet"])
def test_an_export_holds_few_large_results(sink_url: str, name: str, tmp_path: Path) -> None:
    with closing(open_sink(sink_url)) as sink:
        for result in large_results():
            sink.store([result], token=1, version="")
    source = """
    import sys
    from outlast.results import Result, open_sink
    from outlast.results.export import export
    from outlast.testing import MemorySink

    small = MemorySink()
    small.store([Result("a", "1")], token=1, version="")
    sink = open_sink(sys.argv[1])
    sink.done(["a"], version="")
    export(small, sys.argv[2])
    before = peak()
    print("count", export(sink, sys.argv[2]))
    print("beyond", peak() - before)
    """

    beyond_bytes = measured(source, sink_url, str(tmp_path / name))

    assert beyond_bytes < BEYOND_BYTES_MAX
    written = tmp_path / name
    if name.endswith(".jsonl"):
        assert written.stat().st_size > RESULTS * RESULT_BYTES
    written.unlink()


def test_publishing_holds_few_large_items(url: str) -> None:
    source = """
    import sys
    from outlast.queue import Item, open_queue

    count, size = int(sys.argv[2]), int(sys.argv[3])
    queue = open_queue(sys.argv[1])
    queue.publish([("first", "x")])
    before = peak()
    queue.publish(Item(str(n), '"' + "x" * size + '"') for n in range(count))
    print("beyond", peak() - before)
    """

    beyond_bytes = measured(source, url, str(RESULTS), str(RESULT_BYTES))

    assert beyond_bytes < BEYOND_BYTES_MAX
    with closing(open_queue(url)) as queue:
        assert queue.stats().ready == RESULTS + 1


def test_listing_dead_items_holds_few_large_ones(url: str) -> None:
    source = """
    import os, sys
    from outlast.cli.app import run
    from outlast.queue import Failure, Item, Settlement, LeaseTerms, open_queue

    count, size = int(sys.argv[2]), int(sys.argv[3])
    queue = open_queue(sys.argv[1])
    terms = LeaseTerms(worker="me")
    for number in range(count):
        queue.publish([Item(str(number), '"' + "x" * size + '"')])
        lease = queue.claim(1, terms)
        failed = (Failure(str(number), "no", is_final=True),)
        queue.settle(lease, Settlement(failed=failed), terms)
    report = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    before = peak()
    assert run(["queue", sys.argv[1], "--dead", "--format", "json"]) == 0
    os.write(report, b"beyond %d\\n" % (peak() - before))
    """

    beyond_bytes = measured(source, url, str(RESULTS), str(RESULT_BYTES))

    assert beyond_bytes < BEYOND_BYTES_MAX
