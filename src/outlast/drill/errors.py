"""What keeps a drill from being held at all. What a drill finds out is a verdict, not an error."""

from outlast.errors import OutlastError


class DrillError(OutlastError):
    """The drill cannot be held as it was asked for."""
