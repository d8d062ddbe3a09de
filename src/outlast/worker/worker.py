"""The public worker class.

outlast.Worker("sqlite:///jobs.db", "sqlite:///jobs.db").run(embed, chunk=10)
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Unpack

from outlast._base.logs import get_logger
from outlast._base.options import takes_options
from outlast._base.settings import Setting
from outlast.errors import SettingError
from outlast.interruption.guard import Guard
from outlast.queue.opening import open_queue
from outlast.queue.protocol import Queue
from outlast.results.opening import open_sink_beside
from outlast.results.protocol import Sink
from outlast.worker.function import RetryPolicy, UserFunction
from outlast.worker.loop import LoopOptions, Until, WorkerLoop
from outlast.worker.measurements import WorkerSummary
from outlast.worker.retry import UnavailableRetry
from outlast.worker.settings import QUEUE_URL, SINK_URL, WorkerOptions, WorkerSettings

log = get_logger(__name__)


class Worker:
    """Processes the items of a queue on a machine that may be evicted at any time.

    `queue` and `sink` are URLs, or objects from `open_queue` and `open_sink`. If None, they come
    from `OUTLAST_QUEUE_URL` and `OUTLAST_SINK_URL`. `result_version` identifies what results depend
    on besides the item, such as the model. All settings are described in
    docs/reference/settings.md. Raises `SettingError` if one is invalid.
    """

    @takes_options(WorkerOptions)
    def __init__(
        self, queue: Queue | str | None, sink: Sink | str | None, **options: Unpack[WorkerOptions]
    ) -> None:
        self._queue = _given_or_set(queue, QUEUE_URL)
        self._sink = _given_or_set(sink, SINK_URL)
        self._grace_seconds = options.get("grace_seconds")
        self._settings = WorkerSettings.read(options)

    def run(
        self,
        function: Callable[[Any], Any] | type,
        chunk: int = 10,
        *,
        batch: bool = False,
        until: str = Until.DRAINED,
    ) -> WorkerSummary:
        """Call the function with the value of each item and store its result, once per key.

        With `batch`, the function takes a list of up to `chunk` values and returns as many results.
        An exception, raised or returned in place of a result, fails that item. A class is
        instantiated, and its `setup()` is called once before the first item.

        Returns when the queue is drained; with `until="forever"`, never. After a notice, it stores
        what is done, releases the rest and raises `Interrupted`. Raises `QueueUnavailable` or
        `SinkUnavailable` after `patience_seconds`, `QueueStalled` if published items are neither
        delivered nor done, and `FunctionExited` if the function calls `sys.exit(0)`.

        If killed: acknowledged items are stored; the rest come back when their lease expires.
        """
        if chunk < 1:
            raise ValueError(f"Expected a chunk of at least 1, got {chunk!r}.")
        policy = RetryPolicy(self._settings.failures_max, self._settings.retry_seconds)
        work = UserFunction(function, batch=batch, policy=policy)
        options = LoopOptions(chunk, batch, _until(until))
        guard = Guard(grace_seconds=self._grace_seconds, exit_code=self._settings.exit_code)
        # The guard is closed first, because its callbacks use the queue.
        with ExitStack() as opened, guard:
            retry = UnavailableRetry(guard, seconds=self._settings.patience_seconds)
            queue = opened.enter_context(_opened(self._queue, open_queue, retry))
            sink = opened.enter_context(
                _opened(self._sink, lambda url: open_sink_beside(url, queue), retry)
            )
            loop = WorkerLoop(
                queue,
                sink,
                function=work,
                guard=guard,
                retry=retry,
                settings=self._settings,
                options=options,
            )
            return loop.run()


def _until(given: str) -> Until:
    try:
        return Until(given)
    except ValueError:
        raise ValueError(f"Expected until='drained' or 'forever', got {given!r}.") from None


def _given_or_set(given: Any, setting: Setting[str]) -> Any:
    """The argument, or else the URL from the environment."""
    if given is not None and not isinstance(given, str):
        return given
    if url := setting.read(given).value:
        return url
    raise SettingError(
        f"No {setting.keyword} was given for the worker.",
        hint=f"Pass a URL, or set {setting.variable}.",
        source=f"variable {setting.variable}",
    )


@contextmanager
def _opened(given: Any, open_url: Callable[[str], Any], retry: UnavailableRetry) -> Iterator[Any]:
    """The argument. If it is a URL, it is opened here and closed at the end."""
    if not isinstance(given, str):
        yield given
        return
    opened = retry.opening(lambda: open_url(given))
    try:
        yield opened
    finally:
        opened.close()
