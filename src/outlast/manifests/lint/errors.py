"""Errors that keep a lint from running. What is wrong in a manifest is a finding, not an error."""

from outlast.errors import OutlastError


class LintError(OutlastError):
    """The lint cannot run as requested."""


class NothingLinted(LintError):
    """There was nothing to lint: no Kubernetes object and no node pool was found."""
