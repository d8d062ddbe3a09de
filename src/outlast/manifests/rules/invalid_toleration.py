"""The API server rejects a toleration.

Why: some constraints on tolerations are not part of the schema: a toleration without a key requires
the operator Exists, Exists does not allow a value, and tolerationSeconds requires the effect
NoExecute. With one invalid toleration, no Pod of the template is created.
Instead: to tolerate one taint, use the operator Equal and copy the key, value and effect of the
taint. To tolerate any value, use Exists and omit the value.
"""

import re
from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Map, Path, Pod, Put, Review, Severity, pod_rule

_OPERATORS = ("Equal", "Exists", "Gt", "Lt")
_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_VALUE = re.compile(rf"(?:{_NAME})?")
_KEY = re.compile(rf"(?:[a-z0-9][a-z0-9.-]{{0,252}}/)?{_NAME}")
# Placeholders that are filled in before the manifest is applied.
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
            hint="Set the key of the taint.",
        )
    elif value and operator == "Exists":
        yield pod.fault(
            f"The operator Exists does not allow a value, but this toleration has {_shown(value)}.",
            at=(*at, "value"),
            hint="Use Equal to tolerate only this value, or remove the value to tolerate any.",
            # Only the author knows which of the two was meant; this one tolerates less.
            fix=pod.fix("Use Equal", Put((*at, "operator"), "Equal"), is_safe=False),
        )
    seconds, effect = toleration.get("tolerationSeconds"), toleration.get("effect")
    if seconds is not None and effect != "NoExecute":
        yield pod.fault(
            "tolerationSeconds requires the effect NoExecute.",
            at=(*at, "tolerationSeconds"),
            hint="Set NoExecute, the only effect that evicts running Pods, or remove the seconds.",
        )


def _wrong_words(pod: Pod, toleration: Map, at: Path) -> Iterator[Fault]:
    for field, known in (("operator", _OPERATORS), ("effect", _EFFECTS)):
        word = toleration.get(field)
        if isinstance(word, str) and word and word not in known and not _PLACEHOLDER.search(word):
            yield pod.fault(
                f"{word!r} is not a valid {field} for a toleration.",
                at=(*at, field),
                hint=f"Use one of {', '.join(known)}.",
            )
    for field, pattern in (("key", _KEY), ("value", _VALUE)):
        word = toleration.get(field)
        if isinstance(word, str) and word and not _PLACEHOLDER.search(word):
            if not pattern.fullmatch(word):
                yield pod.fault(
                    f"{word!r} is not a valid {field} of a taint.",
                    at=(*at, field),
                    hint="Key, value and effect are separate fields, unlike in key=value:effect.",
                )


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else "one"
