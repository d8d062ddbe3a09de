"""How a command prints its result. It loads nothing, because every command loads it."""

from enum import StrEnum


class Format(StrEnum):
    """How to print a result."""

    TEXT = "text"
    JSON = "json"
