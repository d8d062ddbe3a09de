"""Checkpoints are saved to a directory that is not on a volume.

Why: without a volume, the directory is part of the container and is deleted with it. After an
eviction there is nothing to resume from, and the work starts over.
Instead: save to an object store (gs://bucket/run), or mount a PersistentVolumeClaim or a bucket at
that directory.
"""

import re
from collections.abc import Iterator

from outlast.manifests.rules.api import Container, Fault, Pod, Review, Severity, pod_rule

CHECKPOINT_VARIABLE = re.compile(
    r"(?:\w+_)?(?:CHECKPOINTS?|CKPTS?)_(?:DIR|DIRECTORY|FOLDER|PATH|ROOT|URL)|OUTLAST_RUN_URL"
)


@pod_rule("OL401", Severity.ERROR)
def checkpoint_not_on_volume(pod: Pod, review: Review) -> Iterator[Fault]:
    for container in pod.containers:
        for name, folder in checkpoint_folders(container):
            if container.mount_of(folder) is None:
                yield container.fault(
                    f"{name} is {folder!r}, but no volume is mounted there: checkpoints are "
                    "deleted with the container.",
                    at=container.variables[name].at,
                )


def checkpoint_folders(container: Container) -> Iterator[tuple[str, str]]:
    """The variables that set a directory for checkpoints, with the directory."""
    for variable in container.variables.values():
        if variable.value is None or not CHECKPOINT_VARIABLE.fullmatch(variable.name):
            continue
        folder = variable.value.removeprefix("file://")
        # Kubernetes expands $(NAME) when the container starts, so only the part before it is known.
        folder = folder.partition("$(")[0]
        if folder.startswith("/"):
            yield variable.name, folder
