"""Read a setting: the keyword argument beats the environment variable, which beats the default.

An invalid value is refused with the name it was given under, before any work starts. `outlast
exec` reads settings too and must start at once, so nothing is imported here at run time: not
typing, which alone takes a sixth of the time that Python needs to start.
"""

from __future__ import annotations

import os

from outlast.errors import SettingError

# Type checkers know this name without an import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from enum import Enum
    from typing import Any, Generic, TypeVar

    E = TypeVar("E", bound=Enum)
    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
else:
    T_co = None

    class Generic:
        """Replaces the class of typing. Its parameters have no meaning at run time."""

        def __class_getitem__(cls, _):
            return cls


_SECONDS_MAX = 1e8


class SettingValue(Generic[T_co]):
    """The value of a setting, and where it came from."""

    def __init__(self, value: T_co, source: str) -> None:
        self.value = value
        self.source = source


class Setting(Generic[T_co]):
    """A keyword argument and its environment variable; without a keyword, only the variable.

    `parse` takes what the user gave and raises `ValueError` with a sentence on what is expected.
    """

    def __init__(
        self,
        *,
        keyword: str,
        variable: str,
        default: T_co,
        default_text: str,
        parse: Callable[[object], T_co],
        meaning: str,
        hint: str,
    ) -> None:
        self.keyword = keyword
        self.variable = variable
        self.default = default
        self.default_text = default_text
        self.parse = parse
        self.meaning = meaning
        self.hint = hint

    def read(
        self,
        given: object = None,
        environ: Mapping[str, str] = os.environ,
        *,
        given_as: str | None = None,
    ) -> SettingValue[T_co]:
        """The value to use. `given_as` names the source of `given`, if it is not the keyword."""
        if given is not None:
            return self._parsed(given, given_as or f"keyword {self.keyword}")
        # Manifests often set an empty variable to mean nothing.
        if text := environ.get(self.variable, "").strip():
            return self._parsed(text, f"variable {self.variable}")
        return SettingValue(value=self.default, source="default")

    def from_variable(self, variable: str) -> Setting[T_co]:
        """The same setting, read from another variable."""
        return Setting(**{**vars(self), "variable": variable})

    def _parsed(self, given: object, source: str) -> SettingValue[T_co]:
        try:
            return SettingValue(value=self.parse(given), source=source)
        except ValueError as error:
            raise SettingError(
                f"The {source} is {given!r}. {error}", hint=self.hint, source=source
            ) from None


def setting(
    keyword: str,
    parse: Callable[[object], T],
    default: T,
    *,
    meaning: str,
    hint: str,
    variable: str | None = None,
    default_text: str | None = None,
) -> Setting[T]:
    """A setting whose variable and default text follow from the rest, unless they are given."""
    return Setting(
        keyword=keyword,
        variable=variable or f"OUTLAST_{keyword.upper()}",
        default=default,
        default_text=_text(default) if default_text is None else default_text,
        parse=parse,
        meaning=meaning,
        hint=hint,
    )


def read_settings(
    settings: Iterable[Setting[object]],
    given: Mapping[str, object],
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """The values of several settings by keyword: what a class of settings is built from."""
    return {one.keyword: one.read(given.get(one.keyword), environ).value for one in settings}


def text_of(what: str) -> Callable[[object], str]:
    """Any text. `what` names it in the error, such as "A URL"."""

    def parse(given: object) -> str:
        if not isinstance(given, str):
            raise ValueError(f"Expected {_uncapitalized(what)}.")
        return given

    return parse


def count_of(what: str) -> Callable[[object], int]:
    """A number from 1. `what` names it in the error, such as "A whole number of steps"."""

    def parse(given: object) -> int:
        if isinstance(given, str) and given.isdecimal() and given.isascii():
            given = int(given)
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ValueError(f"Expected {_uncapitalized(what)}, at least 1.")
        return int(given)

    return parse


def whole_number_to(most: int, what: str) -> Callable[[object], int]:
    """A number from 0 to `most`. `what` names it in the error, such as "A port"."""

    def parse(given: object) -> int:
        try:
            number = int(given) if isinstance(given, int | str) else -1
        except ValueError:
            number = -1
        if not 0 <= number <= most:
            raise ValueError(f"Expected {_uncapitalized(what)} from 0 to {most}.")
        return number

    return parse


def choice_of(kind: type[E]) -> Callable[[object], E]:
    """One of the values of an enumeration of texts."""

    def parse(given: object) -> E:
        try:
            return kind(given)
        except ValueError:
            choices = " or ".join(repr(str(one)) for one in kind)
            raise ValueError(f"Expected {choices}.") from None

    return parse


def flag(given: object) -> bool:
    """A bool, or its text in a variable: 1 or 0, true or false."""
    if isinstance(given, bool):
        return given
    text = given.lower() if isinstance(given, str) else given
    if text not in ("0", "1", "true", "false"):
        raise ValueError("Expected 1, 0, true or false.")
    return text in ("1", "true")


def positive_seconds(given: object) -> float:
    seconds = _seconds(given)
    if seconds <= 0:
        raise ValueError("Expected a number of seconds above 0.")
    return seconds


def seconds_from_zero(given: object) -> float:
    seconds = _seconds(given)
    if seconds < 0:
        raise ValueError("Expected a number of seconds, at least 0.")
    return seconds


def _seconds(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError("Expected a number of seconds.")
    try:
        number = float(given)
    except OverflowError:
        number = float("inf")
    except ValueError:
        raise ValueError("Expected a number of seconds, without a unit.") from None
    if not abs(number) <= _SECONDS_MAX:
        raise ValueError(f"Expected a number of seconds, at most {_SECONDS_MAX:,.0f}.")
    return number


def _uncapitalized(what: str) -> str:
    return what[:1].lower() + what[1:]


def _text(default: object) -> str:
    if isinstance(default, bool):
        return str(int(default))
    if default is None or default == "":
        return "none"
    return f"{default:g}" if isinstance(default, float) else str(default)
