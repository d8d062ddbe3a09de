"""Checkpoints go to a folder that is on no volume.

Why: a folder without a volume is a part of the container. It is gone with the container, so after
an eviction there is nothing to resume from, and the work starts at zero.
Instead: save to an object store (gs://bucket/run), or mount a claim or a bucket at that folder.
"""

import re
from collections.abc import Iterator

from outlast.manifests.lint.pod import Container, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

CHECKPOINT_VARIABLE = re.compile(
    r"(?:\w+_)?(?:CHECKPOINTS?|CKPTS?)_(?:DIR|DIRECTORY|FOLDER|PATH|ROOT|URL)|OUTLAST_RUN_URL"
)


@pod_rule("OL401", Severity.ERROR)
def checkpoint_off_volume(pod: Pod, review: Review) -> Iterator[Fault]:
    for container in pod.containers:
        for name, folder in checkpoint_folders(container):
            if container.mount_of(folder) is None:
                yield container.fault(
                    f"{name} is {folder!r}, and no volume is mounted there: what is saved goes "
                    "with the container.",
                    at=container.variables[name].at,
                )


def checkpoint_folders(container: Container) -> Iterator[tuple[str, str]]:
    """The variables that name a folder for checkpoints, with the folder."""
    for variable in container.variables.values():
        if variable.value is None or not CHECKPOINT_VARIABLE.fullmatch(variable.name):
            continue
        folder = variable.value.removeprefix("file://")
        # Kubernetes fills in $(NAME) at the start of the container; what comes before it counts.
        folder = folder.partition("$(")[0]
        if folder.startswith("/"):
            yield variable.name, folder
