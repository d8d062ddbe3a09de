"""The API server refuses the object.

Why: the server checks more than the schema says: which fields exclude or require each other, how
names, labels and quantities are written, what a Job of this kind may set. It refuses the object as
a whole, or, for a template in a custom resource, every Pod that is made from it. This rule makes
the same checks as Kubernetes 1.36 and reports them with the server's own reason, so that a mistake
shows up before it is applied.
Instead: change the field that the finding names.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    Review,
    Severity,
    dotted,
    object_rule,
    refusals,
)


@object_rule("OL908", Severity.ERROR)
def invalid_object(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    known = {error.path for error in review.schema_errors(manifest)}
    for refusal in refusals(manifest):
        # The schema rules report a missing field or a wrong type.
        if refusal.path in known:
            continue
        yield manifest.fault(
            f"{dotted(refusal.path)}: {refusal.reason}: {refusal.detail}.",
            at=refusal.path,
            of_key=refusal.of_key,
            hint=refusal.hint,
        )
