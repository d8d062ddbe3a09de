"""Which Pods a label selector selects."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review, share_namespace
from outlast.manifests.lint.scheduling import Requirement
from outlast.manifests.lint.view import Manifest


def pods_selected(selector: Mapping[str, Any], by: Manifest, review: Review) -> Iterator[Pod]:
    """The Pods in the namespace of `by` that its selector fits; an empty one fits all."""
    requirements = list(_requirements(selector))
    for pod in _candidates(requirements, review):
        labels = pod.cluster_labels
        if share_namespace(pod.manifest, by) and all(one.accepts(labels) for one in requirements):
            yield pod


def _candidates(requirements: Iterable[Requirement], review: Review) -> Iterable[Pod]:
    """The Pods that carry a label which is asked for; all of them if none is."""
    for requirement in requirements:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return review.pods_by_label.get((requirement.key, requirement.values[0]), ())
    return review.pods


def _requirements(selector: Mapping[str, Any]) -> Iterator[Requirement]:
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    if isinstance(labels, dict):
        for key, value in labels.items():
            values = (value,) if isinstance(value, str) else ()
            yield Requirement(key=key, operator="In", values=values)
    for item in expressions if isinstance(expressions, list) else ():
        if isinstance(item, dict):
            yield _requirement(item)


def _requirement(item: Mapping[str, Any]) -> Requirement:
    key, operator, listed = (item.get(name) for name in ("key", "operator", "values"))
    return Requirement(
        key=key if isinstance(key, str) else "",
        operator=operator if isinstance(operator, str) else "",
        values=tuple(value for value in listed if isinstance(value, str))
        if isinstance(listed, list)
        else (),
    )
