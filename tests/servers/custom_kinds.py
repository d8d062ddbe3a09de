"""Kinds that Kueue, JobSet and GKE define, for a real API server: schemas that accept anything."""

from functools import partial

from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.errors import ApiRefusal
from outlast.cluster.resources import Object, Query, Resource
from tests.patience import eventually

CRDS = Resource(
    api_version="apiextensions.k8s.io/v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    is_namespaced=False,
)
WORKLOADS = Resource(api_version="kueue.x-k8s.io/v1beta1", kind="Workload", plural="workloads")


def define(admin: ClusterClient, *resources: Resource, has_status: bool = True) -> None:
    """Define the kinds and wait until they are served.

    `has_status`: the status can be written only as a subresource, as by a controller.
    """
    for resource in resources:
        admin.apply(CRDS, _definition(resource, has_status=has_status))
    for resource in resources:
        eventually(partial(_is_served, admin, resource), f"{resource.kind} is served")


def _definition(resource: Resource, *, has_status: bool) -> Object:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.api_version.rpartition("/")[2],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
        **({"subresources": {"status": {}}} if has_status else {}),
    }
    group, kind = resource.group, resource.kind
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {
            "name": f"{resource.plural}.{group}",
            # Groups of k8s.io are protected; this says that the definition is no official one.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": resource.plural, "singular": kind.lower()},
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "versions": [version],
        },
    }


def _is_served(admin: ClusterClient, resource: Resource) -> bool:
    try:
        list(admin.list(Query(resource=resource)))
        return True
    except ApiRefusal:
        return False
