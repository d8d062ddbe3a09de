"""A ProvisioningRequest refers to a PodTemplate in another namespace.

Why: the reference is a name without a namespace, so the PodTemplate must be in the namespace of the
ProvisioningRequest. If it is elsewhere, the request fails, no nodes are created and the Pods that
wait for them stay Pending.
Instead: put the PodTemplate into the namespace of the ProvisioningRequest.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    Path,
    Review,
    Severity,
    object_rule,
    share_namespace,
)


@object_rule("OL307", Severity.WARNING)
def template_in_other_namespace(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    if manifest.kind != "ProvisioningRequest":
        return
    for index, _ in manifest.mappings("spec", "podSets"):
        at: Path = ("spec", "podSets", index, "podTemplateRef", "name")
        name = manifest.text(*at)
        named = [one for one in review.of_kind("PodTemplate") if one.name == name]
        if named and not any(share_namespace(one, manifest) for one in named):
            yield manifest.fault(
                f"PodTemplate {name!r} is in namespace {named[0].namespace!r}, but this request is "
                f"in {manifest.namespace!r}.",
                at=at,
            )
