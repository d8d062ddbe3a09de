"""How a function says that an item failed, and what is said of a function that is at fault."""

from outlast.errors import OutlastError


class ItemFailed(OutlastError):
    """One item failed. Raise it, or return it in the item's place in a batch.

    Any other exception does as well; this one can also say, by `retry=False`, that trying again is
    useless: the item is a dead letter at once.
    """

    def __init__(self, message: str, *, hint: str | None = None, retry: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.retry = retry


class WrongCount(OutlastError):
    """A function that takes a batch did not return one result for each item."""
