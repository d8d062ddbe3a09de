"""What `--set key=value` was given."""

from outlast.errors import OutlastError


def parse_overrides(given: list[str]) -> dict[str, str]:
    """The pairs that `--set` was given. The last one of a key counts."""
    pairs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise OutlastError(
                f"--set takes key=value, and {text!r} is not that.",
                hint="For example: --set work.hours=40.",
            )
        pairs[key.strip()] = value.strip()
    return pairs
