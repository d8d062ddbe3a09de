"""The error that keeps a drill from running. What a drill finds is a check, not an error."""

from outlast.errors import OutlastError


class DrillError(OutlastError):
    """The drill cannot run with these options, this command or these files."""
