"""A toleration that the API server refuses.

Why: the rules between its fields are not in the schema: a toleration without a key needs the
operator Exists, Exists takes no value, and tolerationSeconds needs the effect NoExecute. With one
wrong toleration no Pod of the template is created.
Instead: for one taint give key, operator Equal, value and effect as the taint has them; for any
value leave the value out and say Exists.
"""

import re
from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.nodes import Map, Path
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

_OPERATORS = ("Equal", "Exists", "Gt", "Lt")
_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_VALUE = re.compile(rf"(?:{_NAME})?")
_KEY = re.compile(rf"(?:[a-z0-9][a-z0-9.-]{{0,252}}/)?{_NAME}")
# Something else fills these in before they reach a cluster.
_PLACEHOLDER = re.compile(r"[${}<>]")


@pod_rule("OL505", Severity.ERROR, on_patches=True)
def invalid_toleration(pod: Pod, review: Review) -> Iterator[Fault]:
    for index, toleration in pod.mappings("spec", "tolerations"):
        at: Path = ("spec", "tolerations", index)
        yield from _wrong_combination(pod, toleration, at)
        yield from _wrong_words(pod, toleration, at)


def _wrong_combination(pod: Pod, toleration: Map, at: Path) -> Iterator[Fault]:
    key, value, operator = (toleration.get(name) or "" for name in ("key", "value", "operator"))
    if not key and operator != "Exists":
        yield pod.fault(
            "This toleration has no key, so its operator must be Exists.",
            at=(*at, "operator"),
            hint="Name the key of the taint.",
        )
    elif value and operator == "Exists":
        yield pod.fault(
            f"The operator Exists takes no value, and this toleration has {_shown(value)}.",
            at=(*at, "value"),
            hint="Say Equal for this value alone, or leave the value out for any.",
            # Which of the two was meant is for a person to say; this one tolerates less.
            fix=pod.fix("Say Equal", Put((*at, "operator"), "Equal"), is_safe=False),
        )
    seconds, effect = toleration.get("tolerationSeconds"), toleration.get("effect")
    if seconds is not None and effect != "NoExecute":
        yield pod.fault(
            "tolerationSeconds needs the effect NoExecute.",
            at=(*at, "tolerationSeconds"),
            hint="Say NoExecute, or leave the seconds out: only that effect evicts running Pods.",
        )


def _wrong_words(pod: Pod, toleration: Map, at: Path) -> Iterator[Fault]:
    for field, known in (("operator", _OPERATORS), ("effect", _EFFECTS)):
        word = toleration.get(field)
        if isinstance(word, str) and word and word not in known and not _PLACEHOLDER.search(word):
            yield pod.fault(
                f"There is no {field} {word!r} for a toleration.",
                at=(*at, field),
                hint=f"It can be {', '.join(known)}.",
            )
    for field, pattern in (("key", _KEY), ("value", _VALUE)):
        word = toleration.get(field)
        if isinstance(word, str) and word and not _PLACEHOLDER.search(word):
            if not pattern.fullmatch(word):
                yield pod.fault(
                    f"{word!r} cannot be the {field} of a taint.",
                    at=(*at, field),
                    hint="Key, value and effect are three fields: key=value:effect is not one.",
                )


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else "one"
