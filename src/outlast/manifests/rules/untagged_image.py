"""An image without a tag, or with the tag latest.

Why: after an eviction the Pod may start with another program than before, which may not even read
its own checkpoints. Which one ran cannot be said afterwards.
Instead: name a version, or better the digest: image@sha256:...
"""

from collections.abc import Iterator

from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

# Something else fills these in before they reach a cluster.
_PLACEHOLDER_SIGNS = ("$", "<", "{", "ko://")


@pod_rule("OL904", Severity.WARNING, on_patches=True)
def untagged_image(pod: Pod, review: Review) -> Iterator[Fault]:
    for container in pod.all_containers:
        image = container.image
        if not image or any(sign in image for sign in _PLACEHOLDER_SIGNS) or "@" in image:
            continue
        name, colon, tag = image.rpartition(":")
        if not colon or "/" in tag:
            name, tag = image, ""
        if tag not in ("", "latest") or name in review.kustomized_images:
            continue
        problem = "has the tag latest" if tag else "has no tag, which means latest"
        yield container.fault(f"The image {image!r} {problem}.", at=("image",))
