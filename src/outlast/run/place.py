"""Where a run is stored."""

import os
from collections.abc import Mapping

from outlast.checkpoint.settings import RUN_URL
from outlast.errors import SettingError


def url_for(given: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> str:
    """The URL of this run: given, or from the environment, with the index of an indexed Job.

    Not with the index if the ranks of several Pods form one world: they share one run.
    """
    text = os.fspath(given) if given is not None else RUN_URL.read(environ=environ).value
    text = text or environ.get("CHECKPOINT_DIR", "")
    if not text:
        raise SettingError(
            "No folder or URL was given for the checkpoints.",
            hint="Pass a folder or URL, or set OUTLAST_RUN_URL or CHECKPOINT_DIR.",
            source="variable OUTLAST_RUN_URL",
        )
    index = environ.get("JOB_COMPLETION_INDEX", "")
    if not index.isdecimal() or _world_spans_pods(environ):
        return text
    return f"{text.rstrip('/')}/{index}"


def _world_spans_pods(environ: Mapping[str, str]) -> bool:
    """Whether some ranks run elsewhere: a launcher has set a world larger than its local part.

    A trial of a sweep whose ranks all run in its own Pod is a world by itself.
    """
    local = environ.get("LOCAL_WORLD_SIZE", "")
    world = environ.get("WORLD_SIZE", "")
    return world.isdecimal() and int(world) > (int(local) if local.isdecimal() else 1)
