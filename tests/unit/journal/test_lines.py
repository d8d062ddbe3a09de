"""Events as lines: what goes in comes back, what is newer is kept, what is garbled is skipped."""

import json
import math
import random
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from outlast.journal.attempt import plausible
from outlast.journal.events import (
    KINDS,
    Alive,
    AttemptExited,
    AttemptFailed,
    AttemptFenced,
    AttemptInterrupted,
    AttemptStarted,
    CheckpointGivenUp,
    Dropped,
    Event,
    FinalChoice,
    FinalDecision,
    Metrics,
    NoticeArrived,
    PassedOver,
    Progress,
    Resumed,
    RunFinished,
    Saved,
    SaveFailed,
    Scalar,
    StepsPlanned,
    UnknownEvent,
)
from outlast.journal.lines import (
    NUMBER_MAX,
    TEXT_CHARACTERS_MAX,
    Segment,
    decode,
    decode_lines,
    encode,
    encode_segment,
)
from outlast.journal.reader import AttemptRecord

AT = datetime(2026, 8, 21, 10, 30, 0, 123456, tzinfo=UTC)

EVENTS: list[Event] = [
    AttemptStarted(at=AT, attempt=7, host="node-1", pid=42, resumed_from=None, world_size=1),
    AttemptStarted(at=AT, attempt=8, host="node-1", pid=42, resumed_from=300),
    Resumed(
        at=AT,
        step=300,
        seconds=1.5,
        bytes_read=10**12,
        passed_over=(PassedOver(checkpoint="manifests/000000000400-000006.json", reason="torn"),),
    ),
    Progress(at=AT, step=310),
    Alive(at=AT, within_seconds=1.5),
    Metrics(
        at=AT, step=310, values={"loss": 0.25, "name": "ä\n", "ok": True, "none": None, "n": 3}
    ),
    Saved(
        at=AT, step=320, stall_seconds=0.1, seconds=2.0, bytes_total=100, bytes_new=5, final=True
    ),
    SaveFailed(at=AT, step=330, error="No space left on device"),
    CheckpointGivenUp(at=AT, step=330, checkpoint="manifests/1.json", reason="No space left"),
    NoticeArrived(at=AT, source="signal", reason="SIGTERM", seconds_left=13.0),
    FinalDecision(at=AT, step=331, choice=FinalChoice.STAGED, numbers={"seconds_left": math.inf}),
    AttemptInterrupted(at=AT, step=331, reason="SIGTERM"),
    AttemptFenced(at=AT, step=331, newer_attempt=9),
    AttemptFailed(at=AT, step=331, error="ValueError"),
    RunFinished(at=AT, step=1000),
    AttemptExited(at=AT, exit_code=75, step=331),
    Dropped(at=AT, count=3),
    AttemptStarted(at=AT, attempt=9, host="n", pid=4, pod="p-0", pod_uid="0-1", zone="us-a"),
    StepsPlanned(at=AT, steps=10_000),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    line = encode(event)

    assert decode(line) == event
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert list(json.loads(line)) == sorted(json.loads(line))


def test_every_kind_is_tried_here() -> None:
    assert {type(event) for event in EVENTS} == set(KINDS.values())


def test_times_are_written_in_utc() -> None:
    event = Progress(at=AT.astimezone(timezone(timedelta(hours=5))), step=1)

    assert json.loads(encode(event))["at"] == "2026-08-21T10:30:00.123456+00:00"
    assert decode(encode(event)) == event


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        Progress(at=datetime(2026, 8, 21), step=1)  # noqa: DTZ001  # the mistake is the point


def test_what_is_no_number_in_json_is_a_string_there_and_a_number_again_here() -> None:
    values = {"a": math.nan, "b": math.inf, "c": -math.inf}

    line = encode(Metrics(at=AT, step=1, values=values))
    found = decode(line)

    assert json.loads(line)["values"] == {"a": "NaN", "b": "Infinity", "c": "-Infinity"}
    assert isinstance(found, Metrics)
    assert isinstance(found.values["a"], float)
    assert math.isnan(found.values["a"])
    assert (found.values["b"], found.values["c"]) == (math.inf, -math.inf)


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    values: dict[str, Scalar] = {
        "loss": np.float32(0.5),  # type: ignore[dict-item]  # what users pass
        "count": np.int64(3),  # type: ignore[dict-item]  # what users pass
        "nan": np.float64("nan"),
        "array": np.array(2.0),  # type: ignore[dict-item]  # what users pass
    }

    found = json.loads(encode(Metrics(at=AT, step=1, values=values)))["values"]

    assert found == {"loss": 0.5, "count": 3, "nan": "NaN", "array": 2.0}


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(TypeError, match="A object cannot be written"):
        encode(Metrics(at=AT, step=1, values={"x": object()}))  # type: ignore[dict-item]


def test_a_long_text_is_cut() -> None:
    found = decode(encode(SaveFailed(at=AT, step=1, error="x" * 10**6)))

    assert isinstance(found, SaveFailed)
    assert found.error == "x" * TEXT_CHARACTERS_MAX


@pytest.mark.parametrize(
    "event",
    [
        AttemptFailed(at=AT, step=7, error="ValueError: no answer from redis://:Zq7xW9kPv3@host"),
        SaveFailed(at=AT, step=7, error="x" * 3990 + " token=Zq7xW9kPv3"),
        NoticeArrived(at=AT, source="url", reason="password=Zq7xW9kPv3", seconds_left=1.0),
        Resumed(
            at=AT,
            step=7,
            seconds=1.0,
            bytes_read=1,
            passed_over=(PassedOver(checkpoint="7", reason="https://Zq7xW9kPv3@host"),),
        ),
        UnknownEvent(at=AT, name="new", extra={"deep": [{"url": "redis://u:Zq7xW9kPv3@host"}]}),
    ],
    ids=lambda event: type(event).__name__,
)
def test_no_secret_is_written_down(event: Event) -> None:
    line = encode(event)

    assert b"Zq7x" not in line
    assert encode(decode(line)) == line


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_date_that_does_not_exist_in_utc_is_garbled(at: str) -> None:
    line = json.dumps({"kind": "progress", "at": at, "step": 1}).encode()

    with pytest.raises(ValueError, match="out of range"):
        decode(line)
    assert decode_lines(line) == (None, (), 1)


@pytest.mark.parametrize(
    ("seconds", "read"),
    [("1e308", 1e18), ("-1e308", -1e18), ("1e19", 1e18), ("9" * 400, 1e18), ("1e18", 1e18)],
)
def test_a_number_that_would_overflow_the_figures_is_bounded(seconds: str, read: float) -> None:
    line = encode(Resumed(at=AT, step=3, seconds=1.5, bytes_read=1))

    found = decode(line.replace(b"1.5", seconds.encode()))

    assert found == Resumed(at=AT, step=3, seconds=read, bytes_read=1)
    assert plausible(AttemptRecord(attempt=1, events=(found,))).garbled == 1


def test_a_number_too_small_to_divide_by_is_zero() -> None:
    line = encode(Resumed(at=AT, step=3, seconds=1.5, bytes_read=1))

    assert decode(line.replace(b"1.5", b"1e-320")) == Resumed(
        at=AT, step=3, seconds=0.0, bytes_read=1
    )


# Other versions


def test_a_kind_that_only_a_newer_version_knows_is_kept() -> None:
    line = b'{"kind":"migrated","at":"2026-08-21T10:30:00.123456+00:00","to":"node-2","deep":[1]}\n'

    found = decode(line)

    assert found == UnknownEvent(at=AT, name="migrated", extra={"to": "node-2", "deep": [1]})
    assert json.loads(encode(found)) == json.loads(line)


def test_a_field_that_only_a_newer_version_knows_is_kept() -> None:
    newer = {**json.loads(encode(Progress(at=AT, step=5))), "epoch": 2}

    found = decode(json.dumps(newer).encode())

    assert found == Progress(at=AT, step=5, extra={"epoch": 2})
    assert json.loads(encode(found)) == newer


def test_a_field_that_an_older_version_did_not_write_has_its_default() -> None:
    older = json.loads(encode(EVENTS[0]))
    del older["world_size"]

    assert decode(json.dumps(older).encode()) == EVENTS[0]


@pytest.mark.parametrize(
    "change", [{"step": "many"}, {"step": 1.5}, {"step": None}, {"step": True}]
)
def test_a_known_kind_of_another_shape_is_kept_as_generic(change: dict[str, object]) -> None:
    line = json.dumps({**json.loads(encode(Progress(at=AT, step=5))), **change}).encode()

    assert decode(line) == UnknownEvent(at=AT, name="progress", extra=change)


def test_extra_fields_cannot_replace_what_an_event_says() -> None:
    event = Progress(at=AT, step=5, extra={"step": 9, "kind": "finished", "at": "never"})

    assert decode(encode(event)) == Progress(at=AT, step=5)


# Garbled lines


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"3",
        b"{}",
        b'{"kind":"progress","step":1}',
        b'{"kind":"progress","step":1,"at":"yesterday"}',
        b'{"kind":"progress","step":1,"at":"2026-08-21T10:30:00"}',
        b'{"kind":7,"at":"2026-08-21T10:30:00+00:00"}',
        b'{"kind":"metrics","at":"2026-08-21T10:30:00+00:00","step":1,"values":{"x":NaN}}',
        b"[" * 100_000,
        b'{"kind":"segment"}',
    ],
    ids=lambda line: line[:30].decode(errors="replace"),
)
def test_a_garbled_line_is_counted_and_the_others_are_read(line: bytes) -> None:
    good = encode(Progress(at=AT, step=5))

    found = decode_lines(good + line + b"\n" + good)

    assert found.events == (Progress(at=AT, step=5),) * 2
    assert found.garbled == 1


def test_a_huge_number_is_no_obstacle() -> None:
    line = json.loads(encode(EVENTS[2]))
    line["seconds"] = 10**400

    found = decode(json.dumps(line).encode())

    assert isinstance(found, Resumed)
    assert found.seconds == NUMBER_MAX


def test_any_bytes_at_all_can_be_read() -> None:
    seed = 5
    chance = random.Random(seed)
    whole = encode_segment(Segment("w", 1)) + b"".join(encode(event) for event in EVENTS)
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 30)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        data = data[: chance.randrange(len(data) + 1)]

        found = decode_lines(bytes(data))

        assert len(found.events) + found.garbled <= data.count(b"\n") + data.count(b"\r") + 1, seed


def test_a_segment_says_whose_it_is() -> None:
    assert decode_lines(encode_segment(Segment("abc", 3))).segment == Segment("abc", 3)
