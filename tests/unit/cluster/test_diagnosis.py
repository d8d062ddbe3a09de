"""Every cause by its fixtures, and anything else without an error."""

import copy
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast._base.terminal import escaped
from outlast.cluster.diagnosis.diagnosis import NOT_RECOGNIZED, Diagnosis
from outlast.cluster.diagnosis.engine import all_causes, endings, lines, why_waiting
from tests.unit.cluster.snapshots import NOW, Case, all_cases, snapshot_of

CASES = list(all_cases())
EXACTLY = settings(derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
"""The same examples every time, on a machine of any speed."""
_TIMES = [None, "", "x", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-16T11:19:59Z"]


def diagnosis_of(case: Case) -> tuple[Diagnosis | None, bool | None]:
    """The diagnosis on the waiting, or for a case of an ending that on its only Pod."""
    snapshot = snapshot_of(case.objects, case.log, case.snapshot)
    if "is_counted" not in case.expect:
        return why_waiting(snapshot), None
    (ending,) = endings(snapshot)
    return ending.diagnosis, ending.is_counted


@pytest.mark.parametrize("case", CASES, ids=[f"{case.id} {case.name}" for case in CASES])
def test_a_fixture_has_exactly_its_diagnosis(case: Case) -> None:
    diagnosis, is_counted = diagnosis_of(case)

    assert is_counted == case.expect.get("is_counted")
    if case.expect["cause"] == "none":
        assert diagnosis is None
        return
    assert diagnosis is not None
    assert diagnosis.cause == case.expect["cause"]
    assert diagnosis.evidence and all(one.where for one in diagnosis.evidence)
    if diagnosis.cause is None:
        assert diagnosis.summary == NOT_RECOGNIZED
    if not case.is_near_miss:
        assert diagnosis.summary == case.expect["summary"]
        assert diagnosis.next_step == case.expect["next_step"]


def test_every_cause_has_a_positive_case_and_a_near_miss() -> None:
    ids = [cause.id for cause in all_causes()]
    expected = [f"P{n:02}" for n in range(1, 44)] + [f"E{n:02}" for n in range(1, 24)]

    assert ids == expected
    for id in ids:
        own = [case for case in CASES if case.id == id]
        assert {case.is_near_miss for case in own} == {True, False}, id
        for case in own:
            assert (case.expect["cause"] == id) is not case.is_near_miss, case.name
            assert case.source == "from-source" or case.source.startswith("recorded: ")


@given(data=st.data())
@settings(EXACTLY, max_examples=300)
def test_damaged_objects_never_raise(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    objects, log = copy.deepcopy(case.objects), copy.deepcopy(case.log)
    for _ in range(data.draw(st.integers(1, 4))):
        _damage(data, data.draw(st.sampled_from([*objects, *log])))
    for item, original in zip(objects, case.objects, strict=True):
        item["kind"] = original["kind"]
    snapshot = snapshot_of(objects, log, case.snapshot)

    diagnoses = [why_waiting(snapshot), *(one.diagnosis for one in endings(snapshot))]

    for diagnosis in diagnoses:
        if diagnosis is not None:
            assert all(line == escaped(line, keep="") for line in lines(diagnosis))
            assert len(diagnosis.summary) < 3000


def _damage(data: st.DataObject, place: Any) -> None:
    """Replace or remove one field somewhere below a place."""
    junk = st.one_of(
        st.none(),
        st.integers(),
        st.booleans(),
        st.sampled_from(_TIMES),
        st.text(max_size=300),
        st.just("{0} {} \x1b[31m" + "(" * 9000),
        st.just([]),
        st.just({}),
    )
    while place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        below = place[key]
        if not isinstance(below, dict | list) or not below or data.draw(st.booleans()):
            if isinstance(place, dict) and data.draw(st.booleans()):
                del place[key]
            else:
                place[key] = data.draw(junk)
            return
        place = below


@given(text=st.text(max_size=2000))
@settings(EXACTLY, max_examples=200)
def test_unknown_text_is_shown_and_never_explained(text: str) -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": text,
    }
    pod = {
        "kind": "Pod",
        "metadata": {"uid": "pod"},
        "status": {"phase": "Pending", "conditions": [condition]},
    }

    diagnosis = why_waiting(snapshot_of([pod], [], {}))

    assert diagnosis is not None
    assert (diagnosis.cause, diagnosis.summary) == (None, NOT_RECOGNIZED)
    assert text in diagnosis.evidence[0].text


def test_hostile_text_is_escaped_and_cut_where_it_is_printed() -> None:
    hostile = "\x1b[2J<script>" + "x" * 250_000
    event = {
        "kind": "Event",
        "involvedObject": {"uid": "pod"},
        "reason": "FailedMount",
        "type": "Warning",
        "message": hostile,
        "lastTimestamp": "2026-11-16T11:10:00Z",
    }
    pod = {
        "kind": "Pod",
        "metadata": {"uid": "pod", "name": hostile},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending"},
    }

    diagnosis = why_waiting(snapshot_of([pod, event], [], {}))

    assert diagnosis is not None
    assert diagnosis.cause is None
    printed = "\n".join(lines(diagnosis))
    assert "\\x1b[2J<script>" in printed
    assert "\x1b" not in printed and len(printed) < 3000


def test_the_stages_have_their_order() -> None:
    """All problems at once, then each dominant one taken away."""
    by_cause = {
        id: next(case for case in CASES if case.id == id and not case.is_near_miss)
        for id in ("P31", "P05", "P09", "P03")
    }
    pods = [item for item in by_cause["P03"].objects if item["kind"] == "Pod"]
    events = {
        id: [item for item in case.objects if item["kind"] == "Event"]
        for id, case in by_cause.items()
    }
    jobs = [item for item in by_cause["P31"].objects if item["kind"] == "Job"]
    failed = {**jobs[0], "status": {"conditions": [_condition("Failed", "BackoffLimitExceeded")]}}
    suspended = {**jobs[0], "spec": {"suspend": True}}
    creation, failure, refusal = events["P31"], events["P05"], events["P09"]
    both = [*failure, *refusal]

    assert _cause([failed, *pods, *creation, *both]) == "E19"
    assert _cause([suspended, *pods, *creation, *both]) == "P23"
    assert _cause([*jobs, *pods, *creation, *both]) == "P31"
    assert _cause([*jobs, *pods, *both]) == "P05"
    assert _cause([*jobs, *pods, *refusal]) == "P09"
    assert _cause([*jobs, *pods]) == "P03"


def _condition(kind: str, reason: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": reason}


def _cause(objects: list[dict[str, Any]]) -> str | None:
    diagnosis = why_waiting(snapshot_of(objects, [], {}))
    assert diagnosis is not None
    return diagnosis.cause


@pytest.mark.parametrize(
    ("failures", "pause_seconds"),
    [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 320), (7, 600), (30, 600)],
)
def test_the_back_off_doubles_up_to_ten_minutes(failures: int, pause_seconds: int) -> None:
    """The pauses are those of a control plane of 1.36: 9.9, 19.0, 39.8, 79.9, ... 599.9 s."""
    last = NOW - timedelta(seconds=1)
    times = [last - timedelta(seconds=n) for n in range(failures)]
    pods = [_failed_pod(f"p{n}", time) for n, time in enumerate(times)]
    job = {"kind": "Job", "metadata": {"uid": "job", "name": "tiny"}}

    diagnosis = why_waiting(snapshot_of([job, *pods], [], {}))

    assert diagnosis is not None and diagnosis.cause == "P32"
    due = re.search(r"at about (\S+) UTC", diagnosis.summary)
    assert due is not None
    at = datetime.strptime(f"2026-11-16 {due[1]}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert at == last + timedelta(seconds=pause_seconds)


def _failed_pod(name: str, time: datetime) -> dict[str, Any]:
    terminated = {"exitCode": 75, "reason": "Error", "finishedAt": time.isoformat()}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": name,
            "ownerReferences": [{"uid": "job", "controller": True}],
        },
        "status": {
            "phase": "Failed",
            "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
        },
    }


def test_a_run_that_runs_or_is_complete_does_not_wait() -> None:
    running = {"kind": "Pod", "metadata": {"uid": "pod"}, "status": {"phase": "Running"}}
    job = {"kind": "Job", "metadata": {"uid": "job"}}
    complete = {**job, "status": {"conditions": [_condition("Complete", "CompletionsReached")]}}

    assert why_waiting(snapshot_of([job, running], [], {})) is None
    assert why_waiting(snapshot_of([complete], [], {})) is None
    assert why_waiting(snapshot_of([], [], {})) is None
