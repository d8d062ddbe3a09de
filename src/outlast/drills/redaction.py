"""Mask secrets in everything that a drill reports. Pure."""

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from outlast._redact import known_secrets, redact_all

T = TypeVar("T")


def redacted(value: T) -> T:
    """The same value with the secrets in its texts masked, at any depth. Pure."""
    found: T = _redacted(value, known_secrets())
    return found


def _redacted(value: Any, secrets: set[str]) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return redact_all(value, secrets)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        changed = {name: _redacted(getattr(value, name), secrets) for name in fields}
        return dataclasses.replace(value, **changed)
    if isinstance(value, Mapping):
        return {key: _redacted(item, secrets) for key, item in value.items()}
    if isinstance(value, tuple):
        items = [_redacted(item, secrets) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [_redacted(item, secrets) for item in value]
    return value
