"""Write a file in place of another, whole or not at all."""

import contextlib
import os
from pathlib import Path

from outlast.manifests.lint.errors import LintError


def replace_file(path: Path, data: bytes, *, expected: bytes | None = None) -> None:
    """Put `data` in place of what the file holds. Its mode stays; a link's target is replaced.

    With `expected`, refuses if the file no longer holds that. If killed: the old content stays, or
    the new one is there whole; a file that starts with `.outlast-` may stay beside it.
    """
    # Loaded here, because every lint would pay for it and few write.
    import tempfile

    target = path.resolve()
    if expected is not None and target.read_bytes() != expected:
        raise LintError(
            f"{str(path)!r} has changed while it was looked at, and was left as it is.",
            hint="Run the command again.",
        )
    handle, name = tempfile.mkstemp(prefix=".outlast-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mode = target.stat().st_mode if target.exists() else 0o644
        Path(name).chmod(mode & 0o7777)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
