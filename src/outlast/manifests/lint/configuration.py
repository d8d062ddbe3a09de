"""The options of a lint, as `outlast.toml` or `[tool.outlast.lint]` in `pyproject.toml` give them.

The nearest of these files counts, from the working folder upwards. Paths in it are relative to it.
What the command line says goes before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.rule import Severity

NAMES = ("outlast.toml", "pyproject.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to lint. `is_autopilot` is None where nobody has said so."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    fail_on: Severity | None = Severity.WARNING
    baseline: Path | None = None
    kubernetes_version: str | None = None
    is_autopilot: bool | None = None


def find_options(folder: Path) -> Options:
    """The options in the nearest file, the defaults without one."""
    for place in (folder, *folder.parents):
        for name in NAMES:
            path = place / name
            if path.is_file():
                options = read_options(path)
                if options is not None:
                    return options
    return Options()


def read_options(path: Path) -> Options | None:
    """The options in a file; None if it is a `pyproject.toml` without any."""
    import tomllib

    try:
        data: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LintError(f"{str(path)!r} is not TOML: {error}.", hint="Mend it first.") from error
    names = ("tool", "outlast", "lint") if path.name == "pyproject.toml" else ("lint",)
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    if data is None:
        return None if path.name == "pyproject.toml" else Options()
    if not isinstance(data, dict):
        raise LintError(f"{'.'.join(names)!r} in {str(path)!r} is no table.", hint=_HINT)
    return _checked(data, path)


_HINT = "The page docs/how-to/lint-manifests.md lists what can stand there."
_LISTS = ("select", "ignore", "exclude", "pools")
_KEYS = (*_LISTS, "severity", "fail-on", "baseline", "kubernetes-version", "autopilot")


def _checked(data: dict[str, Any], path: Path) -> Options:
    for key in data:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(_KEYS)}."
            raise LintError(f"{str(path)!r} has an unknown option {key!r}.", hint=hint)
    lists = {key: _texts(data, key, path) for key in _LISTS}
    severity = _typed(data, "severity", dict, path) or {}
    baseline = _typed(data, "baseline", str, path)
    fail_on = _typed(data, "fail-on", str, path)
    return Options(
        select=lists["select"],
        ignore=lists["ignore"],
        exclude=lists["exclude"],
        pools=tuple(str(path.parent / pool) for pool in lists["pools"]),
        severity={code: severity_of(word) for code, word in severity.items()},
        fail_on=Severity.WARNING if fail_on is None else fail_on_of(fail_on),
        baseline=None if baseline is None else path.parent / baseline,
        kubernetes_version=_typed(data, "kubernetes-version", str, path),
        is_autopilot=_typed(data, "autopilot", bool, path),
    )


def fail_on_of(word: str) -> Severity | None:
    """The severity from which a lint fails; None for `never`."""
    return None if word == "never" else severity_of(word)


def severity_of(word: object) -> Severity:
    for severity in Severity:
        if word == severity.word:
            return severity
    raise LintError(f"There is no severity {word!r}.", hint="It is info, warning or error.")


def _texts(data: dict[str, Any], key: str, path: Path) -> tuple[str, ...]:
    listed = _typed(data, key, list, path) or []
    if not all(isinstance(item, str) for item in listed):
        raise LintError(f"{key!r} in {str(path)!r} is a list of texts.", hint=_HINT)
    return tuple(listed)


def _typed(data: dict[str, Any], key: str, kind: type, path: Path) -> Any:
    value = data.get(key)
    if value is not None and not isinstance(value, kind):
        raise LintError(
            f"{key!r} in {str(path)!r} is {value!r}; {kind.__name__} is expected.", hint=_HINT
        )
    return value
