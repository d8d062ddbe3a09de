"""A controller, monitoring service or queue runs as a single replica on Spot.

Why: the service that restarts evicted work, scales nodes, sends alerts or stores the queue is
needed most when nodes are reclaimed, and it is reclaimed along with them. Until it is back, evicted
Pods are not replaced, Jobs are not admitted and alerts are not sent.
Instead: run it on an on-demand node (cloud.google.com/gke-provisioning: standard), or run a second
replica if it supports that.
"""

import re
from collections.abc import Iterator

from outlast.manifests.rules.api import Container, Fault, Pod, Review, Severity, pod_rule

_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "Pod", "Rollout")
# The last part of the image name, as published by each project.
_IMAGES = re.compile(
    r"""(?:
    .*-(?:operator|controller|controller-manager|autoscaler)
    | operator | kueue | jobset | lws | manager
    | prometheus | alertmanager | grafana | thanos | victoria-metrics | kube-state-metrics | loki
    | metrics-server | keda | keda-metrics-apiserver | external-dns | argocd | workflow-controller
    | airflow | mlflow | temporal-server | prefect
    | etcd | postgres | postgresql | mysql | mariadb | redis | valkey | rabbitmq | kafka | nats
    | zookeeper | mongo
    )""",
    re.VERBOSE,
)
_CLIENTS = frozenset(("bash", "cat", "mysql", "psql", "redis-cli", "sh", "sleep", "tail"))
_LEADER_FLAG = re.compile(r"--?(?:enable-)?leader-elect(?:ion)?(?:=true)?")


@pod_rule("OL202", Severity.WARNING)
def controller_on_spot(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.owner_kind not in _KINDS or not review.placement(pod).includes_spot:
        return
    if (pod.manifest.integer("spec", "replicas") or 1) > 1:
        return
    found = next((one for one in pod.containers if _is_controller(one)), None)
    if found is not None:
        yield found.fault(
            f"{pod.manifest} has one replica and may run on Spot: it is unavailable whenever its "
            "node is reclaimed.",
            at=("image",),
        )


def _is_controller(container: Container) -> bool:
    if any(map(_LEADER_FLAG.fullmatch, container.words)):
        return True
    image = (container.image or "").partition("@")[0]
    name = image.rpartition("/")[2].partition(":")[0]
    program = next(iter(container.listed("command")), None)
    # If another program is started, the image is used as a client, such as an interactive shell.
    is_client = isinstance(program, str) and program.rpartition("/")[2] in _CLIENTS
    return bool(_IMAGES.fullmatch(name)) and not is_client
