"""A start costs the same after ten attempts and after ten thousand, and forgets nothing."""

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast._base.interval import Observed
from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import CheckpointError, Fenced
from outlast.checkpoint.runs import fence, history
from outlast.journal import (
    AttemptExited,
    AttemptFailed,
    AttemptFenced,
    AttemptRecord,
    AttemptStarted,
    JournalWriter,
    NoticeArrived,
    Progress,
    Saved,
    read_journal,
    summarize,
)
from outlast.journal.events import Event, utc_now
from outlast.journal.reader import _bounds, _narrowed, read_attempt
from outlast.storage import AccessDenied, Limits, Store, open_store
from outlast.storage.local.store import Commit, LocalStore
from outlast.storage.memory import MemoryStore
from tests.faults.counting import CountingStore
from tests.faults.stores import AroundStore, wrapped
from tests.unit.checkpoint.stores import NEVER, memory_url, resumed, saved

NOW = utc_now()


def opened(
    monkeypatch: pytest.MonkeyPatch, url: str, wrap: Any = CountingStore
) -> tuple[Any, Checkpointer]:
    stores: list[Store] = []

    def wrap_and_keep(store: Store) -> Store:
        stores.append(wrap(store))
        return stores[-1]

    with monkeypatch.context() as patch:
        wrapped(patch, wrap_and_keep)
        checkpointer = Checkpointer(url, {"x": np.zeros(3)}, every_steps=NEVER)
    return stores[0], checkpointer


def write_attempt(store: Store, attempt: int, *events: Event, segments: int = 1) -> None:
    """The journal of an attempt, in so many segments of about the same length."""
    journal = JournalWriter(store, attempt, background=False)
    size = -(-len(events) // segments)
    for start in range(0, len(events), size):
        for event in events[start : start + size]:
            journal.record(event)
        assert journal.flush()


def started(attempt: int, second: float = 0.0) -> AttemptStarted:
    return AttemptStarted(at=at(second), attempt=attempt, host="node", pid=1)


def at(second: float) -> Any:
    return NOW + timedelta(seconds=second)


def a_save(step: int, second: float, *, seconds: float = 2.0, final: bool = False) -> Saved:
    return Saved(
        at=at(second),
        step=step,
        stall_seconds=0.5,
        seconds=seconds,
        bytes_total=1000 + step,
        bytes_new=10,
        final=final,
    )


def life_of(attempt: int) -> list[Event]:
    """What attempt `attempt` did: five kinds of lives take turns."""
    first: list[Event] = [started(attempt), a_save(attempt, 20.0, seconds=attempt)]
    notice = NoticeArrived(at=at(30.0), source="signal", reason="SIGTERM", seconds_left=9.0)
    match attempt % 5:
        case 0:
            return [*first, Progress(at=at(40.0), step=attempt + 3)]
        case 1:
            final = a_save(attempt + 1, 31.0, final=True)
            return [
                *first,
                notice,
                final,
                AttemptExited(at=at(32.0), exit_code=75, step=attempt + 1),
            ]
        case 2:
            return [*first, Progress(at=at(29.0), step=attempt + 5), notice]
        case 3:
            return [*first, AttemptFailed(at=at(25.0), step=attempt, error="ValueError")]
        case _:
            return [*first, AttemptFenced(at=at(26.0), step=attempt, newer_attempt=attempt + 1)]


def begin_after(store: Store, lives: int) -> history.History:
    """What the attempt after so many lives learns, each of which began and wrote its journal."""
    for attempt in range(1, lives + 1):
        newest = fence.newest(store)
        settled, _ = history.read_history(store, newest)
        assert fence.claim(store, after=newest, facts=settled.to_facts()) == attempt
        write_attempt(store, attempt, *life_of(attempt))
    return history.read_history(store, lives)[1]


@pytest.mark.parametrize("lives", [0, 1, 2, 3, 10, 23])
def test_what_is_learned_step_by_step_is_what_the_whole_journal_tells(lives: int) -> None:
    store = MemoryStore()

    learned = begin_after(store, lives)

    summary = summarize(read_journal(store), is_live=False)
    assert learned.observed == Observed(
        running_seconds=summary.running_seconds,
        announced=summary.interruptions_announced - summary.interruptions_missed,
        missed=summary.interruptions_missed,
        unannounced=summary.interruptions_unannounced,
    )
    assert [cost.durable_seconds for cost in learned.costs][-1:] == (
        [2.0 if lives % 5 == 1 else float(lives)] if lives else []
    )
    assert learned.bytes_last == summary.bytes_total
    assert learned.has_saved == (lives > 0)


def test_an_attempt_that_was_alive_when_the_next_one_began_is_judged_by_its_end() -> None:
    store = MemoryStore()
    begin_after(store, 3)
    newest = fence.newest(store)
    settled, _ = history.read_history(store, newest)
    fence.claim(store, after=newest, facts=settled.to_facts())

    # Attempt 3 goes on for a while, and only then finds out.
    journal = JournalWriter(store, 3, background=False)
    journal.record(AttemptFenced(at=at(60.0), step=9, newer_attempt=4))
    journal.flush()
    settled, _ = history.read_history(store, 4)

    assert settled.observed.unannounced == 0
    assert settled.through == 3


def test_a_run_of_before_this_record_is_read_once_and_in_full() -> None:
    store = MemoryStore()
    for attempt in range(1, 8):
        store.create(f"attempts/{attempt:06d}.json", [b'{"id": "1", "host": "node"}'])
        write_attempt(store, attempt, *life_of(attempt))

    settled, learned = history.read_history(store, 7)

    assert (settled.through, learned.through) == (6, 7)
    assert learned.observed.announced == 2
    assert learned.has_saved


@pytest.mark.parametrize(
    "facts",
    [
        b"",
        b"[]",
        b'{"history": {"through": 99}}',
        b'{"history": {"through": -1}}',
        b'{"history": {"through": 1, "running_seconds": "NaN"}}',
        b'{"history": {"through": 1, "running_seconds": 1e999}}',
        b'{"history": {"through": true, "running_seconds": 1}}',
        b'{"history": []}',
    ],
    ids=repr,
)
def test_a_record_that_cannot_be_is_passed_over_for_the_journal(facts: bytes) -> None:
    store = MemoryStore()
    for attempt in (1, 2):
        store.create(f"attempts/{attempt:06d}.json", [facts])
        write_attempt(store, attempt, *life_of(attempt))

    _, learned = history.read_history(store, 2)

    assert learned.observed.announced == 1
    assert learned.observed.missed == 1


def test_a_start_costs_the_same_after_10_and_after_10_000_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {}
    for attempts in (60, 10_000):
        url = memory_url()
        store = open_store(url)
        saved(url, {"x": np.zeros(3)}, step=1)
        for number in range(2, attempts + 1):
            # Only the last ones need a journal: nobody may look at the others.
            if number > attempts - fence.KEPT:
                facts = history.History(through=number - 2, has_saved=True).to_facts()
                store.create(fence.name_of(number), [json.dumps(facts).encode()])
            store.create(f"journal/{number:06d}-000001.jsonl", [b""])
        counting, checkpointer = opened(monkeypatch, url)
        counting.reset()
        assert checkpointer.resume() == 1
        checkpointer._session.saver._collector.wait()
        calls = ("create", "read", "read_into", "list", "delete")
        # The journal is written by the clock.
        journal = counting.count("create", "journal")
        creates, *others = map(counting.count, calls)
        seen[attempts] = (creates - journal, *others, counting.listed())
        checkpointer.close()
    assert seen[60] == seen[10_000]
    assert seen[60][-1] <= fence.KEPT + 10


def test_old_attempts_are_forgotten_in_the_background_and_no_number_is_used_twice() -> None:
    url = memory_url()
    store = open_store(url)
    for number in range(1, 10_001):
        store.create(f"attempts/{number:06d}.json", [b"{}"])

    saved(url, {"x": np.zeros(3)}, step=1)
    assert len(store.list("attempts/")) == fence.KEPT + 1
    assert fence.newest(store) == 10_001
    saved(url, {"x": np.zeros(3)}, step=2)

    assert len(store.list("attempts/")) == fence.KEPT + 1
    assert fence.newest(store) == 10_002
    with pytest.raises(Fenced):
        fence.check(store, 3)


def test_a_store_that_refuses_to_delete_still_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    class CannotDelete(AroundStore):
        def delete(self, names: Any, *, limits: Limits | None = None) -> None:
            raise AccessDenied("No permission to delete.")

    url = memory_url()
    for number in range(1, 200):
        open_store(url).create(f"attempts/{number:06d}.json", [b"{}"])
    _, checkpointer = opened(monkeypatch, url, CannotDelete)

    assert checkpointer.resume() == 0
    checkpointer.close()
    assert checkpointer.attempt == 200


@pytest.mark.parametrize("newest", [999_999, 1_000_000, 99_999_999])
def test_numbers_of_more_digits_follow_and_fence(newest: int) -> None:
    url = memory_url()
    store = open_store(url)
    store.create(f"attempts/{newest:06d}.json", [b"{}"])
    state = {"x": np.zeros(3)}

    for step in (1, 2, 3):
        state["x"] += 1
        saved(url, state, step=step, keep_last=1)

    assert fence.newest(store) == newest + 3
    assert resumed(url, {"x": np.zeros(3)}) == 3
    with pytest.raises(Fenced, match=f"Attempt {newest + 4} .* attempt 7 stops"):
        fence.check(store, 7)


@pytest.mark.parametrize("number", ["999999999", "1000000000", "9" * 30])
def test_a_forged_last_number_is_refused_by_name(number: str) -> None:
    url = memory_url()
    saved(url, {"x": np.zeros(3)}, step=1)
    open_store(url).create(f"attempts/{number}.json", [b"{}"])

    with pytest.raises(CheckpointError, match=rf"attempts/{number}\.json") as caught:
        resumed(url, {"x": np.zeros(3)})

    assert re.search("[Dd]elete", str(caught.value.hint))
    open_store(url).delete([f"attempts/{number}.json"])
    assert resumed(url, {"x": np.zeros(3)}) == 1


@pytest.mark.parametrize("segments", [1, 2, 3, 7, 64, 65, 200])
def test_of_a_long_journal_the_first_segment_and_the_last_ones_are_read(segments: int) -> None:
    store = CountingStore(MemoryStore())
    progress = [Progress(at=at(second), step=second) for second in range(1, segments - 1)]
    ends = [started(1), *progress, AttemptExited(at=at(9999.0), exit_code=0, step=9999)]
    write_attempt(store, 1, *ends[-segments:], segments=segments)
    write_attempt(store, 11, started(11))
    store.reset()

    record = read_attempt(store, 1)

    assert record is not None
    assert isinstance(record.events[-1], AttemptExited)
    assert record.events[0] == ends[-segments:][0]
    assert store.count("list") == 0
    assert store.count("read") <= 64 + 7 * segments.bit_length() + 4
    if segments <= 64:
        [whole, _] = read_journal(store)
        assert record == whole


@pytest.mark.parametrize("segments", [*range(8, 300), 1500, 4096, 100_000])
def test_the_last_segment_is_found_with_few_requests_in_a_row(segments: int) -> None:
    rounds = []

    def are_there(asked: Sequence[int]) -> list[bool]:
        rounds.append(asked)
        return [one <= segments for one in asked]

    low, high = _narrowed(are_there, *_bounds(are_there, known=8))

    assert low <= segments < high <= low + 15
    assert max(map(len, rounds)) <= 15
    assert len(rounds) <= 2 + segments.bit_length() / 3


@pytest.mark.parametrize("gone", [(), (8,), (9,), (10,), (16,), (17,), (40,), (41,), (30, 50)])
@pytest.mark.parametrize("segments", [7, 8, 9, 10, 15, 16, 17, 40, 63, 64, 65, 300])
def test_single_segments_that_are_gone_do_not_hide_the_end(
    segments: int, gone: tuple[int, ...]
) -> None:
    store = MemoryStore()
    events = [Progress(at=at(second), step=second) for second in range(1, segments + 1)]
    write_attempt(store, 1, *events, segments=segments)
    store.delete([f"journal/000001-{one:06}.jsonl" for one in gone if one < segments])

    record = read_attempt(store, 1)

    assert record is not None
    assert record.events[-1] == events[-1]
    assert len(record.events) >= min(64, segments) - len(gone)


def test_two_segments_that_are_gone_together_do_not_hide_a_distant_end() -> None:
    store = MemoryStore()
    events = [Progress(at=at(second), step=second) for second in range(1, 41)]
    write_attempt(store, 1, *events, segments=40)
    store.delete(["journal/000001-000010.jsonl", "journal/000001-000011.jsonl"])

    record = read_attempt(store, 1)

    assert record is not None
    assert record.events[-1] == events[-1]


def test_a_torn_segment_hides_nothing_that_follows(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, commit=Commit.SEAL)
    write_attempt(store, 1, started(1), a_save(1, 1.0), segments=2)
    torn = tmp_path / "journal"
    [suffix] = {path.name.removeprefix("000001-000001.jsonl") for path in torn.glob("*-000001*")}
    (torn / f"000001-000003.jsonl{suffix}").write_bytes(b"")
    journal = JournalWriter(store, 1, background=False)
    journal._segment = 3
    journal.record(AttemptExited(at=at(5.0), exit_code=0, step=1))
    assert journal.flush()

    record = read_attempt(store, 1)

    assert record is not None
    assert [type(event) for event in record.events] == [AttemptStarted, Saved, AttemptExited]
    assert record.attempt == AttemptRecord(attempt=1, events=()).attempt


def test_an_attempt_without_a_journal_is_none() -> None:
    assert read_attempt(MemoryStore(), 3) is None


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000,
        b'{"history":' * 5_000,
        b'{"history": {"running_seconds": ' + b"9" * 400 + b"}}",
        b'{"history": []}',
        b"x" * 100_000,
    ],
    ids=["deep-list", "deep-object", "huge-number", "list", "large"],
)
def test_no_content_of_an_attempt_file_keeps_a_run_from_resuming(
    tmp_path: Path, content: bytes
) -> None:
    url = str(tmp_path)
    saved(url, {"x": np.zeros(3)}, step=4)
    (tmp_path / fence.name_of(1)).write_bytes(content)

    assert resumed(url, {"x": np.zeros(3)}) == 4
    assert resumed(url, {"x": np.zeros(3)}) == 4


def test_a_history_of_absurd_seconds_is_not_believed() -> None:
    store = MemoryStore()
    facts = history.History(through=0).to_facts()["history"]
    assert isinstance(facts, dict)
    text = json.dumps({"history": facts | {"running_seconds": 10**400}})
    store.create(fence.name_of(1), [text.encode()])

    assert history.read_history(store, 1)[1].observed.running_seconds == 0
