"""The error a function raises for a failed item, and the errors of workers."""

from outlast.errors import OutlastError


class ItemFailed(OutlastError):
    """One item failed. Raise it, or return it in place of the item's result in a batch.

    Any other exception works too. With `retry=False`, this one moves the item to the dead letters
    at once, because retrying is pointless.
    """

    def __init__(self, message: str, *, hint: str | None = None, retry: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.retry = retry


class WrongResultCount(OutlastError):
    """A batch function did not return exactly one result per item."""


class FunctionExited(OutlastError):
    """The function called `sys.exit()` with the code for success while items were left.

    Passed on, that exit code would let a Kubernetes Job count the worker as finished.
    """

    exit_code = 1
