"""A number or boolean where Kubernetes expects text.

Why: labels, selectors, tolerations and variables are text. Unquoted, YAML reads true, yes, 1 or
0400 as something else, and the API server refuses the whole object.
Instead: put the value in quotes.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.schemas import Problem
from outlast.manifests.lint.view import Fault, Manifest


@object_rule("OL503", Severity.ERROR, on_patches=True)
def unquoted_value(manifest: Manifest, review: Review) -> Iterator[Fault]:
    for error in review.schema_errors(manifest):
        if error.problem is Problem.UNQUOTED:
            place = manifest.place(error.path)
            written = place.source.text[place.start : place.end]
            yield manifest.fault(
                error.message,
                at=error.path,
                hint=f'Write it in quotes: "{written}".',
                fix=manifest.fix("Put it in quotes", Put(error.path, written), is_safe=True),
            )
