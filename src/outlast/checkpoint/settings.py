"""The settings of a run's checkpoints: their names, what they take and what they mean."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from outlast._base.interval import IntervalPolicy
from outlast._base.settings import Setting, count_of, positive_seconds, seconds_from_zero, text_of
from outlast.checkpoint.catalogue import Retention
from outlast.errors import SettingError


class OnError(StrEnum):
    """What a save that failed means for the loop."""

    RAISE = "raise"
    WARN = "warn"


def _parse_share(given: object) -> float:
    share = _number(given)
    if not 0 <= share <= 1:
        raise ValueError("A share from 0 to 1 is expected.")
    return share


def _parse_weight(given: object) -> float:
    weight = _number(given)
    if not 0 < weight < math.inf:
        raise ValueError("A number above 0 is expected.")
    return weight


def _number(given: object) -> float:
    try:
        return float(given) if isinstance(given, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _parse_on_error(given: object) -> OnError:
    try:
        return OnError(given)  # type: ignore[arg-type]  # anything else is refused by it
    except ValueError:
        raise ValueError("Expected is 'raise' or 'warn'.") from None


RUN_URL = Setting(
    keyword="url",
    variable="OUTLAST_RUN_URL",
    default="",
    default_text="`CHECKPOINT_DIR`, if set",
    parse=text_of("A folder or a URL"),
    meaning="Where a run keeps its checkpoints. An indexed Job appends its index.",
    hint="Give a folder, or a URL such as gs://bucket/run.",
)
EVERY_STEPS: Setting[int | None] = Setting(
    keyword="every_steps",
    variable="OUTLAST_EVERY_STEPS",
    default=None,
    default_text="`CHECKPOINT_INTERVAL`, if set",
    parse=count_of("A whole number of steps"),
    meaning="Save after every so many steps. A save waits for the one before.",
    hint="Give a whole number of steps, for example 500.",
)
EVERY_SECONDS: Setting[float | None] = Setting(
    keyword="every_seconds",
    variable="OUTLAST_EVERY_SECONDS",
    default=None,
    default_text="found from what saves cost",
    parse=positive_seconds,
    meaning="Save at the first step after so many seconds.",
    hint="Give a number of seconds, for example 300.",
)
KEEP_LAST = Setting(
    keyword="keep_last",
    variable="OUTLAST_KEEP_LAST",
    default=3,
    default_text="3",
    parse=count_of("A whole number of checkpoints"),
    meaning="How many of the newest checkpoints to keep.",
    hint="Give a whole number of checkpoints; the newest is always kept.",
)
KEEP_EVERY: Setting[int | None] = Setting(
    keyword="keep_every",
    variable="OUTLAST_KEEP_EVERY",
    default=None,
    default_text="none",
    parse=count_of("A whole number of steps"),
    meaning="Keep the checkpoints of every so many steps for ever.",
    hint="Give a whole number of steps, for example 10000.",
)
ON_ERROR = Setting(
    keyword="on_error",
    variable="OUTLAST_ON_ERROR",
    default=OnError.RAISE,
    default_text="raise",
    parse=_parse_on_error,
    meaning="What a failed save means: `raise` at the next step, or `warn` and go on.",
    hint="Give raise or warn.",
)
MEMORY_BYTES_MAX: Setting[int | None] = Setting(
    keyword="memory_bytes_max",
    variable="OUTLAST_MEMORY_BYTES_MAX",
    default=None,
    default_text="80 % of what is free",
    parse=count_of("A whole number of bytes"),
    meaning="Memory for the copy of the state. A larger state is saved in waves.",
    hint="Give a whole number of bytes, for example 4000000000.",
)
FLOOR_SECONDS = Setting(
    keyword="floor_seconds",
    variable="OUTLAST_FLOOR_SECONDS",
    default=10.0,
    default_text="10",
    parse=seconds_from_zero,
    meaning="The automatic interval is never shorter.",
    hint="Give a number of seconds, for example 30.",
)
CEILING_SECONDS = Setting(
    keyword="ceiling_seconds",
    variable="OUTLAST_CEILING_SECONDS",
    default=3600.0,
    default_text="3600",
    parse=positive_seconds,
    meaning="The automatic interval is never longer.",
    hint="Give a number of seconds, for example 900.",
)
PRIOR_MEAN_SECONDS = Setting(
    keyword="prior_mean_seconds",
    variable="OUTLAST_PRIOR_MEAN_SECONDS",
    default=10800.0,
    default_text="10800",
    parse=positive_seconds,
    meaning="The time between interruptions that is assumed until some were seen.",
    hint="Give a number of seconds, for example 10800 for three hours.",
)
PRIOR_UNANNOUNCED_SHARE = Setting(
    keyword="prior_unannounced_share",
    variable="OUTLAST_PRIOR_UNANNOUNCED_SHARE",
    default=0.5,
    default_text="0.5",
    parse=_parse_share,
    meaning="The share of these that comes without a notice.",
    hint="Give a share from 0 to 1.",
)
PRIOR_WEIGHT = Setting(
    keyword="prior_weight",
    variable="OUTLAST_PRIOR_WEIGHT",
    default=1.0,
    default_text="1",
    parse=_parse_weight,
    meaning="How many interruptions seen that assumption outweighs; more if it was learned.",
    hint="Give a number above 0, for example 10 for a mean that `outlast learn` found.",
)

RUN_SETTINGS: tuple[Setting[object], ...] = (
    RUN_URL,
    EVERY_STEPS,
    EVERY_SECONDS,
    KEEP_LAST,
    KEEP_EVERY,
    ON_ERROR,
    MEMORY_BYTES_MAX,
    FLOOR_SECONDS,
    CEILING_SECONDS,
    PRIOR_MEAN_SECONDS,
    PRIOR_UNANNOUNCED_SHARE,
    PRIOR_WEIGHT,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveSettings:
    """The settings of one checkpointer, checked."""

    policy: IntervalPolicy
    retention: Retention
    on_error: OnError
    memory_bytes_max: int | None

    @classmethod
    def read(cls, given: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Self:
        floor = FLOOR_SECONDS.read(given.get("floor_seconds"), environ)
        ceiling = CEILING_SECONDS.read(given.get("ceiling_seconds"), environ)
        if floor.value > ceiling.value:
            raise SettingError(
                f"The floor of {floor.value:g} s ({floor.source}) is above the ceiling of "
                f"{ceiling.value:g} s ({ceiling.source}).",
                hint=f"Lower {FLOOR_SECONDS.variable} or raise {CEILING_SECONDS.variable}.",
                source=floor.source,
            )
        every_steps, every_seconds = _fixed_interval(given, environ)
        share = given.get("prior_unannounced_share")
        return cls(
            policy=IntervalPolicy(
                every_steps=every_steps,
                every_seconds=every_seconds,
                floor_seconds=floor.value,
                ceiling_seconds=ceiling.value,
                prior_mean_seconds=PRIOR_MEAN_SECONDS.read(
                    given.get("prior_mean_seconds"), environ
                ).value,
                prior_unannounced_share=PRIOR_UNANNOUNCED_SHARE.read(share, environ).value,
                prior_weight=PRIOR_WEIGHT.read(given.get("prior_weight"), environ).value,
            ),
            retention=Retention(
                keep_last=KEEP_LAST.read(given.get("keep_last"), environ).value,
                keep_every=KEEP_EVERY.read(given.get("keep_every"), environ).value,
            ),
            on_error=ON_ERROR.read(given.get("on_error"), environ).value,
            memory_bytes_max=MEMORY_BYTES_MAX.read(given.get("memory_bytes_max"), environ).value,
        )


def _fixed_interval(
    given: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[int | None, float | None]:
    """The steps or the seconds that the interval is fixed at; neither if it is automatic."""
    if given.get("every_steps") is not None or given.get("every_seconds") is not None:
        environ = {}
    steps = EVERY_STEPS.read(given.get("every_steps"), environ)
    seconds = EVERY_SECONDS.read(given.get("every_seconds"), environ)
    if steps.value is not None and seconds.value is not None:
        raise SettingError(
            f"The interval is fixed twice: at {steps.value} steps ({steps.source}) and at "
            f"{seconds.value:g} s ({seconds.source}).",
            hint="Give one of the two, or neither.",
            source=steps.source,
        )
    if steps.value is None and seconds.value is None:
        # The name that many guides and manifests use.
        common = EVERY_STEPS._replace(variable="CHECKPOINT_INTERVAL")
        return common.read(environ=environ).value, None
    return steps.value, seconds.value
