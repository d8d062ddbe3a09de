"""`outlast work MODULE:FUNCTION`: process the items of a queue until it is drained."""

import importlib
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from outlast._base.terminal import escaped
from outlast.cli.messages import print_crash
from outlast.cli.option_types import Duration, WholeNumber
from outlast.cli.printing import say
from outlast.errors import Interrupted, OutlastError
from outlast.interruption.guard import Guard
from outlast.worker.function import as_callable
from outlast.worker.loop import Until
from outlast.worker.measurements import WorkerSummary
from outlast.worker.worker import Worker


class TargetError(OutlastError, ValueError):
    """The function for a worker cannot be imported or called."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkFlags:
    """What a worker works on, and when it gives up."""

    queue: str | None = None
    """The queue, such as sqlite:///jobs.db. Default: OUTLAST_QUEUE_URL."""
    sink: str | None = None
    """Where to store results: a database, a bucket or a folder. Default: OUTLAST_SINK_URL."""
    chunk: WholeNumber = 10
    """Number of items to claim at a time."""
    batch: bool = False
    """Call the function with a list of up to --chunk values; it returns a list of results."""
    until: Until = Until.DRAINED
    """drained: exit when no items are left. forever: keep waiting for items."""
    lease: Duration | None = None
    """How long a dead worker's items stay reserved for it, such as 60s. Default: 60s."""
    timeout: Duration | None = None
    """A function call that takes longer than this fails its item and ends the worker."""
    failures_max: WholeNumber | None = None
    """Number of failures after which an item becomes a dead letter."""
    result_version: str | None = None
    """Version of what results depend on besides the item, such as the model."""


_DEFAULTS = WorkFlags()


def work(target: str, /, *, flags: WorkFlags = _DEFAULTS) -> int:
    """Process the items of a queue until it is drained.

    The function is called with the value of each item, and its result is stored under the item's
    key. A class is instantiated, and its setup() is called once before the first item.

    Parameters
    ----------
    target: str
        Module and function, such as embed:embed. Modules in the current folder can be imported.
    """
    if flags.chunk < 1:
        raise OutlastError(
            f"Expected --chunk to be at least 1, got {flags.chunk}.", hint="The default is 10."
        )
    try:
        summary = _run(target, flags)
    except OSError as error:
        # Ours are OutlastErrors, so this one is from the user's setup().
        print_crash(type(error), error, error.__traceback__)
        return 1
    say(f"{summary}.")
    # Results that were refused must not look like success.
    return 1 if summary.refused else 0


def _run(target: str, flags: WorkFlags) -> WorkerSummary:
    worker = Worker(
        flags.queue,
        flags.sink,
        lease_seconds=_seconds(flags.lease),
        timeout_seconds=_seconds(flags.timeout),
        failures_max=flags.failures_max,
        result_version=flags.result_version,
    )
    # Importing may take long, and a notice must not be missed in the meantime.
    with Guard() as guard:
        function = load_target(target)
        if guard.interrupted:
            raise Interrupted(guard.exit_code)
        _log_to_stderr()
        return worker.run(function, flags.chunk, batch=flags.batch, until=flags.until)


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def load_target(target: str) -> Callable[[Any], Any]:
    """Import `module:function`, also from the current folder."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise TargetError(
            f"Expected MODULE:FUNCTION, got {target!r}.",
            hint="For example: outlast work embed:embed",
        )
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found = _import(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            raise TargetError(
                f"Module {module_name!r} has no attribute {name!r}.",
                hint=f"It defines {', '.join(_callables(found)) or 'no functions or classes'}.",
            )
        found = getattr(found, part)
    try:
        return as_callable(found)
    except TypeError as error:
        raise TargetError(
            f"{target!r} cannot be used: {error}",
            hint="Name a function that takes one item, or a class with __call__ whose constructor "
            "takes no arguments.",
        ) from error


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise TargetError(
                f"No module named {name!r}.",
                hint=f"It has to be in the current folder, {str(Path.cwd())!r}, or installed.",
            ) from error
        raise _broken(name, error) from error
    except Interrupted:
        raise
    # A module that calls sys.exit(0) must not end the worker as if the queue were drained.
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> TargetError:
    where = ""
    # A syntax error names its own location.
    if not isinstance(error, SyntaxError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f" ({last.filename}, line {last.lineno})"
    return TargetError(
        f"Could not import {name!r}: {type(error).__name__}: {error}{where}.",
        hint=f"For the full traceback, run: python -c 'import {name}'",
    )


def _callables(module: Any) -> list[str]:
    name = getattr(module, "__name__", None)
    return sorted(
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and callable(value) and getattr(value, "__module__", 0) == name
    )


class _SafeFormatter(logging.Formatter):
    """Escapes control characters: a log line may quote an item's key or its error."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record))


def _log_to_stderr() -> None:
    """Log to stderr, unless the user's module has already configured logging."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SafeFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("outlast").setLevel(logging.INFO)
