"""Whether a node could take each Pod: labels, taints and size, computed from the nodes there are.

The scheduler's own message no longer names the taint (from 1.35 on), so it is computed here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from outlast.cluster.checks.pools import pool_result
from outlast.cluster.checks.result import CheckResult, PodTemplate, Subject, fail, ok, unknown
from outlast.cluster.connection.google_cloud import GcloudFailed, GkeCluster
from outlast.cluster.diagnosis.fields import quantity
from outlast.cluster.resources import NODES, Object, Query, title_of
from outlast.manifests.conventions import GPU
from outlast.manifests.lint.scheduling import HARD_EFFECTS, NodeDemand, Taint, node_demand


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFacts:
    """What the scheduler looks at in a node."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    allocatable: dict[str, str]
    is_open: bool


def check_nodes(subject: Subject) -> Iterator[CheckResult]:
    templates = list(subject.pod_templates())
    if not templates:
        return
    nodes = [node_facts(item) for item in subject.cluster.list(Query(resource=NODES))]
    for template in templates:
        yield _result(template, nodes, subject.gke)


def node_facts(item: Object) -> NodeFacts:
    spec, metadata = item.get("spec") or {}, item.get("metadata") or {}
    return NodeFacts(
        name=str(metadata.get("name")),
        labels=metadata.get("labels") or {},
        taints=tuple(
            Taint(key=one["key"], value=one.get("value", ""), effect=one["effect"])
            for one in spec.get("taints") or ()
            # Those of the node controller are a passing state, not a property of the node.
            if not one["key"].startswith("node.kubernetes.io/")
        ),
        allocatable=(item.get("status") or {}).get("allocatable") or {},
        is_open=not spec.get("unschedulable"),
    )


def _result(template: PodTemplate, nodes: list[NodeFacts], gke: GkeCluster | None) -> CheckResult:
    title, demand = title_of(template.owner), node_demand(template.spec)
    selected = [node for node in nodes if node.is_open and demand.selects(node.labels)]
    if not selected:
        return _pool(title, demand, gke) or unknown(
            f"{title}: {_none_of(nodes)} {_wanted(demand)} now; whether the autoscaler would add "
            "one is not visible here",
            "See the node pools: gcloud container node-pools list --cluster CLUSTER",
        )
    tolerated = [node for node in selected if demand.tolerates(node.taints)]
    if not tolerated:
        taints = sorted({str(taint) for node in selected for taint in _barring(demand, node)})
        return fail(
            f"{title}: {len(selected)} nodes match, but it does not tolerate {', '.join(taints)}",
            f"Add a toleration for {taints[0]} to the Pod, or remove the taint.",
        )
    lacking = [_lacking(template.spec, node) for node in tolerated]
    if all(lacking):
        what = lacking[0]
        return fail(
            f"{title}: it requests {what[1]} of {what[0]}, and a matching node has {what[2]}",
            "Lower the request, or use a larger machine type.",
        )
    return ok(f"{title}: {lacking.count(())} of {len(nodes)} nodes match, taints tolerated")


def _none_of(nodes: list[NodeFacts]) -> str:
    return (
        f"none of {len(nodes)} nodes matches" if nodes else "the cluster has no node that matches"
    )


def _pool(title: str, demand: NodeDemand, gke: GkeCluster | None) -> CheckResult | None:
    try:
        return pool_result(title, demand, gke.describe()) if gke is not None else None
    except GcloudFailed:
        # The check of Google Cloud reports why.
        return None


def _barring(demand: NodeDemand, node: NodeFacts) -> list[Taint]:
    return [
        taint
        for taint in node.taints
        if taint.effect in HARD_EFFECTS and not demand.tolerates([taint])
    ]


def _wanted(demand: NodeDemand) -> str:
    """What the Pod demands of the labels of its node."""
    return " or ".join(", ".join(map(str, term)) for term in demand.alternatives) or "(nothing)"


def _lacking(spec: dict[str, Any], node: NodeFacts) -> tuple[str, ...]:
    """The first resource that the node is too small for, with both amounts. Empty if it fits."""
    for resource in ("cpu", "memory", "ephemeral-storage", GPU):
        amounts = (_amount(one, resource) for one in spec.get("containers") or ())
        wanted = sum(amounts, start=Fraction(0))
        has = quantity(node.allocatable.get(resource, "0"))
        if wanted > has:
            return resource, _shown(wanted), node.allocatable.get(resource, "0")
    return ()


def _amount(container: dict[str, Any], resource: str) -> Fraction:
    given = container.get("resources") or {}
    for kind in ("requests", "limits"):
        if resource in (given.get(kind) or {}):
            return quantity(str(given[kind][resource]))
    return Fraction(0)


def _shown(amount: Fraction) -> str:
    return str(amount.numerator) if amount.denominator == 1 else f"{float(amount):g}"
