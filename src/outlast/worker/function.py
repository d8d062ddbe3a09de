"""The user's function, called so that whatever it does wrong is the failure of an item.

Payloads are decoded and results encoded here, as JSON text and nothing else. Nothing is stored and
no clock is read. What is not an `Exception`, such as `SystemExit`, passes through.
"""

import inspect
import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from outlast.queue.items import Failure, Item
from outlast.results.protocol import Result
from outlast.worker.errors import ItemFailed, WrongCount

RESULT_BYTES_MAX = 16 * 1024**2
"""What is larger belongs into a store, and its name into the sink."""

_DELAY_SECONDS_MAX = 300.0
_ERROR_CHARACTERS_MAX = 8000
_FRAMES_MAX = 20
# Made once, because `json.dumps` makes one each time and `json.loads` looks at its options again.
_decode = json.JSONDecoder().decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Blame(NamedTuple):
    """On what terms a failed item comes back: how long after, and how often."""

    failures_max: int = 5
    retry_seconds: float = 1.0

    def failure(self, item: Item, error: str, *, retry: bool = True) -> Failure:
        return Failure(
            key=item.key,
            error=_storable(error),
            # The exponent is held down, because a float ends at 2 to the 1024.
            delay_seconds=min(
                self.retry_seconds * 2.0 ** min(item.failures, 30), _DELAY_SECONDS_MAX
            ),
            is_final=not retry or item.failures + 1 >= self.failures_max,
        )


class Computed(NamedTuple):
    """What a call gave. `undecided` are the items of a batch that failed as a whole."""

    results: Sequence[Result] = ()
    failures: Sequence[Failure] = ()
    undecided: Sequence[Item] = ()


class Function:
    """What the user gave to `run`: a function, a class with `__call__`, or an instance of one."""

    def __init__(self, given: Callable[[Any], Any] | type, *, batch: bool, blame: Blame) -> None:
        self._call = as_callable(given)
        self._batch = batch
        self.blame = blame

    def setup(self) -> None:
        """Let it load what it needs, once, before the first item."""
        setup = getattr(self._call, "setup", None)
        if setup is not None:
            setup()

    def compute(self, items: Sequence[Item]) -> Computed:
        """The results and failures of these items: of one, or of a batch."""
        return self._compute_batch(items) if self._batch else self._compute_one(items[0])

    def _compute_one(self, item: Item) -> Computed:
        try:
            value = _decode(item.payload)
        except (ValueError, RecursionError) as error:
            return Computed(failures=[self._unreadable(item, error)])
        try:
            output = self._call(value)
        except Exception as error:
            return Computed(failures=[self._failed(item, error)])
        return self._sorted([item], [output])

    def _compute_batch(self, items: Sequence[Item]) -> Computed:
        readable, values, failures = [], [], []
        for item in items:
            try:
                values.append(_decode(item.payload))
                readable.append(item)
            except (ValueError, RecursionError) as error:
                failures.append(self._unreadable(item, error))
        if not readable:
            return Computed(failures=failures)
        try:
            outputs = _as_list(self._call(values), len(readable))
        except Exception as error:
            if len(readable) > 1:
                return Computed(failures=failures, undecided=readable)
            return Computed(failures=[*failures, self._failed(readable[0], error)])
        computed = self._sorted(readable, outputs)
        return computed._replace(failures=[*failures, *computed.failures])

    def _sorted(self, items: Sequence[Item], outputs: Sequence[Any]) -> Computed:
        results, failures = [], []
        for item, output in zip(items, outputs, strict=True):
            if isinstance(output, Exception):
                failures.append(self._failed(item, output))
                continue
            try:
                payload = _encode(output)
                # Surrogates have no place in JSON that other programs can read.
                size_bytes = len(payload.encode())
                if size_bytes > RESULT_BYTES_MAX:
                    raise ValueError(f"it has {size_bytes:,} bytes, over {RESULT_BYTES_MAX:,}")
                results.append(Result(item.key, payload))
            except (TypeError, ValueError, RecursionError) as error:
                text = f"The function did not return a JSON value that can be stored: {error}."
                failures.append(self.blame.failure(item, text))
        return Computed(results=results, failures=failures)

    def _failed(self, item: Item, error: Exception) -> Failure:
        # The first frame is ours and tells nothing.
        frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
        lines = traceback.format_exception(type(error), error, frames, limit=-_FRAMES_MAX)
        retry = error.retry if isinstance(error, ItemFailed) else True
        return self.blame.failure(item, "".join(lines), retry=retry)

    def _unreadable(self, item: Item, error: Exception) -> Failure:
        text = f"The payload is not JSON: {error}. It is damaged, and stays so."
        return self.blame.failure(item, text, retry=False)


def as_callable(given: Callable[[Any], Any] | type) -> Callable[[Any], Any]:
    """A function as it is, or an instance of a class. Raises `TypeError` if it cannot be called."""
    call = given() if isinstance(given, type) else given
    if not callable(call):
        raise TypeError(f"{call!r:.200} cannot be called with an item.")
    if any(map(inspect.iscoroutinefunction, (call, getattr(call, "__call__", None)))):  # noqa: B004
        raise TypeError(f"{call!r:.200} is asynchronous; a worker calls plain functions.")
    return call


def _as_list(outputs: Any, count: int) -> list[Any]:
    # Iterating over a mapping or a text would give something, but never what was meant.
    if not isinstance(outputs, Iterable) or isinstance(outputs, Mapping | str | bytes):
        raise WrongCount(
            f"The function returned {type(outputs).__name__} for {count} items.",
            hint="With batch=True it takes a list of items and returns a list of results.",
        )
    listed = list(outputs)
    if len(listed) != count:
        raise WrongCount(
            f"The function returned {len(listed)} results for {count} items.",
            hint="Return one result for each item, in order; an exception for one that failed.",
        )
    return listed


def _storable(text: str) -> str:
    """Text that every database takes, its end kept, where the cause stands."""
    text = text.encode(errors="backslashreplace").decode().replace("\0", "\\0").strip()
    return text if len(text) <= _ERROR_CHARACTERS_MAX else f"...{text[-_ERROR_CHARACTERS_MAX:]}"
