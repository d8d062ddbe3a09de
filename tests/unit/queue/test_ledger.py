"""A ledger counts each key once, whoever writes, and keeps what was given up."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlast.queue import DeadLetter, Item, QueueUnavailable, QueueUrlError
from outlast.queue.pubsub.ledger import Ledger
from outlast.storage.errors import AlreadyExists, StoreUnavailable
from outlast.storage.memory import MemoryStore

LETTER = DeadLetter(Item("ä/b", '"\ud800"', 2), ("first", "second\0"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path))


def numbered(start: int, stop: int) -> list[str]:
    return [f"{number:06}" for number in range(start, stop)]


def test_an_empty_ledger_knows_nothing(ledger: Ledger) -> None:
    assert ledger.count() == 0
    assert ledger.unknown(["a"]) == {"a"}
    assert ledger.dead_count() == 0
    assert list(ledger.dead_letters()) == []
    assert ledger.record([]) == 0


def test_a_key_is_counted_once(tmp_path: Path, ledger: Ledger) -> None:
    assert ledger.record(["a", "b", "a"]) == 2
    assert ledger.record(["b", "c"]) == 1
    assert ledger.record(["c"]) == 0

    other = Ledger(str(tmp_path))
    assert other.count() == ledger.count() == 3
    assert other.unknown(["a", "d"]) == {"d"}


def test_many_keys_take_several_pages(tmp_path: Path, ledger: Ledger) -> None:
    assert ledger.record(numbered(0, 25_000)) == 25_000

    assert len(list((tmp_path / "keys").iterdir())) == 3
    assert ledger.count() == 25_000
    assert Ledger(str(tmp_path)).unknown(numbered(24_990, 25_010)) == set(numbered(25_000, 25_010))


def test_a_key_may_be_any_text(tmp_path: Path, ledger: Ledger) -> None:
    keys = ["a\nb", "\u2028", '"', "日本", "\\", "x" * 512]

    ledger.record(keys)

    assert Ledger(str(tmp_path)).unknown([*keys, "other"]) == {"other"}


def test_what_others_wrote_meanwhile_is_not_counted_again(tmp_path: Path) -> None:
    one, other = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    assert one.unknown(["a", "b"]) == other.unknown(["a", "b"]) == {"a", "b"}

    assert one.record(["a", "b"]) == 2
    assert other.record(["b", "c"]) == 1

    assert one.count() == other.count() == 3


def test_of_many_who_write_at_once_each_key_is_counted_once(tmp_path: Path) -> None:
    start = threading.Barrier(6)

    def record(number: int) -> int:
        ledger = Ledger(str(tmp_path))
        start.wait()
        return sum(ledger.record(numbered(first, first + 40)) for first in range(0, 200, 20))

    with ThreadPoolExecutor(6) as pool:
        recorded = sum(pool.map(record, range(6)))

    assert recorded == 220
    assert Ledger(str(tmp_path)).count() == 220


def test_a_page_that_lasted_though_the_store_said_no_is_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger("memory://forgetful-ledger")
    create = MemoryStore.create

    def forget(store: MemoryStore, name: str, parts: list[bytes], **options: object) -> None:
        create(store, name, parts)
        raise StoreUnavailable("503")

    with monkeypatch.context() as forgetful:
        forgetful.setattr(MemoryStore, "create", forget)
        assert ledger.record(["a"]) == 1

    assert ledger.count() == 1


def test_a_ledger_whose_next_page_is_always_taken_gives_up(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object, **__: object) -> None:
        raise AlreadyExists("taken")

    monkeypatch.setattr("outlast.queue.pubsub.ledger._TRIES_MAX", 3)
    monkeypatch.setattr("outlast.queue.pubsub.ledger._PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("outlast.storage.local.store.LocalStore.create", taken)
    monkeypatch.setattr("outlast.storage.local.store.LocalStore.read", lambda *_, **__: b"")

    with pytest.raises(
        QueueUnavailable,
        match=r"Could not add a page to the ledger .*: other publishers were faster",
    ):
        ledger.record(["a"])


def test_a_dead_letter_is_kept_with_its_errors_once(tmp_path: Path, ledger: Ledger) -> None:
    ledger.add_dead([LETTER])
    ledger.add_dead([LETTER._replace(errors=("again",))])

    assert ledger.dead_count() == 1
    [letter] = Ledger(str(tmp_path)).dead_letters()
    assert letter.item.key == "ä/b"
    assert letter.item.failures == 2
    assert letter.errors == ("first", "second\0")


def test_a_dead_letter_can_be_forgiven(ledger: Ledger) -> None:
    letters = [DeadLetter(Item(key, "1"), ("no",)) for key in "abc"]
    ledger.add_dead(letters)

    ledger.remove_dead(letters[:2])
    ledger.remove_dead(letters[:1])

    assert list(ledger.dead_letters()) == letters[2:]


def test_a_ledger_is_opened_by_a_folder_or_the_url_of_a_store() -> None:
    with pytest.raises(QueueUrlError, match="Invalid ledger URL: Unknown store scheme"):
        Ledger("mysql://host/x")
