"""A required node affinity whose terms are empty.

Why: an empty term does not match all nodes, as one might think: it matches none. If all terms are
empty the Pod fits no node, and waits for ever; without any term the API server refuses it.
Instead: say in matchExpressions what the node must have, or remove the affinity.
"""

from collections.abc import Iterator

from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

_REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_TERMS = (*_REQUIRED, "nodeSelectorTerms")


@pod_rule("OL512", Severity.ERROR)
def empty_affinity_term(pod: Pod, review: Review) -> Iterator[Fault]:
    terms = pod.get(*_TERMS)
    if not isinstance(terms, list):
        return
    if not terms:
        yield pod.fault("The required node affinity has no term.", at=_TERMS)
    # One term that says something is enough to be met.
    elif all(not _says_something(term) for term in terms):
        for index in range(len(terms)):
            yield pod.fault("This term is empty, and matches no node.", at=(*_TERMS, index))


def _says_something(term: object) -> bool:
    if not isinstance(term, dict):
        return term is not None
    return bool(term.get("matchExpressions") or term.get("matchFields"))
