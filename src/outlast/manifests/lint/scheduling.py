"""Which nodes a Pod may run on, as the scheduler sees it: selectors, affinity, tolerations.

Pure. An unknown operator or a value of the wrong type matches nothing and raises nothing. A boolean
or a number where text is required counts as the text that was meant: `true` without quotes is
reported by its own rule, and must not hide what else is wrong with the Pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from outlast.yamltext.scalars import as_key

HARD_EFFECTS = ("NoSchedule", "NoExecute")
GPU_TAINT = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class Taint:
    """A taint of a node, which keeps Pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Toleration:
    """A toleration of a Pod. `index` is its position in the Pod's list.

    An empty effect tolerates every effect, an empty key with `Exists` every taint.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    index: int = 0

    def matches(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        if self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)

    def __str__(self) -> str:
        return f"{self.key or '(every taint)'}{'=' + self.value if self.value else ''}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """A condition on a label of the node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As selectors of kubectl are written, such as `pool=a` or `!pool`."""
        values = ",".join(self.values)
        match self.operator:
            case "In" if len(self.values) == 1:
                return f"{self.key}={values}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator.lower()} ({values})"
            case "DoesNotExist":
                return f"!{self.key}"
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{values}"
            case _:
                return self.key

    def accepts(self, labels: Mapping[str, str]) -> bool:
        has = self.key in labels
        match self.operator:
            case "In":
                return has and labels[self.key] in self.values
            case "NotIn":
                return not has or labels[self.key] not in self.values
            case "Exists":
                return has
            case "DoesNotExist":
                return not has
            case "Gt" | "Lt":
                return has and self._compares(labels[self.key])
            case _:
                return False

    def _compares(self, value: str) -> bool:
        if len(self.values) != 1 or not value.isdecimal() or not self.values[0].isdecimal():
            return False
        given, bound = int(value[:20]), int(self.values[0][:20])
        return given > bound if self.operator == "Gt" else given < bound


Term = tuple[Requirement, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeDemand:
    """What a Pod demands of its node.

    `required` is None without a required affinity. One of its terms must hold, and all requirements
    of that term. `preferred` terms are optional.
    """

    selector: Mapping[str, str]
    required: tuple[Term, ...] | None
    preferred: tuple[Term, ...]
    tolerations: tuple[Toleration, ...]

    @property
    def alternatives(self) -> tuple[Term, ...]:
        """The selector and the required affinity combined into terms, one of which must hold."""
        own = tuple(
            Requirement(key=key, operator="In", values=(value,))
            for key, value in self.selector.items()
        )
        if self.required is None:
            return (own,)
        return tuple((*own, *term) for term in self.required if term)

    def selects(self, labels: Mapping[str, str]) -> bool:
        return any(all(r.accepts(labels) for r in term) for term in self.alternatives)

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """Whether it tolerates all taints. GKE adds the toleration for GPUs itself."""
        return all(
            taint.key == GPU_TAINT or any(t.matches(taint) for t in self.tolerations)
            for taint in taints
            if taint.effect in HARD_EFFECTS
        )


def node_demand(spec: Mapping[str, Any]) -> NodeDemand:
    """What the spec of a Pod demands of its node."""
    affinity = _mapping(_mapping(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = _mapping(required).get("nodeSelectorTerms")
    wishes = _list(affinity.get("preferredDuringSchedulingIgnoredDuringExecution"))
    selector = _mapping(spec.get("nodeSelector"))
    return NodeDemand(
        selector={key: text for key in selector if (text := as_key(selector[key])) is not None},
        required=None if not required else tuple(_term(term) for term in _list(terms)),
        preferred=tuple(_term(_mapping(wish).get("preference")) for wish in wishes),
        tolerations=tolerations_of(spec),
    )


def tolerations_of(spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=_text(item.get("key")),
            operator=_text(item.get("operator")) or "Equal",
            value=as_key(item.get("value")) or "",
            effect=_text(item.get("effect")),
            index=index,
        )
        for index, item in enumerate(_list(spec.get("tolerations")))
        if isinstance(item, dict)
    )


def _term(term: Any) -> Term:
    # matchFields can only name a node, so it is not a condition on labels.
    return tuple(
        Requirement(
            key=_text(item.get("key")),
            operator=_text(item.get("operator")),
            values=tuple(t for v in _list(item.get("values")) if (t := as_key(v)) is not None),
        )
        for item in _list(_mapping(term).get("matchExpressions"))
        if isinstance(item, dict)
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
