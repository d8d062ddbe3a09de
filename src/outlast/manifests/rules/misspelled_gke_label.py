"""A label, taint or value is a misspelled GKE name.

Why: labels and taints have to match exactly. No node has the misspelled label, so a Pod that
selects it stays Pending indefinitely; a misspelled toleration or preference has no effect. No error
is reported.
Instead: use the exact spelling, such as cloud.google.com/gke-spot: "true".
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    ObjectView,
    Path,
    Put,
    Rename,
    Review,
    Severity,
    is_on_no_node,
    meant_accelerator,
    meant_key,
    meant_value,
    object_rule,
)

_AFFINITY = ("spec", "affinity", "nodeAffinity")
_REQUIRED = (*_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_PREFERRED = (*_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution")


@dataclass(frozen=True, slots=True)
class _Word:
    """A word that should be a GKE name. `is_name`: it is the key of a mapping.

    `never`: the label that never has this value.
    """

    text: str
    at: Path
    meant: str | None
    is_name: bool = False
    never: str | None = None


@object_rule("OL504", Severity.WARNING)
def misspelled_gke_label(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    for pod in review.pods_in(manifest):
        for word in (*_in_labels(pod, ("spec", "nodeSelector")), *_in_rest(pod)):
            if word.never:
                yield _never(pod, word)
            elif word.meant and not _is_on_nodes(word, review):
                yield _fault(pod, word)
    for word in _in_capacity(manifest):
        if word.meant and not _is_on_nodes(word, review):
            yield _fault(manifest, word)


def _is_on_nodes(word: _Word, review: Review) -> bool:
    """Whether a known pool has exactly this label or taint: then it is intended."""
    return any(
        word.text in pool.node_labels or any(word.text == taint.key for taint in pool.taints)
        for pool in review.pools
    )


def _fault(view: ObjectView, word: _Word) -> Fault:
    assert word.meant is not None
    change = Rename(word.at, word.meant) if word.is_name else Put(word.at, word.meant)
    is_free = not word.is_name or view.get(*word.at[:-1], word.meant) is None
    return view.fault(
        f"GKE does not use {word.text!r}; the correct spelling is {word.meant!r}.",
        at=word.at,
        of_key=word.is_name,
        hint=f"Change it to {word.meant!r}.",
        # The Pod may then run on different nodes.
        fix=view.fix(f"Change it to {word.meant}", change, is_safe=False) if is_free else None,
    )


def _never(view: ObjectView, word: _Word) -> Fault:
    return view.fault(
        f"No node has {word.never} set to {word.text!r}: GKE sets this label only on nodes that "
        "it applies to, and always to 'true'.",
        at=word.at,
        hint="To avoid these nodes, use a node affinity with the operator DoesNotExist.",
    )


def _value(key: str, value: str, at: Path) -> _Word:
    never = key if is_on_no_node(key, value) else None
    return _Word(value, at, meant_value(key, value), never=never)


def _in_labels(view: ObjectView, path: Path) -> Iterator[_Word]:
    """The keys and values of a mapping of labels."""
    for key, value in view.strings(*path).items():
        yield _Word(key, (*path, key), meant_key(key), is_name=True)
        yield _value(key, value, (*path, key))


def _in_rest(pod: ObjectView) -> Iterator[_Word]:
    for index, _ in pod.mappings(*_REQUIRED):
        yield from _in_expressions(pod, (*_REQUIRED, index, "matchExpressions"))
    for index, _ in pod.mappings(*_PREFERRED):
        yield from _in_expressions(pod, (*_PREFERRED, index, "preference", "matchExpressions"))
    yield from _in_taints(pod, ("spec", "tolerations"))


def _in_expressions(pod: ObjectView, path: Path) -> Iterator[_Word]:
    for index, item in pod.mappings(*path):
        key = item.get("key")
        if not isinstance(key, str):
            continue
        yield _Word(key, (*path, index, "key"), meant_key(key))
        for place, value in enumerate(pod.listed(*path, index, "values")):
            if isinstance(value, str):
                word = _value(key, value, (*path, index, "values", place))
                # Excluding a value that no node has is harmless.
                yield word if item.get("operator") == "In" else replace(word, never=None)


def _in_taints(view: ObjectView, path: Path) -> Iterator[_Word]:
    """The keys and values of taints or tolerations."""
    for index, item in view.mappings(*path):
        key, value = item.get("key"), item.get("value")
        if isinstance(key, str):
            yield _Word(key, (*path, index, "key"), meant_key(key))
            if isinstance(value, str):
                yield _Word(value, (*path, index, "value"), meant_value(key, value))


def _in_capacity(manifest: KubernetesObject) -> Iterator[_Word]:
    """Names in the objects that describe nodes: Kueue flavors and GKE classes."""
    if manifest.kind == "ResourceFlavor":
        yield from _in_labels(manifest, ("spec", "nodeLabels"))
        yield from _in_taints(manifest, ("spec", "nodeTaints"))
        yield from _in_taints(manifest, ("spec", "tolerations"))
    if manifest.kind == "ComputeClass":
        for index, _ in manifest.mappings("spec", "priorities"):
            at = ("spec", "priorities", index, "gpu", "type")
            gpu = manifest.text(*at)
            if gpu is not None:
                yield _Word(gpu, at, meant_accelerator(gpu))
