"""The errors of queues."""

from typing import Self

from outlast.errors import OutlastError


class ItemRefused(OutlastError, ValueError):
    """An item cannot be published, so no item of its batch was published."""


class LeaseLost(OutlastError):
    """The lease ended before its items were settled, and other workers may have them now.

    The call that raised it neither stored nor acknowledged anything.
    """

    @classmethod
    def of(cls, lease: str) -> Self:
        return cls(
            f"{lease} no longer holds these items.",
            hint="Another worker may have them. If this happens often, raise lease_seconds.",
        )


class QueueUnavailable(OutlastError):
    """The queue's server or file is unavailable, after a bounded number of retries.

    `permanent` means that retrying cannot help, as with a wrong password or a damaged file.
    """

    def __init__(self, message: str, *, hint: str | None = None, permanent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent


class QueueStalled(QueueUnavailable):
    """Some published items have no result, but the queue has stopped delivering messages."""


class QueueUrlError(OutlastError, ValueError):
    """The URL of a queue is invalid."""
