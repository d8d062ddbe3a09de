"""Whom the Pods act as, and the role that lets them read their node's expiry."""

from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value, Why

_RBAC = "rbac.authorization.k8s.io"
_READER = "outlast-node-reader"


def service_account_file(settled: Settled) -> RenderedFile:
    metadata: dict[str, Value] = {
        "name": settled.service_account,
        "namespace": settled.namespace,
        "labels": settled.labels,
    }
    reason = "Workload Identity: setup/access.sh grants this account the bucket, without any key."
    if settled.workload.service_account.google is not None:
        metadata["annotations"] = {
            "iam.gke.io/gcp-service-account": settled.workload.service_account.google
        }
        reason = "Workload Identity: Pods act as the Google service account below, without any key."
    body: dict[str, Value] = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    body["automountServiceAccountToken"] = (
        Why(True, "The expiry clock asks the API server about the Pod's own node.")
        if settled.has_lease
        else Why(False, "Nothing in the Pod speaks to the API server.")
    )
    return manifest("20-service-account.yaml", body, reason=reason)


def node_reader_files(settled: Settled) -> list[RenderedFile]:
    """A role to `get` nodes, bound to the account, where a lease's end is to be known."""
    if not settled.has_lease:
        return []
    role: Value = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _READER, "labels": {"app.kubernetes.io/managed-by": "outlast"}},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
    }
    binding: Value = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": f"{settled.namespace}-{settled.service_account}-node-reader",
            "labels": settled.labels,
        },
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _READER},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": settled.service_account,
                "namespace": settled.namespace,
            }
        ],
    }
    reason = (
        "The end of a flex-start lease stands on the Node as the annotation "
        "node.gke.io/machine-termination-datetime. Nodes have no namespace, so this is a "
        "ClusterRole; it reads and no more."
    )
    return [
        manifest("21-cluster-role.yaml", role, reason=reason),
        manifest("22-cluster-role-binding.yaml", binding),
    ]
