"""A controller, a monitor or a queue with a single replica on Spot.

Why: what restarts evicted work, scales the nodes, raises the alarm or holds the queue must be there
when nodes are reclaimed, and it is reclaimed with them. Then evicted Pods are not replaced, Jobs
are not admitted, and nobody is told.
Instead: keep it on an on-demand node (cloud.google.com/gke-provisioning: standard), or give it a
second replica where it can have one.
"""

import re
from collections.abc import Iterator

from outlast.manifests.lint.pod import Container, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "Pod", "Rollout")
# The last part of an image's name, as their projects publish them.
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
    if pod.owner_kind not in _KINDS or not review.aim(pod).includes_spot:
        return
    if (pod.manifest.integer("spec", "replicas") or 1) > 1:
        return
    found = next((one for one in pod.containers if _is_controller(one)), None)
    if found is not None:
        yield found.fault(
            f"{pod.manifest} has one replica and may run on Spot; what it looks after is left "
            "alone whenever its node is reclaimed.",
            at=("image",),
        )


def _is_controller(container: Container) -> bool:
    if any(map(_LEADER_FLAG.fullmatch, container.words)):
        return True
    image = (container.image or "").partition("@")[0]
    name = image.rpartition("/")[2].partition(":")[0]
    program = next(iter(container.listed("command")), None)
    # Started with another program, the image is a client: a shell that somebody works in.
    is_client = isinstance(program, str) and program.rpartition("/")[2] in _CLIENTS
    return bool(_IMAGES.fullmatch(name)) and not is_client
