"""A number or boolean is used where Kubernetes expects a string.

Why: labels, selectors, tolerations and environment variables are strings. Without quotes, YAML
reads true, yes, 1 or 0400 as a boolean or a number, and the API server rejects the entire object.
Instead: put the value in quotes.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    Put,
    Review,
    SchemaProblem,
    Severity,
    object_rule,
)


@object_rule("OL503", Severity.ERROR, on_patches=True)
def unquoted_value(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    for error in review.schema_errors(manifest):
        if error.problem is SchemaProblem.UNQUOTED:
            place = manifest.place(error.path)
            written = place.source.text[place.start : place.end]
            yield manifest.fault(
                error.message,
                at=error.path,
                hint=f'Quote it: "{written}".',
                fix=manifest.fix("Quote the value", Put(error.path, written), is_safe=True),
            )
