"""`outlast work MODULE:FUNCTION`: work on the items of a queue until it is drained."""

import importlib
import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast._base.durations import parse_duration
from outlast.errors import Interrupted, OutlastError
from outlast.interruption.guard import Guard
from outlast.worker.function import as_callable
from outlast.worker.shift import Until
from outlast.worker.worker import Worker


class TargetError(OutlastError, ValueError):
    """What a worker should call cannot be found or called."""


def work(
    target: str,
    /,
    *,
    queue: str | None = None,
    sink: str | None = None,
    chunk: int = 10,
    batch: bool = False,
    until: Until = Until.DRAINED,
    lease: str | None = None,
    timeout: str | None = None,
    failures_max: int | None = None,
    version: str | None = None,
) -> int:
    """Work on the items of a queue until it is drained.

    Every item's value goes to the function, and what it returns is stored under the item's key. A
    class is instantiated, and its setup() called once before the first item.

    Parameters
    ----------
    target: str
        Module and function, such as embed:embed. The current folder can be imported from.
    queue: str
        The queue, such as sqlite:///jobs.db. Default: OUTLAST_QUEUE_URL.
    sink: str
        Where results go: a database, a bucket or a folder. Default: OUTLAST_SINK_URL.
    chunk: int
        How many items to claim at a time.
    batch: bool
        Give the function a list of up to a chunk of values; it returns a list of results.
    until: Until
        drained ends once nothing is left, forever never.
    lease: str
        How long the items of a worker that vanished stay with it, such as 60s.
    timeout: str
        A call of the function that takes longer fails its item and ends the worker.
    failures_max: int
        After so many failures an item is a dead letter.
    version: str
        What results depend on besides the item, such as the model's name.
    """
    if chunk < 1:
        raise OutlastError(
            f"--chunk is {chunk}, but it counts items from 1.", hint="Leave it out for 10."
        )
    worker = Worker(
        queue,
        sink,
        lease_seconds=_seconds("--lease", lease),
        timeout_seconds=_seconds("--timeout", timeout),
        failures_max=failures_max,
        version=version,
    )
    # Importing may take long, and a notice must be heard meanwhile too.
    with Guard() as guard:
        function = load_target(target)
        if guard.interrupted:
            raise Interrupted(guard.exit_code)
        _log_to_stderr()
        try:
            summary = worker.run(function, chunk, batch=batch, until=until)
        except OSError:
            # Ours have names of their own, so this is from the user's set-up.
            traceback.print_exc()
            return 1
    print(f"{summary}.")
    return 0


def load_target(target: str) -> Callable[[Any], Any]:
    """What `module:function` names, with the current folder importable."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise TargetError(
            f"{target!r} does not name a function.",
            hint="Write MODULE:FUNCTION, as in embed:embed.",
        )
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found = _import(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            raise TargetError(
                f"The module {module_name!r} has no {name!r}.",
                hint=f"It defines {', '.join(_callables(found)) or 'nothing that can be called'}.",
            )
        found = getattr(found, part)
    try:
        return as_callable(found)
    except TypeError as error:
        raise TargetError(
            f"{target!r} cannot be used: {error}",
            hint="Name a function of one item, or a class with __call__ that needs no arguments.",
        ) from error


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise TargetError(
                f"There is no module {name!r}.",
                hint=f"Is {name.partition('.')[0]}.py in the current folder, or installed?",
            ) from error
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> TargetError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return TargetError(
        f"The module {name!r} could not be imported: {type(error).__name__}: {error} "
        f"(line {last.lineno} of {last.filename}).",
        hint=f"See the whole story with `python -c 'import {name}'`.",
    )


def _callables(module: Any) -> list[str]:
    name = getattr(module, "__name__", None)
    return sorted(
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and callable(value) and getattr(value, "__module__", 0) == name
    )


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise OutlastError(f"{option}: {error}", hint="See `outlast work --help`.") from None


def _log_to_stderr() -> None:
    """Show what the worker tells, unless the user's module has its own idea of logging."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("outlast").setLevel(logging.INFO)
