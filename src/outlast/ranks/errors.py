"""The errors of programs that run as several processes."""

from outlast.errors import OutlastError


class RanksNotReady(OutlastError):
    """This process is one of several, but the library that connects them is not initialized."""


class ChannelLost(OutlastError):
    """The store between the ranks does not answer, or this connection to it was closed."""
