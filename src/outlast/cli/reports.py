"""Write report files: pages and charts."""

from pathlib import Path

from outlast._base.files import write_file
from outlast.errors import OutlastError
from outlast.storage.settings import shared_mode


def check_chart(path: Path) -> None:
    """Refuse a file name that does not end in .svg, before any work is done."""
    if path.suffix.lower() != ".svg":
        raise OutlastError(
            f"--svg: expected a file name that ends in .svg, got {str(path)!r}.",
            hint="Browsers display SVG, and drawing programs convert it to PNG.",
        )


def write_report(path: Path, text: str) -> None:
    """Write a page or a chart. If killed: the file is complete or unchanged.

    Raises `OutlastError` if the file cannot be written.
    """
    try:
        write_file(path, text.encode(), mode=shared_mode(0o600))
    except OSError as error:
        raise OutlastError(
            f"Could not write {str(path)!r}: {error.strerror}.",
            hint="Use a path in an existing, writable folder.",
        ) from error
