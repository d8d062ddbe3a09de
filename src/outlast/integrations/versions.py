"""Which releases of a framework an integration supports: those that its tests run with."""

import importlib.metadata
import re

from outlast.errors import MissingExtra, OutlastError


class UnsupportedVersion(OutlastError):
    """A framework is installed in a release that its integration was not tested with."""


def require(package: str, *, extra: str, at_least: str, below: str, needed_for: str) -> None:
    """Raise unless a supported release of a package is installed: `at_least` <= it < `below`.

    An integration relies on details that a release may change, and must not be silently wrong.
    The range is that of the extra in pyproject.toml.
    """
    try:
        installed = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtra(extra, needed_for=needed_for) from error
    if not _numbers(at_least) <= _numbers(installed) < _numbers(below):
        raise UnsupportedVersion(
            f"{needed_for} supports {package} from {at_least} up to, but not including, {below}; "
            f"{installed} is installed.",
            hint=f"Run: pip install 'outlast[{extra}]'",
        )


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version; a pre-release counts as its release."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
