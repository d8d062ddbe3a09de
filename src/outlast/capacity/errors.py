"""What can go wrong while planning."""

from outlast.errors import OutlastError


class WorkloadError(OutlastError):
    """A workload file cannot be used. `file`, `line` and `column` say where, counted from 1.

    `line` and `column` are None where no place in the file is to blame.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        file: str,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.file = file
        self.line = line
        self.column = column


class PlanningPackageMissing(OutlastError):
    """Planning needs a package that is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"Workload files and manifests need {package}, which is not installed.",
            hint="Run: pip install 'outlast[plan]'",
        )
        self.package = package
