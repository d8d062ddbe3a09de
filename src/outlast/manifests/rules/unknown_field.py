"""A field does not exist.

Why: kubectl rejects an unknown field, but other clients get no error: the API server drops it
silently, and it has no effect. The best-known example is maxParallelism: a Job that should be
limited to a few Pods uses up the entire quota, because the field is called parallelism.
Instead: use the correct field name, or remove the field.
"""

from collections.abc import Iterator
from difflib import get_close_matches

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    Rename,
    Review,
    SchemaError,
    SchemaProblem,
    Severity,
    get,
    object_rule,
)

# Common mistakes that a spelling check would not catch.
_MISNOMERS = {"maxParallelism": "parallelism", "maxRetries": "backoffLimit"}


@object_rule("OL601", Severity.ERROR, on_patches=True)
def unknown_field(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    for error in review.schema_errors(manifest):
        if error.problem is not SchemaProblem.UNKNOWN_FIELD:
            continue
        meant = _meant(error)
        free = meant is not None and get(manifest.data, (*error.path[:-1], meant)) is None
        yield manifest.fault(
            error.message,
            at=error.path,
            of_key=True,
            hint=f"Use {meant!r}." if meant else None,
            # The field would take effect for the first time.
            fix=manifest.fix(f"Rename it to {meant}", Rename(error.path, meant), is_safe=False)
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
