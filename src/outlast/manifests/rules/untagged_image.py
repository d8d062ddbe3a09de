"""An image has no tag, or the tag latest.

Why: after an eviction the Pod may start with a different version of the program, which may not be
able to read the existing checkpoints. Afterwards, it is impossible to find out which version ran.
Instead: use a version tag or, better, a digest: image@sha256:...
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Review, Severity, pod_rule

# Placeholders that are filled in before the manifest is applied.
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
