"""Commands that only look must not make what they look for."""

from urllib.parse import urlsplit

from outlast.errors import OutlastError
from outlast.queue.sqlite_file import path_of


def refuse_missing(url: str, *, refused: type[OutlastError]) -> None:
    """Refuse the URL of a file that is not there, which opening it would make."""
    if urlsplit(url).scheme != "sqlite":
        return
    path = path_of(url, refused=refused)
    if not path.exists():
        raise refused(
            f"There is no file {str(path)!r}.",
            hint="Check the URL: an absolute path has a fourth slash before it.",
        )
