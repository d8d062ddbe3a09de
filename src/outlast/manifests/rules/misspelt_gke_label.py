"""A label, taint or value that is nearly one of GKE's.

Why: a selector is compared letter by letter. No node has the misspelt label, so the Pod waits for
ever, or, in a toleration or a preference, what was written has no effect. Nothing reports it.
Instead: write it as GKE does, such as cloud.google.com/gke-spot: "true".
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from outlast.manifests.lint.changes import Put, Rename
from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.view import Fault, Manifest, View
from outlast.manifests.lint.vocabulary import (
    is_on_no_node,
    meant_accelerator,
    meant_key,
    meant_value,
)

_AFFINITY = ("spec", "affinity", "nodeAffinity")
_REQUIRED = (*_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_PREFERRED = (*_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution")


@dataclass(frozen=True, slots=True)
class _Word:
    """A word that should be one of GKE's. `is_name`: it is the key of a mapping.

    `never`: the label that has this value on no node.
    """

    text: str
    at: Path
    meant: str | None
    is_name: bool = False
    never: str | None = None


@object_rule("OL504", Severity.WARNING)
def misspelt_gke_label(manifest: Manifest, review: Review) -> Iterator[Fault]:
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
    """Whether a known pool has just this label, or is tainted with it: then it is meant."""
    return any(
        word.text in pool.node_labels or any(word.text == taint.key for taint in pool.taints)
        for pool in review.pools
    )


def _fault(view: View, word: _Word) -> Fault:
    assert word.meant is not None
    change = Rename(word.at, word.meant) if word.is_name else Put(word.at, word.meant)
    is_free = not word.is_name or view.get(*word.at[:-1], word.meant) is None
    return view.fault(
        f"{word.text!r} is no word of GKE; {word.meant!r} is.",
        at=word.at,
        of_key=word.is_name,
        hint=f"Write {word.meant!r}.",
        # It sends the Pod somewhere else than today.
        fix=view.fix(f"Write {word.meant}", change, is_safe=False) if is_free else None,
    )


def _never(view: View, word: _Word) -> Fault:
    return view.fault(
        f"No node has {word.never} with {word.text!r}: GKE gives that label to such nodes alone, "
        "and always with 'true'.",
        at=word.at,
        hint="To keep off these nodes, require by node affinity that the label DoesNotExist.",
    )


def _value(key: str, value: str, at: Path) -> _Word:
    never = key if is_on_no_node(key, value) else None
    return _Word(value, at, meant_value(key, value), never=never)


def _in_labels(view: View, path: Path) -> Iterator[_Word]:
    """The keys and values of a mapping of labels."""
    for key, value in view.strings(*path).items():
        yield _Word(key, (*path, key), meant_key(key), is_name=True)
        yield _value(key, value, (*path, key))


def _in_rest(pod: View) -> Iterator[_Word]:
    for index, _ in pod.mappings(*_REQUIRED):
        yield from _in_expressions(pod, (*_REQUIRED, index, "matchExpressions"))
    for index, _ in pod.mappings(*_PREFERRED):
        yield from _in_expressions(pod, (*_PREFERRED, index, "preference", "matchExpressions"))
    yield from _in_taints(pod, ("spec", "tolerations"))


def _in_expressions(pod: View, path: Path) -> Iterator[_Word]:
    for index, item in pod.mappings(*path):
        key = item.get("key")
        if not isinstance(key, str):
            continue
        yield _Word(key, (*path, index, "key"), meant_key(key))
        for place, value in enumerate(pod.listed(*path, index, "values")):
            if isinstance(value, str):
                word = _value(key, value, (*path, index, "values", place))
                # Who excludes a value that no node has is right.
                yield word if item.get("operator") == "In" else replace(word, never=None)


def _in_taints(view: View, path: Path) -> Iterator[_Word]:
    """The keys and values of taints or tolerations."""
    for index, item in view.mappings(*path):
        key, value = item.get("key"), item.get("value")
        if isinstance(key, str):
            yield _Word(key, (*path, index, "key"), meant_key(key))
            if isinstance(value, str):
                yield _Word(value, (*path, index, "value"), meant_value(key, value))


def _in_capacity(manifest: Manifest) -> Iterator[_Word]:
    """Words in the objects that speak of nodes: Kueue's flavors and GKE's classes."""
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
