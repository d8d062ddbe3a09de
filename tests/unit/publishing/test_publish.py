"""`outlast.publish`: all items of files and iterables, or none."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.publishing.publish import InvalidItems, PublishListener
from outlast.publishing.sources import SourceWarning
from outlast.queue.errors import QueueUnavailable
from outlast.queue.items import Item, LeaseTerms, Publishable, Published
from outlast.testing import MemoryQueue


def values_in(queue: MemoryQueue) -> dict[str, Any]:
    lease = queue.claim(100, LeaseTerms(worker="tester"))
    return {} if lease is None else {item.key: item.value for item in lease.items}


def test_items_come_from_a_file_or_a_path(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": "a"}\n{"id": "b"}\n')
    queue = MemoryQueue()

    assert outlast.publish(queue, file, key="id") == (2, 0, 0)
    assert outlast.publish(queue, str(file), key="id") == (0, 2, 0)

    assert values_in(queue) == {"a": {"id": "a"}, "b": {"id": "b"}}


@pytest.mark.parametrize(
    "source",
    [
        {"a": {"n": 1}, "b": {"n": 2}},
        [("a", {"n": 1}), ("b", {"n": 2})],
        [Item.of("a", {"n": 1}), Item.of("b", {"n": 2})],
        (pair for pair in [("a", {"n": 1}), ("b", {"n": 2})]),
    ],
    ids=["mapping", "tuples", "items", "generator"],
)
def test_items_come_from_iterables(source: Iterable[Any]) -> None:
    queue = MemoryQueue()

    summary = outlast.publish(queue, source)

    assert summary == (2, 0, 0)
    assert values_in(queue) == {"a": {"n": 1}, "b": {"n": 2}}


def test_values_get_their_key_from_a_field_or_their_content() -> None:
    queue = MemoryQueue()

    outlast.publish(queue, [{"id": 7}], key="id")
    summary = outlast.publish(queue, ["text", [1, 2], "text"])

    assert summary == (2, 0, 1)
    found = values_in(queue)
    assert found.pop("7") == {"id": 7}
    assert list(found.values()) == ["text", [1, 2]]


def test_a_url_is_opened_and_closed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"

    assert outlast.publish(url, {"a": 1}, {"b": 2}).added == 2

    queue = outlast.open_queue(url)
    assert queue.stats().ready == 2
    queue.close()


def test_one_invalid_item_keeps_all_others_out(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "a"}\n{"text": "no id"}\n')
    queue = MemoryQueue()

    with pytest.raises(InvalidItems, match="3 of 4 items cannot be published") as caught:
        outlast.publish(
            queue, tmp_path / "rows.jsonl", [("b", float("nan")), ("c", 1, 2)], key="id"
        )

    assert queue.stats().ready == 0
    assert caught.value.count == 3
    assert [one.where for one in caught.value.rejected] == [
        f"{tmp_path}/rows.jsonl:2",
        "item 1",
        "item 2",
    ]
    notes = "\n".join(caught.value.__notes__)
    assert "rows.jsonl:2: No key field 'id'. The fields are: 'text'." in notes
    assert "item 1: The value of item 'b' is not valid JSON" in notes
    assert "item 2: Expected a tuple of key and value, got 3 values." in notes


def test_the_same_key_with_different_content_is_invalid() -> None:
    queue = MemoryQueue()

    with pytest.raises(InvalidItems) as caught:
        outlast.publish(queue, {"a": 1}, {"a": 2})

    assert "'a' is already used at item 1" in caught.value.rejected[0].reason


class Listener(PublishListener):
    def __init__(self) -> None:
        self.warnings: list[SourceWarning] = []
        self.published: list[tuple[int, int]] = []
        self.partial: tuple[int, int] | None = None

    def on_warning(self, warning: SourceWarning) -> None:
        self.warnings.append(warning)

    def on_published(self, count: int, total: int) -> None:
        self.published.append((count, total))

    def on_partial(self, published: int, total: int) -> None:
        self.partial = (published, total)


def test_a_listener_is_told_of_warnings_and_progress(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    listener = Listener()

    outlast.publish(MemoryQueue(), tmp_path / "empty.jsonl", {"a": 1}, listener=listener)

    assert [warning.reason for warning in listener.warnings] == ["It contains no items."]
    assert listener.published == [(1, 1)]


class FailingQueue(MemoryQueue):
    def publish(self, items: Publishable) -> Published:
        raise QueueUnavailable("The server is gone.")


def test_a_queue_that_fails_is_reported_with_how_far_it_came(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = Listener()

    with pytest.raises(QueueUnavailable, match="The server is gone"):
        outlast.publish(FailingQueue(), {"a": 1}, listener=listener)
    assert listener.partial == (0, 1)

    with pytest.raises(QueueUnavailable):
        outlast.publish(FailingQueue(), {"a": 1})
    assert "0 of 1 items were published before an error." in caplog.text


def test_there_must_be_a_source() -> None:
    with pytest.raises(ValueError, match="Expected at least one source"):
        outlast.publish(MemoryQueue())


@pytest.mark.parametrize(
    ("package", "url", "extra"),
    [
        ("psycopg", "postgresql://localhost/jobs", "postgres"),
        ("grpc", "pubsub://my-project/items", "pubsub"),
    ],
)
def test_a_missing_package_is_reported_with_its_extra(package: str, url: str, extra: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None\nimport outlast\n"
    program += f"outlast.publish({url!r}, {{'a': 1}})"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "MissingExtra" in done.stderr
    assert f"pip install 'outlast[{extra}]'" in done.stderr
