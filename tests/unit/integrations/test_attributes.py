"""What a program keeps in attributes of its own objects is read as it is now, at each save."""

import random
from collections import deque
from typing import Any

import pytest

from outlast.integrations.attributes import ChangedAttributes

torch = pytest.importorskip("torch")


class Meter:
    """Of a class of the program's own."""

    def __init__(self) -> None:
        self.total = 0.0


class Recorder:
    def __init__(self) -> None:
        self.step = 0
        self.name = "recorder"
        self.rate: Any = 0.5
        self.meter: Any = None


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.1))
        self.scale = 1.0
        self.hook = print


def tracked(*holders: Any) -> ChangedAttributes:
    named = {f"{number}": one for number, one in enumerate(holders)}
    return ChangedAttributes(
        lambda: {
            f"{name}{path}": one
            for name, holder in named.items()
            for path, one in (
                holder.named_modules(prefix=" ")
                if isinstance(holder, torch.nn.Module)
                else [("", holder)]
            )
        },
        known=list,
        ignored=frozenset(vars(torch.nn.Module())) - {"training"},
    )


def changes(recorder: Recorder, model: Model) -> list[Any]:
    """Everything that may happen to attributes between two saves."""

    def set_(thing: Any, name: str, item: Any) -> Any:
        return lambda: setattr(thing, name, item)

    def grow() -> None:
        if isinstance(recorder.rate, list | deque):
            recorder.rate.append(1)

    def count() -> None:
        if isinstance(recorder.meter, Meter):
            recorder.meter.total += 1

    def buffer() -> None:
        if "seen" in model.inner[1]._buffers:
            model.inner[1].seen.add_(1)
        else:
            model.inner[1].register_buffer("seen", torch.zeros(2), persistent=False)

    def forget() -> None:
        vars(recorder).pop("late", None)

    return [
        lambda: recorder.__setattr__("step", recorder.step + 1),
        set_(recorder, "rate", 0.5),
        set_(recorder, "rate", float("nan")),
        lambda: recorder.__setattr__("rate", []),
        lambda: recorder.__setattr__("rate", deque([3])),
        lambda: recorder.__setattr__("rate", torch.zeros(2)),
        grow,
        lambda: recorder.__setattr__("meter", Meter()),
        set_(recorder, "meter", None),
        count,
        set_(recorder, "late", 1),
        set_(recorder, "late", True),
        forget,
        set_(model, "scale", 2.0),
        set_(model, "hook", repr),
        model.train,
        model.eval,
        model.inner[1].eval,
        lambda: model.inner[0].bias.requires_grad_(False),
        lambda: model.inner[0].requires_grad_(True),
        buffer,
    ]


@pytest.mark.parametrize("seed", range(20))
def test_reading_again_finds_what_a_first_reading_would(seed: int) -> None:
    rng = random.Random(seed)
    recorder, model = Recorder(), Model()
    often, once = tracked(recorder, model), tracked(recorder, model)
    often.begin()
    once.begin()

    for _ in range(40):
        for change in rng.sample(changes(recorder, model), rng.randrange(3)):
            change()
        found = often.read()

        # Without what it remembers of the reading before.
        once._simple.clear()
        assert repr(found) == repr(once.read())


def test_a_value_that_was_restored_is_saved_from_then_on() -> None:
    recorder = Recorder()
    attributes = tracked(recorder)
    attributes.begin()
    assert attributes.read() == {"plain": {}, "states": {}}

    attributes.write({"plain": {"0": {"step": 0}}, "states": {}})

    assert attributes.read()["plain"] == {"0": {"step": 0}}


def test_generators_and_objects_in_containers_are_restored() -> None:
    def made() -> Recorder:
        recorder = Recorder()
        recorder.rate = random.Random(1)
        recorder.meter = {"loss": [Meter()], "accuracy": Meter()}
        return recorder

    recorder = made()
    tracker = tracked(recorder)
    tracker.begin()
    recorder.rate.random()
    recorder.meter["accuracy"].total = 2.0

    saved = tracker.read()
    other = made()
    tracked(other).write(saved)

    assert other.rate.random() == recorder.rate.random()
    assert other.meter["accuracy"].total == 2.0


def test_a_state_without_its_object_is_named(caplog: pytest.LogCaptureFixture) -> None:
    recorder, other = Recorder(), Recorder()
    tracker = tracked(recorder)
    tracker.begin()
    recorder.meter = random.Random(1)

    tracked(other).write(tracker.read())

    assert "a state of 0.meter, which this program does not have" in caplog.text
