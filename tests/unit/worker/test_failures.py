"""What becomes of items that fail, and of functions that do."""

import math
import os
import signal
import time
from typing import Any

import pytest

import outlast
from outlast.errors import Interrupted
from outlast.queue.items import Item
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker import ItemFailed, Worker
from outlast.worker.function import RESULT_BYTES_MAX
from tests.patience import PATIENCE_SECONDS
from tests.unit.worker.given import double, double_all, errors_of, numbers, stored


def test_a_function_that_raises_fails_its_item_alone_and_for_good_after_some_tries(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(10))
    tries: list[int] = []

    def fussy(number: int) -> int:
        if number == 4:
            tries.append(number)
            raise ValueError("four is too many")
        return number

    summary = Worker(queue, sink, failures_max=3, retry_seconds=0.01).run(fussy)

    assert len(tries) == 3
    [letter] = queue.dead_letters()
    assert letter.item.key == "item-0004"
    assert len(letter.errors) == 3
    assert all("in fussy" in error and "four is too many" in error for error in letter.errors)
    assert not any("function.py" in error for error in letter.errors)
    assert len(stored(sink)) == 9
    assert (summary.failed, summary.dead) == (3, 1)


def test_a_failed_item_waits_longer_each_time(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(1))
    moments: list[float] = []

    def failing(_: int) -> None:
        moments.append(time.monotonic())
        raise OSError("not yet")

    Worker(queue, sink, failures_max=3, retry_seconds=0.1).run(failing)

    assert moments[1] - moments[0] >= 0.1
    assert moments[2] - moments[1] >= 0.2


def test_a_batch_that_raises_is_halved_down_to_the_item_at_fault(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(64))
    sizes: list[int] = []

    def fussy(batch: list[int]) -> list[int]:
        sizes.append(len(batch))
        if 37 in batch:
            raise ValueError("37 is not liked")
        return batch

    Worker(queue, sink, failures_max=1).run(fussy, chunk=64, batch=True)

    assert len(stored(sink)) == 63
    assert "37 is not liked" in errors_of(queue)["item-0037"]
    assert sizes == [64, 32, 32, 16, 8, 4, 4, 2, 1, 1, 2, 8, 16]


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([], "The function returned 0 results for 1 items."),
        ([1, 2], "The function returned 2 results for 1 items."),
        (None, "The function returned NoneType for 1 items."),
        ({"a": 1}, "The function returned dict for 1 items."),
        ("a", "The function returned str for 1 items."),
    ],
    ids=repr,
)
def test_a_batch_with_a_wrong_count_of_results_is_told(
    queue: MemoryQueue, sink: MemorySink, returned: object, words: str
) -> None:
    queue.publish(numbers(1))

    Worker(queue, sink, failures_max=1).run(lambda _: returned, batch=True)

    assert words in errors_of(queue)["item-0000"]
    assert "hint: " in errors_of(queue)["item-0000"]


def test_too_few_results_store_nothing_wrong(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(10))

    def forgetful(batch: list[int]) -> list[int]:
        return [number for number in batch if number != 3]

    Worker(queue, sink, failures_max=1).run(forgetful, batch=True)

    assert stored(sink) == {key: n for key, n in numbers(10).items() if n != 3}
    assert list(errors_of(queue)) == ["item-0003"]


@pytest.mark.parametrize("batch", [False, True])
def test_a_returned_exception_is_the_failure_of_that_item_only(
    queue: MemoryQueue, sink: MemorySink, batch: bool
) -> None:
    queue.publish(numbers(5))
    calls: list[object] = []

    def one(number: int) -> object:
        return LookupError("no two") if number == 2 else number

    def function(given: Any) -> object:
        calls.append(given)
        return [one(number) for number in given] if batch else one(given)

    Worker(queue, sink, failures_max=1).run(function, batch=batch)

    assert len(stored(sink)) == 4
    assert errors_of(queue)["item-0002"].endswith("LookupError: no two")
    assert len(calls) == (1 if batch else 5)


def test_an_item_that_cannot_succeed_is_given_up_at_once(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(1))
    calls: list[int] = []

    def refuse(number: int) -> None:
        calls.append(number)
        raise ItemFailed("This is not an image.", retry=False)

    Worker(queue, sink, failures_max=5).run(refuse)

    assert calls == [0]
    assert "This is not an image." in errors_of(queue)["item-0000"]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("payload", ["{not json", "", "[" * 100_000], ids=["torn", "empty", "deep"])
def test_a_damaged_payload_is_given_up_at_once_and_hurts_nobody(
    queue: MemoryQueue, sink: MemorySink, payload: str, batch: bool
) -> None:
    queue.publish([Item("a", "1"), Item("bad", payload), Item("c", "3")])

    Worker(queue, sink).run(double_all if batch else double, batch=batch)

    assert stored(sink) == {"a": 2, "c": 6}
    assert "The payload is damaged: it is not JSON" in errors_of(queue)["bad"]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "result",
    [math.nan, math.inf, b"bytes", {1, 2}, "\ud800", object(), "x" * (RESULT_BYTES_MAX - 1)],
    ids=lambda value: repr(value)[:20],
)
def test_a_result_that_is_no_json_value_is_the_item_s_failure(
    queue: MemoryQueue, sink: MemorySink, result: object, batch: bool
) -> None:
    queue.publish(numbers(1))

    Worker(queue, sink, failures_max=1).run(lambda _: [result] if batch else result, batch=batch)

    assert stored(sink) == {}
    assert "result cannot be stored as JSON" in errors_of(queue)["item-0000"]


def test_an_error_that_no_database_takes_is_stored_readably(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(1))

    def odd(_: int) -> None:
        raise ValueError("nul \0 surrogate \ud800" + "x" * 20_000 + " end")

    Worker(queue, sink, failures_max=1).run(odd)

    error = errors_of(queue)["item-0000"]
    assert error.endswith("x end")
    assert len(error) < 10_000
    assert "\0" not in error
    error.encode()


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class UnprintableNote(Exception):
    __notes__ = property(lambda _: 1 / 0)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), Unprintable(), UnprintableNote("text")],
    ids=["KeyboardInterrupt", "Unprintable", "UnprintableNote"],
)
def test_whatever_a_function_raises_is_the_failure_of_its_item(
    queue: MemoryQueue, sink: MemorySink, error: BaseException, batch: bool
) -> None:
    queue.publish(numbers(5))

    def function(given: Any) -> Any:
        if 3 in (given if batch else [given]):
            raise error
        return given

    summary = Worker(queue, sink, failures_max=2, retry_seconds=0).run(function, batch=batch)

    assert (summary.done, summary.failed, summary.dead) == (4, 2, 1)
    [letter] = queue.dead_letters()
    assert letter.item.key == "item-0003"
    assert all(type(error).__name__ in line and "in function" in line for line in letter.errors)


def test_ctrl_c_during_a_call_is_no_failure_of_its_item(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(1))

    def function(_: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert guard.wait(PATIENCE_SECONDS)
        raise KeyboardInterrupt

    with outlast.Guard() as guard, pytest.raises((Interrupted, KeyboardInterrupt)):
        Worker(queue, sink).run(function)

    stats = queue.stats()
    assert stats.dead == 0
    assert stats.delayed == 0


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({1: "a", "1": "b"}, "the keys 1 and '1', which are both '1' in JSON"),
        ({"rows": [{"x": ({None: 1, "null": 2},)}]}, "the keys None and 'null'"),
        ({"true": 1, True: 2}, "the keys 'true' and True"),
        ({1.5: 1, "1.5": 2}, "the keys 1.5 and '1.5'"),
    ],
    ids=["int", "deep", "bool", "float"],
)
def test_keys_that_json_writes_alike_are_the_failure_of_the_item(
    queue: MemoryQueue, sink: MemorySink, result: object, words: str, batch: bool
) -> None:
    queue.publish(numbers(1))

    Worker(queue, sink, failures_max=1).run(lambda _: [result] if batch else result, batch=batch)

    assert stored(sink) == {}
    assert words in errors_of(queue)["item-0000"]


def test_keys_that_are_no_text_are_stored_as_json_writes_them(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(1))

    Worker(queue, sink, failures_max=1).run(lambda _: {1: {True: [{None: 2}]}, "a": {"1": 3}})

    assert stored(sink) == {"item-0000": {"1": {"true": [{"null": 2}]}, "a": {"1": 3}}}


def test_a_result_that_raises_while_it_is_encoded_is_the_item_s_failure(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(1))

    class Strange(dict[str, int]):
        def items(self) -> Any:
            raise LookupError("not now")

    Worker(queue, sink, failures_max=1).run(lambda _: Strange(a=1))

    assert "LookupError: not now" in errors_of(queue)["item-0000"]
