"""A field that does not exist.

Why: kubectl refuses it, and the API server itself drops it without a word, so what it was meant to
do does not happen. maxParallelism is the best known: a Job that is meant to be held to a few Pods
takes the whole quota, because the field is called parallelism.
Instead: use the field that exists, or remove this one.
"""

from collections.abc import Iterator
from difflib import get_close_matches

from outlast.manifests.lint.changes import Rename
from outlast.manifests.lint.nodes import get
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.schemas import Problem, SchemaError
from outlast.manifests.lint.view import Fault, Manifest

# What people write and no spelling check would lead back.
_MISNOMERS = {"maxParallelism": "parallelism", "maxRetries": "backoffLimit"}


@object_rule("OL601", Severity.ERROR, on_patches=True)
def unknown_field(manifest: Manifest, review: Review) -> Iterator[Fault]:
    for error in review.schema_errors(manifest):
        if error.problem is not Problem.UNKNOWN_FIELD:
            continue
        meant = _meant(error)
        free = meant is not None and get(manifest.data, (*error.path[:-1], meant)) is None
        yield manifest.fault(
            error.message,
            at=error.path,
            of_key=True,
            hint=f"It is called {meant!r}." if meant else None,
            # What was without effect until now would get one.
            fix=manifest.fix(f"Call it {meant}", Rename(error.path, meant), is_safe=False)
            if meant and free
            else None,
        )


def _meant(error: SchemaError) -> str | None:
    name = str(error.path[-1])
    if _MISNOMERS.get(name) in error.known:
        return _MISNOMERS[name]
    by_lower = {known.lower(): known for known in error.known}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.8)
    return by_lower[near[0]] if near else None
