"""What a worker promises, with a queue and a sink in memory."""

from typing import Any

import pytest

import outlast
from outlast.errors import SettingError
from outlast.results.protocol import Result
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker import Worker
from tests.faults.worker_around import ApartSink
from tests.unit.worker.given import double, double_all, numbers, stored


@pytest.mark.parametrize("chunk", [1, 7, 100])
@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
@pytest.mark.parametrize("batch", [False, True], ids=["one by one", "batch"])
def test_every_item_gets_its_result_and_the_queue_is_drained(
    queue: MemoryQueue, sink: MemorySink, chunk: int, apart: bool, batch: bool
) -> None:
    queue.publish(numbers(25))

    function: Any = double_all if batch else double
    summary = Worker(queue, ApartSink(sink) if apart else sink).run(
        function, chunk=chunk, batch=batch
    )

    assert stored(sink) == {key: number * 2 for key, number in numbers(25).items()}
    assert (summary.done, summary.skipped, summary.failed, summary.lost) == (25, 0, 0, 0)
    assert queue.stats().done == 25


def test_an_item_that_has_a_result_is_skipped_and_acknowledged(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(3))
    sink.store([Result("item-0001", '"earlier"')], token=1, version="")
    seen: list[int] = []

    summary = Worker(queue, sink).run(seen.append)

    assert seen == [0, 2]
    assert stored(sink)["item-0001"] == "earlier"
    assert (summary.done, summary.skipped) == (2, 1)
    assert queue.stats().done == 3


def test_a_result_of_another_version_is_computed_again(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(1))
    sink.store([Result("item-0000", '"of the old model"')], token=1, version="old")

    Worker(queue, sink, result_version="new").run(lambda _: "of the new model")

    assert stored(sink) == {"item-0000": "of the new model"}
    assert sink.count(version="new") == 1


class Model:
    instances = 0

    def __init__(self) -> None:
        Model.instances += 1
        self.set_ups = 0

    def setup(self) -> None:
        self.set_ups += 1

    def __call__(self, number: int) -> int:
        assert self.set_ups == 1
        return number + 1


def test_a_class_is_made_once_and_set_up_once_before_the_first_item(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(5))
    Model.instances = 0

    Worker(queue, sink).run(Model, chunk=2)

    assert Model.instances == 1
    assert stored(sink)["item-0004"] == 5


def test_nothing_is_set_up_for_a_drained_queue(queue: MemoryQueue, sink: MemorySink) -> None:
    model = Model()

    Worker(queue, sink).run(model)

    assert model.set_ups == 0


def test_a_set_up_that_fails_blames_no_item(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(3))

    class Broken(Model):
        def setup(self) -> None:
            raise MemoryError("no room for the model")

    with pytest.raises(MemoryError, match="no room for the model"):
        Worker(queue, sink).run(Broken)

    assert queue.stats().ready == 3


async def asynchronous(_: int) -> int:
    return 1


class AsynchronousModel:
    async def __call__(self, _: int) -> int:
        return 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (asynchronous, "is async. Use a regular function."),
        (AsynchronousModel, "is async. Use a regular function."),
        ("text", "'text' is not callable."),
    ],
)
def test_what_cannot_be_called_is_refused_before_any_claim(
    queue: MemoryQueue, sink: MemorySink, function: Any, words: str
) -> None:
    queue.publish(numbers(1))

    with pytest.raises(TypeError, match=words):
        Worker(queue, sink).run(function)

    assert queue.stats().ready == 1


def test_wrong_arguments_are_refused(queue: MemoryQueue, sink: MemorySink) -> None:
    with pytest.raises(ValueError, match="Expected a chunk of at least 1, got 0"):
        Worker(queue, sink).run(double, chunk=0)
    with pytest.raises(ValueError, match="Expected until='drained' or 'forever', got 'soon'"):
        Worker(queue, sink).run(double, until="soon")
    with pytest.raises(
        SettingError, match=r"keyword lease_seconds is 0\. Expected a number of seconds"
    ):
        Worker(queue, sink, lease_seconds=0)
    with pytest.raises(
        SettingError, match=r"keyword failures_max is 0\. Expected a whole number, at least 1"
    ):
        Worker(queue, sink, failures_max=0)
    with pytest.raises(SettingError, match="No queue was given for the worker") as raised:
        Worker(None, sink)
    assert raised.value.hint == "Pass a URL, or set OUTLAST_QUEUE_URL."


def test_the_former_name_of_a_variable_is_refused_with_the_new_one(
    queue: MemoryQueue, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_VERSION", "v1")

    with pytest.raises(SettingError, match="renamed to OUTLAST_RESULT_VERSION"):
        Worker(queue, sink)


def test_the_places_and_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_QUEUE_URL", "unknown://queue")
    monkeypatch.setenv("OUTLAST_SINK_URL", "./results")

    with pytest.raises(outlast.OutlastError, match="Unsupported queue URL: 'unknown'"):
        Worker(None, None).run(double)
