"""An image has no tag, or the tag latest.

Why: after an eviction the Pod may start with a different version of the program, which may not be
able to read the existing checkpoints. Afterwards, it is impossible to find out which version ran.
Instead: use a version tag or, better, a digest: image@sha256:...
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    NodeTier,
    Pod,
    Review,
    Severity,
    is_placeholder,
    is_vendored,
    pod_rule,
)

_NOT_NAMES = ("auto",)
# Images that are often used by one word, which is also the name of the object.
_OFFICIAL = frozenset(
    "alpine bash busybox debian fedora golang httpd mariadb memcached mongo mysql nginx node "
    "postgres python rabbitmq redis ubuntu wordpress".split()
)


@pod_rule("OL904", Severity.WARNING, on_patches=True)
def untagged_image(pod: Pod, review: Review) -> Iterator[Fault]:
    # A PodTemplate only says how large the Pods are that nodes are provisioned for.
    if is_vendored(pod.manifest.source) or pod.manifest.kind == "PodTemplate":
        return
    tiers = review.placement(pod).tiers
    for container in pod.all_containers:
        image = (container.image or "").strip()
        if not image or is_placeholder(image) or "@" in image or image in _NOT_NAMES:
            continue
        name, colon, tag = image.rpartition(":")
        if not colon or "/" in tag:
            name, tag = image, ""
        if tag not in ("", "latest") or name in review.kustomized_images:
            continue
        if not tag and _is_built_by_a_tool(image, pod):
            continue
        problem = "has the tag latest" if tag else "has no tag, which means latest"
        yield container.fault(
            f"The image {image!r} {problem}.",
            at=("image",),
            # A node that can be lost makes it certain that the image is pulled again.
            is_minor=not tiers & {NodeTier.SPOT, NodeTier.FLEX_START},
        )


def _is_built_by_a_tool(image: str, pod: Pod) -> bool:
    """Whether a tool such as Skaffold puts the image that it builds in the place of this name."""
    if "/" in image or image in _OFFICIAL:
        return False
    has_name_of_owner = image == pod.manifest.name and pod.owner_kind != "Pod"
    return pod.manifest.is_base or has_name_of_owner
