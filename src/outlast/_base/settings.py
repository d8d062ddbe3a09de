"""One way to read a setting: the keyword beats the variable, which beats the default.

A wrong value is refused with the name it was given under, before any work starts. The values here
are named tuples, not data classes: `outlast exec` reads settings too, and importing dataclasses
would double the time it takes to start.
"""

import math
import os
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from outlast.errors import SettingError

_SECONDS_MAX = 1e8

T_co = TypeVar("T_co", covariant=True)


class Reading(NamedTuple, Generic[T_co]):
    """The value of a setting, and where it came from."""

    value: T_co
    source: str


class Setting(NamedTuple, Generic[T_co]):
    """A keyword argument and its environment variable.

    `parse` takes what the user gave and raises `ValueError` with a sentence on what is expected.
    """

    keyword: str
    variable: str
    default: T_co
    default_text: str
    parse: Callable[[object], T_co]
    meaning: str
    hint: str

    def read(
        self,
        given: object = None,
        environ: Mapping[str, str] = os.environ,
        *,
        given_as: str | None = None,
    ) -> Reading[T_co]:
        """The value to use. `given_as` names the place of `given`, if it is not the keyword."""
        if given is not None:
            return self._parsed(given, given_as or f"keyword {self.keyword}")
        # Manifests often carry an empty variable where nothing is meant.
        if text := environ.get(self.variable, "").strip():
            return self._parsed(text, f"variable {self.variable}")
        return Reading(value=self.default, source="default")

    def _parsed(self, given: object, source: str) -> Reading[T_co]:
        try:
            return Reading(value=self.parse(given), source=source)
        except ValueError as error:
            raise SettingError(
                f"The {source} is {given!r}. {error}", hint=self.hint, source=source
            ) from error


def text_of(what: str) -> Callable[[object], str]:
    """Text, whatever it says. `what` opens the refusal, such as "A URL"."""

    def parse(given: object) -> str:
        if not isinstance(given, str):
            raise ValueError(f"{what} is expected.")
        return given

    return parse


def count_of(what: str) -> Callable[[object], int]:
    """A number from 1. `what` opens the refusal, such as "A whole number of steps"."""

    def parse(given: object) -> int:
        if isinstance(given, str) and given.isdecimal() and given.isascii():
            given = int(given)
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ValueError(f"{what} from 1 is expected.")
        return int(given)

    return parse


def whole_number_to(most: int, what: str) -> Callable[[object], int]:
    """A number from 0 to `most`. `what` opens the refusal, such as "A port"."""

    def parse(given: object) -> int:
        try:
            number = int(given) if isinstance(given, int | str) else -1
        except ValueError:
            number = -1
        if not 0 <= number <= most:
            raise ValueError(f"{what} is a whole number from 0 to {most}.")
        return number

    return parse


def positive_seconds(given: object) -> float:
    seconds = _number(given)
    if seconds <= 0:
        raise ValueError("A number of seconds above 0 is expected.")
    return seconds


def seconds_from_zero(given: object) -> float:
    seconds = _number(given)
    if seconds < 0:
        raise ValueError("A number of seconds from 0 is expected.")
    return seconds


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError("A number of seconds is expected.")
    try:
        number = float(given)
    except OverflowError:
        number = math.inf
    except ValueError:
        raise ValueError("A number of seconds is expected, without a unit.") from None
    if math.isnan(number) or abs(number) > _SECONDS_MAX:
        raise ValueError(f"A number of seconds up to {_SECONDS_MAX:,.0f} is expected.")
    return number
