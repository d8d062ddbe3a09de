"""The options of a run's checkpoints: each with its type, environment variable and meaning."""

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, Self, TypedDict

from outlast._base.interval import AGE_SHAPE, IntervalPolicy
from outlast._base.options import settings_of
from outlast._base.settings import (
    Setting,
    SettingValue,
    choice_of,
    count_of,
    flag,
    positive_seconds,
    seconds_from_zero,
    setting,
    text_of,
)
from outlast.checkpoint.format.keys import KEY_FILE
from outlast.checkpoint.runs.inventory import Retention
from outlast.errors import SettingError


class OnError(StrEnum):
    """What a failed save means for the loop."""

    RAISE = "raise"
    WARN = "warn"


def _parse_share(given: object) -> float:
    share = _number(given)
    if not 0 <= share <= 1:
        raise ValueError("Expected a share from 0 to 1.")
    return share


def _parse_weight(given: object) -> float:
    weight = _number(given)
    if not 0 < weight < math.inf:
        raise ValueError("Expected a number above 0.")
    return weight


def _parse_shape(given: object) -> float:
    shape = _number(given)
    if not 1 < shape < math.inf:
        raise ValueError("Expected a number above 1.")
    return shape


def _number(given: object) -> float:
    try:
        return float(given) if isinstance(given, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return math.nan


RUN_URL = setting(
    "url",
    text_of("A folder or a URL"),
    "",
    variable="OUTLAST_RUN_URL",
    default_text="`CHECKPOINT_DIR`, if set",
    meaning="Where a run stores its checkpoints. An indexed Job appends its index, unless one "
    "run spans its Pods.",
    hint="Use a folder, or a URL such as gs://bucket/run.",
)


class CheckpointOptions(TypedDict, total=False):
    """The options of `Checkpointer` and `Run`. None means the variable or else the default."""

    every_steps: Annotated[
        int | None,
        setting(
            "every_steps",
            count_of("A whole number of steps"),
            None,
            default_text="`CHECKPOINT_INTERVAL`, if set",
            meaning="Number of steps between saves. A save waits for the previous one to complete.",
            hint="Use a whole number of steps, for example 500.",
        ),
    ]
    every_seconds: Annotated[
        float | None,
        setting(
            "every_seconds",
            positive_seconds,
            None,
            default_text="automatic, from the cost of saves",
            meaning="Time between saves. The save happens after the next step.",
            hint="Use a number of seconds, for example 300.",
        ),
    ]
    keep_last: Annotated[
        int | None,
        setting(
            "keep_last",
            count_of("A whole number of checkpoints"),
            3,
            meaning="Number of newest checkpoints to keep.",
            hint="Use a whole number of checkpoints; the newest is always kept.",
        ),
    ]
    keep_every: Annotated[
        int | None,
        setting(
            "keep_every",
            count_of("A whole number of steps"),
            None,
            meaning="Keep all checkpoints whose step is a multiple of this number.",
            hint="Use a whole number of steps, for example 10000.",
        ),
    ]
    on_error: Annotated[
        str | None,
        setting(
            "on_error",
            choice_of(OnError),
            OnError.RAISE,
            meaning="What to do if a save fails: `raise` at the next step, or `warn` and continue.",
            hint="Use raise or warn.",
        ),
    ]
    memory_bytes_max: Annotated[
        int | None,
        setting(
            "memory_bytes_max",
            count_of("A whole number of bytes"),
            None,
            default_text="80% of the free memory",
            meaning="Memory limit for the copy of the state. A larger state is saved in parts.",
            hint="Use a whole number of bytes, for example 4000000000.",
        ),
    ]
    compare_restored: Annotated[
        bool | None,
        setting(
            "compare_restored",
            flag,
            True,
            meaning="Compare the restored state with the checkpoint before the first step.",
            hint="Use 1 or 0. With 0, errors in load_state_dict go unnoticed.",
        ),
    ]
    elastic: Annotated[
        bool | None,
        setting(
            "elastic",
            flag,
            False,
            meaning="Resume with another number of ranks, without the same bits.",
            hint="Give 1 or 0.",
        ),
    ]
    floor_seconds: Annotated[
        float | None,
        setting(
            "floor_seconds",
            seconds_from_zero,
            10.0,
            meaning="Shortest automatic interval between saves.",
            hint="Use a number of seconds, for example 30.",
        ),
    ]
    ceiling_seconds: Annotated[
        float | None,
        setting(
            "ceiling_seconds",
            positive_seconds,
            3600.0,
            meaning="Longest automatic interval between saves.",
            hint="Use a number of seconds, for example 900.",
        ),
    ]
    prior_mean_seconds: Annotated[
        float | None,
        setting(
            "prior_mean_seconds",
            positive_seconds,
            10800.0,
            meaning="Mean time between interruptions to assume until some have been observed.",
            hint="Use a number of seconds, for example 10800 for three hours.",
        ),
    ]
    prior_unannounced_share: Annotated[
        float | None,
        setting(
            "prior_unannounced_share",
            _parse_share,
            0.5,
            meaning="Share of interruptions without a notice to assume until then.",
            hint="Use a share from 0 to 1.",
        ),
    ]
    prior_weight: Annotated[
        float | None,
        setting(
            "prior_weight",
            _parse_weight,
            1.0,
            meaning="How many observed interruptions these two assumptions count as.",
            hint="Use a number above 0, for example 10 for a mean that `outlast learn` found.",
        ),
    ]
    prior_age_shape: Annotated[
        float | None,
        setting(
            "prior_age_shape",
            _parse_shape,
            AGE_SHAPE,
            meaning="How similar machines are in how long they last: with 2, an old machine is "
            "much safer than a new one; with 100, age hardly matters.",
            hint="Use a number above 1, as measured by `outlast learn`.",
        ),
    ]
    may_pickle: Collection[str] | None
    """Parts of the state that may be pickled and, at resume, unpickled, by path: "model.extra"."""


_SETTINGS = settings_of(CheckpointOptions)

RUN_SETTINGS: tuple[Setting[object], ...] = (RUN_URL, *_SETTINGS.values(), KEY_FILE)


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveSettings:
    """The options of one checkpointer, read and checked."""

    policy: IntervalPolicy
    retention: Retention
    on_error: OnError
    memory_bytes_max: int | None
    compare_restored: bool
    elastic: bool

    @classmethod
    def read(cls, given: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Self:
        """Read `CheckpointOptions`. Raises `SettingError`."""
        readings = _interval_readings(given, environ)
        for name, one in _SETTINGS.items():
            if name not in readings:
                readings[name] = one.read(given.get(name), environ)
        _check_bounds(readings["floor_seconds"], readings["ceiling_seconds"])
        values = {name: reading.value for name, reading in readings.items()}
        return cls(
            policy=IntervalPolicy(**_fields_of(IntervalPolicy, values)),
            retention=Retention(**_fields_of(Retention, values)),
            on_error=values["on_error"],
            memory_bytes_max=values["memory_bytes_max"],
            compare_restored=values["compare_restored"],
            elastic=values["elastic"],
        )


def _fields_of(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: values[field.name] for field in fields(kind)}


def _check_bounds(floor: SettingValue[float], ceiling: SettingValue[float]) -> None:
    if floor.value > ceiling.value:
        raise SettingError(
            f"The floor of {floor.value:g} s ({floor.source}) is above the ceiling of "
            f"{ceiling.value:g} s ({ceiling.source}).",
            hint="Lower OUTLAST_FLOOR_SECONDS or raise OUTLAST_CEILING_SECONDS.",
            source=floor.source,
        )


def _interval_readings(
    given: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, SettingValue[Any]]:
    """The steps or seconds of a fixed interval. A keyword for one hides the variables of both."""
    if given.get("every_steps") is not None or given.get("every_seconds") is not None:
        environ = {}
    steps = _SETTINGS["every_steps"].read(given.get("every_steps"), environ)
    seconds = _SETTINGS["every_seconds"].read(given.get("every_seconds"), environ)
    if steps.value is not None and seconds.value is not None:
        raise SettingError(
            f"The interval is fixed twice: at {steps.value} steps ({steps.source}) and at "
            f"{seconds.value:g} s ({seconds.source}).",
            hint="Set one of the two, or neither.",
            source=steps.source,
        )
    if steps.value is None and seconds.value is None:
        # The name that many guides and manifests use.
        common = _SETTINGS["every_steps"].from_variable("CHECKPOINT_INTERVAL")
        steps = common.read(environ=environ)
    return {"every_steps": steps, "every_seconds": seconds}
