"""What every sink promises, wherever it keeps results."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlast.results import Result, Sink
from tests.contract.sinks import PARAMS, Backend, backend_of

STRANGE_KEYS = (
    "ä/ö ü",
    "日本",
    "a\nb",
    "'; DROP TABLE results; --",
    "..",
    "/",
    "%2F",
    "🎈",
    "x" * 512,
)


@pytest.fixture(params=PARAMS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with backend_of(request, tmp_path) as backend:
        yield backend


@pytest.fixture
def sink(backend: Backend) -> Iterator[Sink]:
    sink = backend.open()
    yield sink
    sink.close()


def results(*keys: str, text: str = "1") -> list[Result]:
    return [Result(key=key, payload=text) for key in keys]


def test_what_was_stored_is_found_done(sink: Sink) -> None:
    refused = sink.store(results("a", "b"), token=1, version="v1")

    assert refused == set()
    assert sink.done(["a", "b", "c"], version="v1") == {"a", "b"}
    assert sink.count() == 2


def test_an_empty_sink_has_nothing(sink: Sink) -> None:
    assert sink.done(["a"], version="v1") == set()
    assert sink.done([], version="v1") == set()
    assert sink.store([], token=1, version="v1") == set()
    assert sink.count() == 0
    assert sink.count(version="v1") == 0
    assert list(sink.results()) == []


def test_storing_twice_leaves_each_result_there_once(sink: Sink) -> None:
    sink.store(results("a", "b"), token=1, version="v1")

    refused = sink.store(results("a", "b"), token=1, version="v1")

    assert refused == set()
    assert sink.count() == 2
    assert list(sink.results()) == results("a", "b")


def test_the_same_lease_may_store_a_result_again(sink: Sink) -> None:
    sink.store(results("a", text="first"), token=1, version="v1")

    refused = sink.store(results("a", text="second"), token=1, version="v1")

    assert refused == set()
    assert list(sink.results()) in (results("a", text="first"), results("a", text="second"))


def test_a_newer_lease_replaces_a_result(sink: Sink) -> None:
    sink.store(results("a", text="old"), token=1, version="v1")

    refused = sink.store(results("a", text="new"), token=2, version="v1")

    assert refused == set()
    assert list(sink.results()) == results("a", text="new")


def test_a_stale_worker_cannot_overwrite_a_newer_result(sink: Sink) -> None:
    sink.store(results("a", text="new"), token=2, version="v1")

    refused = sink.store(results("a", "b", text="old"), token=1, version="v1")

    assert refused == {"a"}
    assert list(sink.results()) == [Result("a", "new"), Result("b", "old")]


def test_a_result_of_another_version_is_not_done_and_is_replaced(sink: Sink) -> None:
    sink.store(results("a", "b", text="old"), token=1, version="v1")

    assert sink.done(["a", "b"], version="v2") == set()
    sink.store(results("a", text="new"), token=2, version="v2")

    assert sink.done(["a", "b"], version="v2") == {"a"}
    assert sink.done(["a", "b"], version="v1") == {"b"}
    assert (sink.count(), sink.count(version="v1"), sink.count(version="v2")) == (2, 1, 1)
    assert list(sink.results()) == [Result("a", "new"), Result("b", "old")]


def test_a_stale_worker_of_another_version_cannot_overwrite_either(sink: Sink) -> None:
    sink.store(results("a", text="new"), token=2, version="v2")

    refused = sink.store(results("a", text="old"), token=1, version="v1")

    assert refused == {"a"}
    assert sink.done(["a"], version="v2") == {"a"}


# Several queues and versions. Tokens of different queues have nothing to do with each other.


def test_a_newer_run_replaces_the_results_of_another_queue_whatever_its_tokens(sink: Sink) -> None:
    sink.store(results("a", text="old"), token=4_000_000_000_000_000, version="v1", queue="one")

    refused = sink.store(results("a", text="new"), token=1, version="v2", queue="two")

    assert refused == set()
    assert sink.done(["a"], version="v2") == {"a"}
    assert list(sink.results()) == results("a", text="new")


def test_a_stale_worker_of_an_older_queue_cannot_overwrite_a_newer_run(sink: Sink) -> None:
    sink.store(results("x"), token=1, version="v1", queue="one")
    sink.store(results("a", text="new"), token=1, version="v2", queue="two")

    refused = sink.store(results("a", "b", text="old"), token=99, version="v1", queue="one")

    assert refused == {"a"}
    assert list(sink.results()) == [Result("a", "new"), Result("b", "old"), Result("x", "1")]


def test_two_queues_of_one_version_feed_one_sink(sink: Sink) -> None:
    for number in range(3):
        token = 100 - number
        assert not sink.store(results(f"a{number}"), token=token, version="v1", queue="one")
        assert not sink.store(results(f"b{number}"), token=number, version="v1", queue="two")

    assert sink.count(version="v1") == 6


def test_a_new_version_in_an_older_queue_replaces_results_of_another_queue(sink: Sink) -> None:
    sink.store(results("x"), token=1, version="v1", queue="one")
    sink.store(results("a", text="old"), token=50, version="v1", queue="two")

    refused = sink.store(results("a", text="new"), token=2, version="v2", queue="one")

    assert refused == set()
    assert sink.done(["a"], version="v2") == {"a"}


@pytest.mark.parametrize("queues", [("one", "two", "three"), ("one", "one", "one")])
def test_a_version_that_is_rolled_back_replaces_results_once_more(
    backend: Backend, queues: tuple[str, str, str]
) -> None:
    for token, (queue, version) in enumerate(zip(queues, ("v1", "v2", "v1"), strict=True), 1):
        # Every version is a program of its own.
        sink = backend.open()
        assert sink.done(["a"], version=version) == set()

        refused = sink.store(
            results("a", text=str(token)), token=token, version=version, queue=queue
        )

        assert refused == set()
        assert sink.done(["a"], version=version) == {"a"}
        assert list(sink.results()) == results("a", text=str(token))
        sink.close()


def test_a_rollback_needs_no_tokens(backend: Backend) -> None:
    """Where leases have no order of their own, all of them have the same token."""
    for number, version in enumerate(("v1", "v2", "v1")):
        sink = backend.open()

        refused = sink.store(results("a", text=str(number)), token=1, version=version, queue="one")

        assert refused == set()
        assert list(sink.results()) == results("a", text=str(number))
        sink.close()


def test_two_versions_at_work_on_one_queue_are_told_apart_by_their_leases(
    backend: Backend, sink: Sink
) -> None:
    other = backend.open()
    sink.store(results("x"), token=1, version="v1", queue="one")
    other.store(results("y"), token=2, version="v2", queue="one")
    sink.store(results("a", text="newer lease"), token=4, version="v1", queue="one")

    assert other.store(results("a", text="stale"), token=3, version="v2", queue="one") == {"a"}
    assert other.store(results("a", text="newest"), token=5, version="v2", queue="one") == set()
    assert next(sink.results()) == Result("a", "newest")
    if other is not sink:
        other.close()


def test_of_two_leases_without_an_order_the_first_result_of_a_version_stays(
    backend: Backend, sink: Sink
) -> None:
    other = backend.open()
    sink.store(results("a", text="first"), token=1, version="v1", queue="one")

    refused = other.store(results("a", text="second"), token=1, version="v1", queue="one")

    assert refused == set()
    assert list(sink.results()) == results("a", text="first")
    if other is not sink:
        other.close()


def test_a_result_of_a_lost_lease_replaces_nothing_of_its_queue(sink: Sink) -> None:
    sink.store(results("a", text="there"), token=1, version="v2", queue="one")

    refused = sink.store(results("a", "b", text="late"), token=0, version="v1", queue="one")

    assert refused == {"a"}
    assert list(sink.results()) == [Result("a", "there"), Result("b", "late")]


def test_many_runs_that_begin_at_once_have_an_order(backend: Backend) -> None:
    start = threading.Barrier(6)

    def store(number: int) -> None:
        sink = backend.open()
        start.wait()
        queue = f"queue-{number // 2}"
        sink.store(results("a", text=f'"{queue}"'), token=1, version="v1", queue=queue)
        sink.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(store, range(6)))

    sink = backend.open()
    assert sink.count() == 1
    assert sink.store(results("a"), token=1, version="v1", queue="last") == set()
    refused = [
        bool(sink.store(results("a"), token=9, version="v1", queue=f"queue-{number}"))
        for number in range(3)
    ]
    assert refused == [True, True, True]
    sink.close()


def test_a_key_may_be_any_text(sink: Sink) -> None:
    stored = [Result(key=key, payload=f'"{number}"') for number, key in enumerate(STRANGE_KEYS)]

    sink.store(stored, token=1, version="v1")

    assert sink.done([*STRANGE_KEYS, "other"], version="v1") == set(STRANGE_KEYS)
    assert sorted(sink.results()) == sorted(stored)


def test_a_payload_comes_back_as_it_was(sink: Sink) -> None:
    payload = '{"text":"日本 🎈\\u0000 \\"quoted\\"","n":[1.5,null,true]}'

    sink.store([Result("a", payload)], token=1, version="v1")

    assert list(sink.results()) == [Result("a", payload)]


def test_results_come_by_key_however_many(backend: Backend, sink: Sink) -> None:
    keys = [f"{number:05}" for number in range(backend.many)]
    sink.store(results(*reversed(keys)), token=1, version="v1")

    found = [result.key for result in sink.results()]

    assert found == keys
    assert sink.done(keys, version="v1") == set(keys)


def test_tokens_are_as_large_as_microseconds_since_1970(sink: Sink) -> None:
    token = 4_000_000_000_000_000
    sink.store(results("a", text="new"), token=token, version="v1")

    assert sink.store(results("a", text="old"), token=token - 1, version="v1") == {"a"}
    assert sink.store(results("a", text="newer"), token=token + 1, version="v1") == set()


def test_another_handle_sees_what_was_stored(backend: Backend, sink: Sink) -> None:
    sink.store(results("a"), token=1, version="v1")

    other = backend.open()

    assert other.done(["a"], version="v1") == {"a"}
    assert list(other.results()) == results("a")
    if other is not sink:
        other.close()


def test_storing_goes_on_while_results_are_read(sink: Sink) -> None:
    sink.store(results("a", "b"), token=1, version="v1")

    reading = sink.results()
    first = next(reading)
    sink.store(results("z"), token=2, version="v1")

    assert first == Result("a", "1")
    assert Result("b", "1") in list(reading)
    assert sink.count() == 3


def test_threads_may_share_a_sink(sink: Sink) -> None:
    start = threading.Barrier(4)

    def work(thread: int) -> None:
        start.wait()
        for number in range(10):
            keys = [f"{thread}-{number}", "shared"]
            sink.store(results(*keys), token=number, version="v1")
            assert keys[0] in sink.done(keys, version="v1")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    assert sink.count() == 41
