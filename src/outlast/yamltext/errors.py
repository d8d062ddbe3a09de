"""Errors of reading YAML. What is wrong in a text is a result, not an error."""

from outlast.errors import OutlastError


class PlanningPackageMissing(OutlastError):
    """Planning needs a package that is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"Workload files and manifests require {package}, which is not installed.",
            hint="Run: pip install 'outlast[plan]'",
        )
        self.package = package
