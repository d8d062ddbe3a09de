"""The journal says where each attempt ran and how many steps are planned. Old ones still read."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import outlast
from outlast.journal import (
    AttemptPlace,
    AttemptStarted,
    StepsPlanned,
    read_journal,
    summarize,
)
from outlast.journal.lines import decode, encode
from outlast.journal.place import PLACE_SETTINGS, place_from
from outlast.run.driven import DrivenRun
from outlast.storage import open_store
from tests.unit.checkpoint.stores import memory_url

pytestmark = pytest.mark.usefixtures("ample_grace")

POD = {
    "OUTLAST_POD_NAME": "tiny-gpt-abcde",
    "OUTLAST_POD_UID": "0b3f2f1e-5d3c-4a58-9a0e-0c2f6f0e7b11",
    "OUTLAST_NODE_NAME": "gke-ml-spot-l4-1x-0a1b2c3d-x1f2",
    "OUTLAST_TIER": "spot",
    "OUTLAST_MACHINE": "g2-standard-24",
    "OUTLAST_ZONE": "us-central1-a",
}


def summary_of(url: str) -> outlast.journal.JournalSummary:
    return summarize(read_journal(open_store(url)))


def test_an_attempt_records_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    url = memory_url()
    for name, value in POD.items():
        monkeypatch.setenv(name, value)

    with outlast.Run(url, {"x": np.zeros(1)}) as run:
        list(run.steps(2))

    [attempt] = summary_of(url).attempts
    assert attempt.place == AttemptPlace(
        pod="tiny-gpt-abcde",
        pod_uid="0b3f2f1e-5d3c-4a58-9a0e-0c2f6f0e7b11",
        node="gke-ml-spot-l4-1x-0a1b2c3d-x1f2",
        tier="spot",
        machine="g2-standard-24",
        zone="us-central1-a",
    )


def test_what_no_manifest_states_is_unknown_and_nothing_stated_is_an_error() -> None:
    assert place_from({}) == AttemptPlace()
    # Before Kubernetes 1.35 there is no such label, and the variable is empty.
    assert place_from({"OUTLAST_ZONE": ""}) == AttemptPlace()
    assert place_from({"OUTLAST_NODE_NAME": "Not A Node"}).node == "Not A Node"
    assert len(place_from({"OUTLAST_POD_NAME": "x" * 10**6}).pod or "") == 253


def test_a_journal_from_before_is_read_and_one_from_later_keeps_what_is_unknown() -> None:
    old = b'{"at":"2026-08-21T10:30:00+00:00","attempt":7,"host":"n","kind":"started","pid":42}'
    event = decode(old)
    assert isinstance(event, AttemptStarted)
    assert (event.pod_uid, event.zone, event.world_size) == (None, None, 1)

    newer = decode(old[:-1] + b',"pod":"p-1","cooling":"water"}')
    assert isinstance(newer, AttemptStarted)
    assert (newer.pod, newer.extra) == ("p-1", {"cooling": "water"})
    assert json.loads(encode(newer))["cooling"] == "water"


def test_every_variable_is_in_the_rendered_names() -> None:
    assert {one.variable for one in PLACE_SETTINGS} | {"OUTLAST_NODE_NAME"} == set(POD)


class Loader:
    """A loader whose length is what it is told to be."""

    def __init__(self, length: int | Exception, **attributes: object) -> None:
        self._length = length
        self.__dict__.update(attributes)

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))

    def __len__(self) -> int:
        if isinstance(self._length, Exception):
            raise self._length
        return self._length


def planned(url: str) -> list[int]:
    records = read_journal(open_store(url))
    return [e.steps for one in records for e in one.events if isinstance(e, StepsPlanned)]


def test_each_attempt_records_how_many_steps_are_planned() -> None:
    url = memory_url()
    for count in (4, 6):
        with outlast.Run(url, {"x": np.zeros(1)}) as run:
            list(run.steps(count))
    # A finished run plans nothing more.
    with outlast.Run(url, {"x": np.zeros(1)}) as run:
        list(run.steps(6))

    assert planned(url) == [4, 6]
    assert summary_of(url).steps_planned == 6


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        (range(3), [6]),
        (Loader(3, dataset=[1, 2, 3]), [6]),
        (Loader(TypeError("no len()")), []),
        # The length of an iterable data set is a guess, and asking for it has consequences.
        (Loader(AssertionError("asked"), dataset=object()), []),
    ],
)
def test_batches_are_planned_if_their_number_is_known(loader: Any, expected: list[int]) -> None:
    url = memory_url()

    with outlast.Run(url, {"x": np.zeros(1)}) as run:
        assert len(list(run.batches(loader, epochs=2))) == 6

    assert planned(url) == expected


@pytest.mark.parametrize(("steps", "expected"), [(5, [5]), (None, [])])
def test_a_framework_states_its_plan_if_it_knows_it(steps: int | None, expected: list[int]) -> None:
    url = memory_url()

    with DrivenRun(url, {"x": np.zeros(1)}) as run:
        run.begin(steps)

    assert planned(url) == expected


def test_an_impossible_plan_counts_as_garbled() -> None:
    url = memory_url()
    with outlast.Run(url, {"x": np.zeros(1)}) as run:
        list(run.steps(2))
    [record] = read_journal(open_store(url))
    wrong = StepsPlanned(at=record.events[0].at, steps=-1)
    changed = type(record)(attempt=1, events=(*record.events, wrong))

    summary = summarize([changed])

    assert (summary.steps_planned, summary.lines_garbled) == (2, 1)
