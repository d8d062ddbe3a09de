"""A value that the schema of Kubernetes does not allow.

Why: the API server refuses the object.
Instead: use what the schema of this kind and version allows; `kubectl explain` shows it.
"""

from collections.abc import Iterator

from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.schemas import Problem
from outlast.manifests.lint.view import Fault, Manifest

# Each of these has a rule of its own.
_ELSEWHERE = (Problem.UNKNOWN_FIELD, Problem.UNQUOTED)


@object_rule("OL903", Severity.ERROR, on_patches=True)
def schema_error(manifest: Manifest, review: Review) -> Iterator[Fault]:
    for field in ("apiVersion", "kind"):
        if manifest.text(field) is None:
            yield manifest.fault(f"The object lacks the field {field!r}.", at=(field,))
    for error in review.schema_errors(manifest):
        if error.problem not in _ELSEWHERE:
            yield manifest.fault(error.message, at=error.path)
