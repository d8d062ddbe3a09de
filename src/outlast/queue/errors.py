"""What can go wrong with a queue."""

from outlast.errors import OutlastError


class ItemRefused(OutlastError, ValueError):
    """An item cannot be published. Nothing of its batch was."""


class LeaseLost(OutlastError):
    """The lease ended before its items were settled, and others may work on them now.

    Nothing of the refused call was stored or acknowledged.
    """


class QueueUnavailable(OutlastError):
    """The queue's server or file did not answer, within bounded retries."""


class QueueUrlError(OutlastError, ValueError):
    """The URL of a queue cannot be used."""
