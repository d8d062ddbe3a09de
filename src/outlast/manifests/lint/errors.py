"""What keeps a lint from running. What is wrong in a manifest is a finding, and no error."""

from outlast.errors import OutlastError


class LintError(OutlastError):
    """The lint cannot run as asked."""


class NothingLinted(LintError):
    """No Kubernetes object and no node pool was found where one was looked for."""
