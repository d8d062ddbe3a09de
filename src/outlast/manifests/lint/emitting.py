"""Write a value as YAML: in one line, or as a block of lines. Only for what fixes insert."""

import json
import re
from typing import Any

from outlast.manifests.lint.scalars import resolve

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
# YAML allows these only as escapes, or reads them as the end of a line.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
STEP = "  "


def scalar_text(value: Any, *, is_json: bool = False) -> str:
    """A scalar; text stays without quotes where it reads as the same text."""
    if isinstance(value, str):
        if not is_json and _PLAIN.fullmatch(value) and resolve(value) == value:
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
    return json.dumps(value)


def flow_text(value: Any, *, is_json: bool = False) -> str:
    """A value in one line."""
    if isinstance(value, dict):
        parts = (
            f"{scalar_text(key, is_json=is_json)}: {flow_text(item, is_json=is_json)}"
            for key, item in value.items()
        )
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow_text(item, is_json=is_json) for item in value) + "]"
    return scalar_text(value, is_json=is_json)


def entry_lines(key: str, value: Any) -> list[str]:
    """A key with its value, as lines that start at the key's column."""
    if isinstance(value, dict) and value:
        inner = [line for name, item in value.items() for line in entry_lines(name, item)]
        return [f"{scalar_text(key)}:", *(STEP + line for line in inner)]
    if isinstance(value, list) and value:
        inner = [line for item in value for line in item_lines(item)]
        return [f"{scalar_text(key)}:", *(STEP + line for line in inner)]
    return [f"{scalar_text(key)}: {flow_text(value)}"]


def item_lines(value: Any) -> list[str]:
    """An item of a list, as lines that start at its dash."""
    if isinstance(value, dict) and value:
        first, *rest = [line for name, item in value.items() for line in entry_lines(name, item)]
        return [f"- {first}", *(STEP + line for line in rest)]
    return [f"- {flow_text(value)}"]
