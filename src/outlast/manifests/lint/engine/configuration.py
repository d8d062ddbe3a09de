"""The options of a lint, from `outlast.toml` or `[tool.outlast.lint]` in `pyproject.toml`.

The nearest of these files is used, from the working folder up to the root of the repository. Paths
are relative to the file, and the baseline must be below its folder. The command line overrides it.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from outlast._base.logs import get_logger
from outlast.manifests.lint.engine.rule import Severity
from outlast.manifests.lint.errors import LintError

log = get_logger(__name__)

NAMES = ("outlast.toml", "pyproject.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class LintOptions:
    """How to lint. `is_autopilot` is None if unknown."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    fail_on: Severity | None = Severity.WARNING
    baseline: Path | None = None
    kubernetes_version: str | None = None
    is_autopilot: bool | None = None


def find_options(folder: Path) -> LintOptions:
    """The options in the nearest file, or the defaults.

    The search ends at the root of a Git repository, and before a folder where another user could
    have created the file.
    """
    owners = {os.geteuid(), folder.stat().st_uid}
    for place in (folder, *folder.parents):
        if not _is_trusted(place, owners):
            _warn_of_ignored(place)
            break
        for name in NAMES:
            path = place / name
            if path.is_file():
                options = read_options(path)
                if options is not None:
                    return options
        if (place / ".git").exists():
            break
    return LintOptions()


def _is_trusted(place: Path, owners: set[int]) -> bool:
    """Whether only this user, or the owner of the working folder, can create files in a folder."""
    status = place.stat()
    # With the sticky bit it is a shared folder such as /tmp, even if this user owns it.
    is_shared = status.st_mode & stat.S_IWOTH and (
        status.st_mode & stat.S_ISVTX or status.st_uid != os.geteuid()
    )
    return status.st_uid in owners and not is_shared


def _warn_of_ignored(place: Path) -> None:
    for name in NAMES:
        if (place / name).is_file():
            log.warning(
                "Ignored %s: other users own that folder or can write to it. Pass the file with "
                "--config if you trust it.",
                place / name,
            )


def read_options(path: Path) -> LintOptions | None:
    """The options in a file, None if it is a `pyproject.toml` without any."""
    import tomllib

    try:
        data: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LintError(
            f"{str(path)!r} is not valid TOML: {error}.", hint="Fix the syntax error."
        ) from error
    names = ("tool", "outlast", "lint") if path.name == "pyproject.toml" else ("lint",)
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    if data is None:
        return None if path.name == "pyproject.toml" else LintOptions()
    if not isinstance(data, dict):
        raise LintError(f"{'.'.join(names)!r} in {str(path)!r} is not a table.", hint=_HINT)
    return _checked(data, path)


_HINT = "See docs/how-to/lint-manifests.md for the available options."
_LISTS = ("select", "ignore", "exclude", "pools")
_KEYS = (*_LISTS, "severity", "fail-on", "baseline", "kubernetes-version", "autopilot")


def _checked(data: dict[str, Any], path: Path) -> LintOptions:
    for key in data:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            hint = (
                f"Did you mean {near[0]!r}?" if near else f"Available options: {', '.join(_KEYS)}."
            )
            raise LintError(f"Unknown option {key!r} in {str(path)!r}.", hint=hint)
    lists = {key: _texts(data, key, path) for key in _LISTS}
    severity = _typed(data, "severity", dict, path) or {}
    baseline = _typed(data, "baseline", str, path)
    fail_on = _typed(data, "fail-on", str, path)
    return LintOptions(
        select=lists["select"],
        ignore=lists["ignore"],
        exclude=lists["exclude"],
        pools=tuple(str(path.parent / pool) for pool in lists["pools"]),
        severity={code: severity_of(word) for code, word in severity.items()},
        fail_on=Severity.WARNING if fail_on is None else fail_on_of(fail_on),
        baseline=None if baseline is None else _baseline(baseline, path),
        kubernetes_version=_typed(data, "kubernetes-version", str, path),
        is_autopilot=_typed(data, "autopilot", bool, path),
    )


def _baseline(name: str, path: Path) -> Path:
    """The baseline. --write-baseline replaces it, so it must not be outside the folder."""
    found = path.parent / name
    if not found.resolve().is_relative_to(path.parent.resolve()):
        raise LintError(
            f"The baseline {name!r} in {str(path)!r} is outside the folder of that file.",
            hint="Use a path below that folder, or pass --baseline on the command line.",
        )
    return found


def fail_on_of(word: str) -> Severity | None:
    """The lowest severity that makes a lint fail, None for `never`."""
    return None if word == "never" else severity_of(word)


def severity_of(word: object) -> Severity:
    for severity in Severity:
        if word == severity.word:
            return severity
    raise LintError(f"Expected a severity, got {word!r}.", hint="Use info, warning or error.")


def _texts(data: dict[str, Any], key: str, path: Path) -> tuple[str, ...]:
    listed = _typed(data, key, list, path) or []
    if not all(isinstance(item, str) for item in listed):
        raise LintError(f"{key!r} in {str(path)!r} must be a list of strings.", hint=_HINT)
    return tuple(listed)


def _typed(data: dict[str, Any], key: str, kind: type, path: Path) -> Any:
    value = data.get(key)
    if value is not None and not isinstance(value, kind):
        raise LintError(
            f"{key!r} in {str(path)!r} must be of type {kind.__name__}, got {value!r}.", hint=_HINT
        )
    return value
