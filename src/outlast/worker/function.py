"""Call the user's function so that any mistake it makes is the failure of an item.

Payloads are decoded and results are encoded here, as JSON text only. Nothing is stored and no clock
is read. Exceptions that are not an `Exception`, such as `SystemExit`, pass through; the caller may
hand them to `failed`.
"""

import inspect
import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from outlast._redact import redact
from outlast.queue.items import Failure, Item
from outlast.results.protocol import Result
from outlast.worker.errors import ItemFailed, WrongResultCount

RESULT_BYTES_MAX = 16 * 1024**2
"""Larger results belong in a store, with their name in the sink."""

_DELAY_SECONDS_MAX = 300.0
_ERROR_CHARACTERS_MAX = 8000
_FRAMES_MAX = 20
_ABOUT_JSON = (TypeError, ValueError, RecursionError, UnicodeEncodeError)
# Created once: `json.dumps` would create one per call, and `json.loads` checks its options.
_decode = json.JSONDecoder().decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class RetryPolicy(NamedTuple):
    """When a failed item is retried, and after how many failures it becomes a dead letter."""

    failures_max: int = 5
    retry_seconds: float = 1.0

    def failure(self, item: Item, error: str, *, retry: bool = True) -> Failure:
        return Failure(
            key=item.key,
            error=_storable(error),
            # The exponent is limited, because a float overflows at 2 to the 1024.
            delay_seconds=min(
                self.retry_seconds * 2.0 ** min(item.failures, 30), _DELAY_SECONDS_MAX
            ),
            is_final=not retry or item.failures + 1 >= self.failures_max,
        )


class CallOutcome(NamedTuple):
    """The results and failures of a call. `undecided` are the items of a batch that raised."""

    results: Sequence[Result] = ()
    failures: Sequence[Failure] = ()
    undecided: Sequence[Item] = ()


class UserFunction:
    """What the user passed to `run`: a function, a class with `__call__`, or its instance."""

    def __init__(
        self, given: Callable[[Any], Any] | type, *, batch: bool, policy: RetryPolicy
    ) -> None:
        self._call = as_callable(given)
        self._batch = batch
        self.policy = policy

    def setup(self) -> None:
        """Call the `setup()` method, if there is one, before the first item."""
        setup = getattr(self._call, "setup", None)
        if setup is not None:
            setup()

    def compute(self, items: Sequence[Item]) -> CallOutcome:
        """The results and failures of one item, or of a batch."""
        return self._compute_batch(items) if self._batch else self._compute_one(items[0])

    def failed(self, items: Sequence[Item], error: BaseException) -> CallOutcome:
        """The outcome of a call that raised. In a batch, the item at fault is unknown."""
        if len(items) > 1:
            return CallOutcome(undecided=items)
        return CallOutcome(failures=[self._failed(items[0], error)])

    def _compute_one(self, item: Item) -> CallOutcome:
        try:
            value = _decode(item.payload)
        except (ValueError, RecursionError) as error:
            return CallOutcome(failures=[self._unreadable(item, error)])
        try:
            output = self._call(value)
        except Exception as error:
            return self.failed([item], error)
        return self._sorted([item], [output])

    def _compute_batch(self, items: Sequence[Item]) -> CallOutcome:
        readable, values, failures = [], [], []
        for item in items:
            try:
                values.append(_decode(item.payload))
                readable.append(item)
            except (ValueError, RecursionError) as error:
                failures.append(self._unreadable(item, error))
        if not readable:
            return CallOutcome(failures=failures)
        try:
            outputs = _as_list(self._call(values), len(readable))
        except Exception as error:
            computed = self.failed(readable, error)
        else:
            computed = self._sorted(readable, outputs)
        return computed._replace(failures=[*failures, *computed.failures])

    def _sorted(self, items: Sequence[Item], outputs: Sequence[Any]) -> CallOutcome:
        results, failures = [], []
        for item, output in zip(items, outputs, strict=True):
            if isinstance(output, Exception):
                failures.append(self._failed(item, output))
                continue
            try:
                results.append(Result(item.key, _encoded(output)))
            # An object of the user's own class may raise anything while it is encoded.
            except Exception as error:
                what = str(error) if type(error) in _ABOUT_JSON else text_of(error)
                text = f"The function's result cannot be stored as JSON: {what}."
                failures.append(self.policy.failure(item, text))
        return CallOutcome(results=results, failures=failures)

    def _failed(self, item: Item, error: BaseException) -> Failure:
        retry = error.retry if isinstance(error, ItemFailed) else True
        return self.policy.failure(item, _traceback_of(error), retry=retry)

    def _unreadable(self, item: Item, error: Exception) -> Failure:
        text = f"The payload is damaged: it is not JSON ({error}). Retrying cannot help."
        return self.policy.failure(item, text, retry=False)


def as_callable(given: Callable[[Any], Any] | type) -> Callable[[Any], Any]:
    """The function, or an instance of the class. Raises `TypeError` if it is not callable."""
    call = given() if isinstance(given, type) else given
    if not callable(call):
        raise TypeError(f"{call!r:.200} is not callable.")
    if any(map(inspect.iscoroutinefunction, (call, getattr(call, "__call__", None)))):  # noqa: B004
        raise TypeError(f"{call!r:.200} is async. Use a regular function.")
    return call


def _as_list(outputs: Any, count: int) -> list[Any]:
    # Iterating over a mapping or a string would work, but is never what was meant.
    if not isinstance(outputs, Iterable) or isinstance(outputs, Mapping | str | bytes):
        raise WrongResultCount(
            f"The function returned {type(outputs).__name__} for {count} items.",
            hint="With batch=True, the function takes a list of items and returns a list.",
        )
    listed = list(outputs)
    if len(listed) != count:
        raise WrongResultCount(
            f"The function returned {len(listed)} results for {count} items.",
            hint="Return one result per item, in order. Return an exception for a failed item.",
        )
    return listed


def _encoded(output: Any) -> str:
    """The result as JSON text. Raises `ValueError` with the reason if it cannot be stored."""
    payload = _encode(output)
    if "{" in payload:
        _refuse_equal_keys(output)
    # Other programs cannot read JSON that contains lone surrogates.
    size_bytes = len(payload.encode())
    if size_bytes > RESULT_BYTES_MAX:
        raise ValueError(f"it has {size_bytes:,} bytes, and the limit is {RESULT_BYTES_MAX:,}")
    return payload


def _refuse_equal_keys(output: Any) -> None:
    """Refuse mappings with keys such as 1 and "1", which are the same in JSON."""
    waiting = [output]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            texts: dict[str, object] = {}
            for key in value:
                text = _json_key(key)
                if text in texts:
                    raise ValueError(
                        f"a mapping has the keys {texts[text]!r} and {key!r}, which are both "
                        f"{text!r} in JSON"
                    )
                texts[text] = key
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += [one for one in value if isinstance(one, dict | list | tuple)]


def _json_key(key: object) -> str:
    """A key of a mapping as JSON writes it."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return int.__repr__(key) if isinstance(key, int) else repr(key)


def text_of(error: BaseException) -> str:
    """The type and message of an error, or only its type if the message cannot be formatted."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:
        return name


def _traceback_of(error: BaseException) -> str:
    # The first frame is in this module, not in the user's code.
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    try:
        lines = traceback.format_exception(type(error), error, frames, limit=-_FRAMES_MAX)
    except Exception:
        # Some exceptions cannot be formatted.
        lines = [*traceback.format_tb(frames, limit=-_FRAMES_MAX), text_of(error)]
    return "".join(lines)


def _storable(text: str) -> str:
    """Text that every database accepts, without secrets. Of a long text, the end is kept.

    Every error that is stored or logged for an item passes through here.
    """
    text = redact(text)
    text = text.encode(errors="backslashreplace").decode().replace("\0", "\\0").strip()
    return text if len(text) <= _ERROR_CHARACTERS_MAX else f"...{text[-_ERROR_CHARACTERS_MAX:]}"
