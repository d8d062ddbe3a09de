"""What can go wrong while rendering."""

from outlast.errors import OutlastError


class RenderError(OutlastError):
    """A workload is well written, but no manifests could keep its promises."""
