"""Errors of workload files and planning."""

from outlast.errors import OutlastError
from outlast.yamltext.errors import PlanningPackageMissing as PlanningPackageMissing


class InputFileError(OutlastError):
    """A file given by the user is invalid. `file`, `line` and `column` locate the problem, from 1.

    They are None if the problem has no such position.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.file = file
        self.line = line
        self.column = column


class WorkloadError(InputFileError):
    """A workload file is invalid."""
