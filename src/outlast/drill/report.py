"""The outcome of a drill as it is handed out: one frozen value, to be told or kept as JSON."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

from outlast.drill.outcome import Outcome
from outlast.drill.story import tell

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Report(Outcome):
    """What a drill has found. Everything that views and checks need is in it."""

    def story(self) -> str:
        """What happened, to be read by people."""
        return tell(self)

    def as_json(self) -> dict[str, object]:
        """Everything, in what JSON knows."""
        derived: dict[str, object] = {
            "format": FORMAT_VERSION,
            "survived": self.survived,
            "evictions_landed": self.evictions_landed,
            "steps_lost": {str(number): steps for number, steps in self.steps_lost.items()},
            "steps_lost_max": self.steps_lost_max,
            "seconds_lost": self.seconds_lost,
            "items_lost": self.items_lost,
            "duplicates": self.duplicates,
        }
        found = _plain(self)
        assert isinstance(found, dict)
        return derived | found


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float):
        # Nine digits are more than any of these is good for. JSON has no infinity and no NaN.
        return float(f"{value:.9g}") if math.isfinite(value) else None
    return value
