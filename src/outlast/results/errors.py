"""What can go wrong with a sink."""

from outlast.errors import OutlastError


class SinkUnavailable(OutlastError):
    """The sink's server, file or store did not answer, within bounded retries."""


class SinkUrlError(OutlastError, ValueError):
    """The URL of a sink cannot be used."""


class ResultDamaged(OutlastError):
    """What is stored under a key cannot be read as a result."""
