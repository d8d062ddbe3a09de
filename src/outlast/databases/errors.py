"""Errors shared by queues and sinks that use the same database."""

from typing import Protocol

from outlast.errors import OutlastError


class UnavailableError(Protocol):
    """Creates the caller's error: queues and sinks each raise their own."""

    def __call__(
        self, message: str, *, hint: str | None = None, permanent: bool = False
    ) -> OutlastError: ...


class StaleResults(OutlastError):
    """Some results to be stored in a transaction are older than those in the sink.

    The call that raised it neither stored nor acknowledged anything.
    """
