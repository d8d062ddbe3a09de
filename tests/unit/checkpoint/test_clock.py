"""What time it is has no say in what is resumed."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest

import outlast
from outlast.journal import events, read_journal
from outlast.journal.derive import summarize
from outlast.storage import open_store
from tests.unit.checkpoint.stores import memory_url


def set_back(monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """Have everything that asks for the time of day be told one that is earlier."""

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Self:
            return cls.fromtimestamp(time.time() - hours * 3600, tz)

    monkeypatch.setattr("outlast.checkpoint.saving.committing.datetime", Earlier)
    monkeypatch.setattr(events, "utc_now", lambda: datetime.now(UTC) - timedelta(hours=hours))


def life(url: str, state: dict[str, Any], *, until: int) -> int:
    """Train until a step, and leave by an error; where it began."""
    with pytest.raises(ZeroDivisionError), outlast.Run(url, state, every_steps=1) as run:
        began = run.step
        for step in run.steps(100):
            state["x"] += 1
            if step + 1 == until:
                raise ZeroDivisionError
    return began


def test_a_clock_set_back_an_hour_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    url = memory_url()
    state = {"x": 0}
    assert life(url, state, until=5) == 0

    set_back(monkeypatch, hours=1)
    assert life(url, state, until=8) == 4
    assert life(url, {"x": 0}, until=9) == 7

    summary = summarize(read_journal(open_store(url)))
    assert summary.running_seconds >= 0
    assert summary.steps_redone >= 0
