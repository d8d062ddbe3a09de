"""What the doctor finds out about Kueue's admission checks."""

from typing import Any, cast

import pytest

from outlast.cluster.checks.queues import check_queues
from outlast.cluster.checks.result import CheckOutcome, Subject
from outlast.cluster.resources import Object, Resource
from outlast.manifests.conventions import QUEUE_LABEL

JOB = {"kind": "Job", "metadata": {"name": "tiny", "labels": {QUEUE_LABEL: "q"}}}


class Queues:
    """A cluster with a queue whose check requests nodes. `served` are more kinds of it."""

    def __init__(self, *served: str) -> None:
        self._served = {"LocalQueue", "ClusterQueue", "AdmissionCheck", *served}

    def find(self, api_version: str, kind: str) -> Resource | None:
        found = Resource(api_version=api_version, kind=kind, plural=kind.lower())
        return found if kind in self._served and "beta" in api_version else None

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        active = {"conditions": [{"type": "Active", "status": "True"}]}
        checks = {"admissionChecks": [{"name": "nodes"}]}
        specs: dict[str, Any] = {
            "LocalQueue": {"clusterQueue": "c"},
            "ClusterQueue": {"admissionChecksStrategy": checks},
            "AdmissionCheck": {"controllerName": "kueue.x-k8s.io/provisioning-request"},
        }
        return {"spec": specs[resource.kind], "status": active}


@pytest.mark.parametrize(
    ("served", "outcome"),
    [((), CheckOutcome.FAIL), (("ProvisioningRequest",), CheckOutcome.OK)],
)
def test_a_check_that_requests_nodes_needs_provisioning_requests(
    served: tuple[str, ...], outcome: CheckOutcome
) -> None:
    subject = Subject(cluster=cast("Any", Queues(*served)), namespace="team-a", objects=(JOB,))

    [result] = check_queues(subject)

    assert result.outcome is outcome
    assert ("ProvisioningRequests, which the cluster does not serve" in result.text) is (not served)
