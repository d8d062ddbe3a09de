"""A required node affinity has only empty terms.

Why: an empty term matches no nodes, although it looks as if it matched all of them. If all terms
are empty, the Pod fits no node and stays Pending indefinitely. If there are no terms, the API
server rejects the Pod.
Instead: list the labels that the node must have in matchExpressions, or remove the affinity.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Review, Severity, pod_rule

_REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_TERMS = (*_REQUIRED, "nodeSelectorTerms")


@pod_rule("OL512", Severity.ERROR)
def empty_affinity_term(pod: Pod, review: Review) -> Iterator[Fault]:
    terms = pod.get(*_TERMS)
    if not isinstance(terms, list):
        return
    if not terms:
        yield pod.fault("The required node affinity has no terms.", at=_TERMS)
    # Terms are alternatives: one that is not empty is enough.
    elif all(not _has_conditions(term) for term in terms):
        for index in range(len(terms)):
            yield pod.fault("This term is empty, so it matches no nodes.", at=(*_TERMS, index))


def _has_conditions(term: object) -> bool:
    if not isinstance(term, dict):
        return term is not None
    return bool(term.get("matchExpressions") or term.get("matchFields"))
