"""A value does not match the Kubernetes schema.

Why: the API server rejects the object.
Instead: use a value that the schema of this kind and version allows; `kubectl explain` shows it.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    Review,
    SchemaProblem,
    Severity,
    object_rule,
)

# One of these is in almost every object.
_CONTENT = ("data", "roleRef", "rules", "spec", "stringData", "subjects", "webhooks")
# Each of these has its own rule.
_ELSEWHERE = (SchemaProblem.UNKNOWN_FIELD, SchemaProblem.UNQUOTED)


@object_rule("OL903", Severity.ERROR, on_patches=True)
def schema_error(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    for field in ("apiVersion", "kind"):
        # A patch with a target needs neither.
        if manifest.text(field) is None and not manifest.is_patch:
            # Programs read files with a kind, too, that are no objects of Kubernetes.
            is_object = not manifest.data.keys().isdisjoint(_CONTENT)
            yield manifest.fault(f"{field} is missing.", at=(field,), is_minor=not is_object)
    for error in review.schema_errors(manifest):
        if error.problem not in _ELSEWHERE:
            yield manifest.fault(error.message, at=error.path)
