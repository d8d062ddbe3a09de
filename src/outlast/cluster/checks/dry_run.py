"""Whether the API server accepts every object: a dry run of the submission."""

from collections.abc import Iterator

from outlast.cluster.checks.result import CheckResult, Subject, fail, ok, unknown
from outlast.cluster.errors import ApiRefusal
from outlast.cluster.resources import NAMESPACES, namespace_of, title_of
from outlast.cluster.submitting.refusals import explain
from outlast.cluster.submitting.submitting import Target, apply_politely


def check_dry_run(subject: Subject) -> Iterator[CheckResult]:
    missing = set(_missing_namespaces(subject))
    accepted = 0
    for item in subject.objects:
        resource = subject.cluster.find(str(item.get("apiVersion")), str(item.get("kind")))
        if resource is None:
            continue
        target = Target(item=item, resource=resource).completed()
        if target.namespace in missing:
            continue
        try:
            apply_politely(subject.cluster, target, dry_run=True)
            accepted += 1
        except ApiRefusal as refusal:
            if refusal.is_overload:
                raise
            problem = explain(refusal, title_of(target.item))
            if refusal.status == 403 and target.is_setup:
                yield unknown(f"{problem.text}", "Ask an administrator to submit with --setup.")
            else:
                yield fail(problem.text, problem.hint)
    for namespace in sorted(missing):
        yield fail(
            f"namespace {namespace!r} does not exist, so what is in it was not tried",
            "Run `outlast submit FILE --setup`, or create it.",
        )
    if accepted:
        yield ok(f"the API server accepts {accepted} of {len(subject.objects)} objects (dry run)")


def _missing_namespaces(subject: Subject) -> Iterator[str]:
    names = {namespace_of(item) or subject.namespace for item in subject.objects}
    for name in names:
        try:
            if subject.cluster.get(NAMESPACES, name) is None:
                yield name
        except ApiRefusal as refusal:
            if refusal.status != 403:
                raise
