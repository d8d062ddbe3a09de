"""The errors of sinks."""

from outlast.errors import OutlastError


class SinkUnavailable(OutlastError):
    """The sink's server, file or store is unavailable, after a bounded number of retries.

    `permanent` means that retrying cannot help, as with a wrong password or a damaged file.
    """

    def __init__(self, message: str, *, hint: str | None = None, permanent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent


class SinkUrlError(OutlastError, ValueError):
    """The URL of a sink is invalid."""


class ResultDamaged(OutlastError):
    """A stored result cannot be read."""
