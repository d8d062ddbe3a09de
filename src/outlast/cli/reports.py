"""The files that reports are written into: pages and charts."""

from pathlib import Path

from outlast._base.files import write_file
from outlast.errors import OutlastError


def check_chart(path: Path) -> None:
    """Refuse a name that promises another format than SVG. For before the work is done."""
    if path.suffix.lower() != ".svg":
        raise OutlastError(
            f"--svg writes SVG, and {str(path)!r} does not end in .svg.",
            hint="Browsers open SVG, and drawing programs make PNG of it.",
        )


def write_report(path: Path, text: str) -> None:
    """Write a page or a chart. If killed: the file is whole, or as it was.

    Raises `OutlastError` if there is no such place, or it cannot be written to.
    """
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise OutlastError(
            f"{str(path)!r} could not be written: {error.strerror}.",
            hint="Name a file in a folder that exists and can be written to.",
        ) from error
