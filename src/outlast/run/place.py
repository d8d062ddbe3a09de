"""Where a run is stored."""

import os
from collections.abc import Mapping

from outlast.checkpoint.settings import RUN_URL
from outlast.errors import SettingError


def url_for(given: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> str:
    """The URL of this run: given, or from the environment, with the index of an indexed Job."""
    text = os.fspath(given) if given is not None else RUN_URL.read(environ=environ).value
    text = text or environ.get("CHECKPOINT_DIR", "")
    if not text:
        raise SettingError(
            "No folder or URL was given for the checkpoints.",
            hint="Pass a folder or URL, or set OUTLAST_RUN_URL or CHECKPOINT_DIR.",
            source="variable OUTLAST_RUN_URL",
        )
    index = environ.get("JOB_COMPLETION_INDEX", "")
    return f"{text.rstrip('/')}/{index}" if index.isdecimal() else text
