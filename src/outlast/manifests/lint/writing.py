"""Write a file in place of another, whole or not at all."""

from pathlib import Path

from outlast._base.files import write_file
from outlast.manifests.lint.errors import LintError


def replace_file(path: Path, data: bytes, *, expected: bytes | None = None) -> None:
    """Put `data` in place of what the file holds. Its mode stays; a link's target is replaced.

    With `expected`, refuses if the file no longer holds that. If killed: the old content stays, or
    the new one is there whole; a file that starts with `.outlast-` may stay beside it.
    """
    if expected is not None and path.read_bytes() != expected:
        raise LintError(
            f"{str(path)!r} has changed while it was looked at, and was left as it is.",
            hint="Run the command again.",
        )
    write_file(path, data)
