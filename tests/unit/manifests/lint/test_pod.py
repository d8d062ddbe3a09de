"""Pods are found in every kind that holds them, and answer with the right types."""

from typing import Any

import pytest
import yaml

from outlast.manifests.lint.kubernetes.pod import Pod, is_within, pods_of
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.reading import read
from outlast.yamltext.source import SourceText

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}


def manifest(data: dict[str, Any] | str) -> KubernetesObject:
    text = data if isinstance(data, str) else yaml.safe_dump(data)
    (root,) = read(text).documents
    return KubernetesObject(SourceText(name="x.yaml", text=text), root)


def pod_of(spec: dict[str, Any], **more: Any) -> Pod:
    data = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec, **more}
    (pod,) = pods_of(manifest(data))
    return pod


def nested(keys: str, value: Any) -> dict[str, Any]:
    for key in reversed(keys.split(".")):
        value = [value] if key == "0" else {key: value}
    return value  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("api_version", "kind", "at", "role"),
    [
        ("apps/v1", "Deployment", "spec.template", ""),
        ("apps/v1", "StatefulSet", "spec.template", ""),
        ("apps/v1", "DaemonSet", "spec.template", ""),
        ("batch/v1", "Job", "spec.template", ""),
        ("batch/v1", "CronJob", "spec.jobTemplate.spec.template", ""),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "spec.replicatedJobs.0.template.spec.template", ""),
        ("ray.io/v1", "RayCluster", "spec.headGroupSpec.template", "head"),
        ("ray.io/v1", "RayCluster", "spec.workerGroupSpecs.0.template", "worker"),
        ("ray.io/v1", "RayJob", "spec.rayClusterSpec.headGroupSpec.template", "head"),
        ("ray.io/v1", "RayService", "spec.rayClusterConfig.workerGroupSpecs.0.template", "worker"),
        ("kubeflow.org/v2beta1", "MPIJob", "spec.mpiReplicaSpecs.Launcher.template", "launcher"),
        ("kubeflow.org/v1", "PyTorchJob", "spec.pytorchReplicaSpecs.Worker.template", "worker"),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "spec.leaderWorkerTemplate.workerTemplate",
            "worker",
        ),
    ],
)
def test_a_pod_template_is_found_where_its_kind_keeps_it(
    api_version: str, kind: str, at: str, role: str
) -> None:
    data = {"apiVersion": api_version, "kind": kind, **nested(at, TEMPLATE)}

    (pod,) = pods_of(manifest(data))

    assert [container.image for container in pod.containers] == ["i:1"]
    assert (pod.owner_kind, pod.role) == (kind, role)
    assert (pod.job is not None) == (kind in ("Job", "CronJob", "JobSet"))


def test_a_kind_of_another_group_is_not_ours() -> None:
    data = {"apiVersion": "example.com/v1", "kind": "Job", **nested("spec.template", TEMPLATE)}

    assert list(pods_of(manifest(data))) == []


def test_a_job_in_a_cron_job_reads_its_own_fields() -> None:
    job = {"spec": {"backoffLimit": 2, "completionMode": "Indexed", "template": TEMPLATE}}
    data = {"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": job}}

    (pod,) = pods_of(manifest(data))

    assert pod.job is not None
    assert pod.job.backoff_limit == 2
    assert pod.job.is_indexed
    assert pod.job.path == ("spec", "jobTemplate")


def test_a_container_knows_its_variables_mounts_and_amounts() -> None:
    container = {
        "name": "c",
        "command": ["python"],
        "args": ["train.py", 3],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {}},
            {"name": "C", "value": 2},
        ],
        "volumeMounts": [
            {"name": "v", "mountPath": "/data"},
            {"name": "w", "mountPath": "/data/deep/", "readOnly": True},
        ],
        "resources": {"limits": {"nvidia.com/gpu": "2"}},
    }
    (found,) = pod_of({"containers": [container]}).containers

    assert found.words == ("python", "train.py")
    assert {name: one.value for name, one in found.variables.items()} == {
        "A": "1",
        "B": None,
        "C": None,
    }
    assert found.amount("nvidia.com/gpu") == 2
    mount = found.mount_of("/data/deep/er")
    assert mount is not None and (mount.volume, mount.is_read_only) == ("w", True)
    assert found.mount_of("/database") is None


def test_a_sidecar_is_an_init_container_that_stays() -> None:
    pod = pod_of({"initContainers": [{"name": "a", "restartPolicy": "Always"}, {"name": "b"}]})

    assert [one.is_sidecar for one in pod.init_containers] == [True, False]


def test_volumes_have_their_kind_and_stateful_sets_bring_claims() -> None:
    template = {
        "spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "csi": {"driver": "d"}}]}
    }
    claims = [{"metadata": {"name": "data"}, "spec": {}}]
    data = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "spec": {"template": template, "volumeClaimTemplates": claims},
    }

    (pod,) = pods_of(manifest(data))

    assert {name: volume.kind for name, volume in pod.volumes.items()} == {
        "a": "emptyDir",
        "b": "csi",
        "data": "volumeClaimTemplate",
    }


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a/", True),
        ("/ab", "/a", False),
        ("/a", "/a/b", False),
        ("/x", "/", True),
        ("//a/./b", "/a/b", True),
    ],
)
def test_a_folder_lies_within_another(inner: str, outer: str, within: bool) -> None:
    assert is_within(inner, outer) is within


def test_what_has_the_wrong_type_reads_as_absent() -> None:
    pod = pod_of({"containers": {"not": "a list"}, "terminationGracePeriodSeconds": "30"})

    assert pod.containers == ()
    assert pod.grace_seconds is None
    assert pod.mapping("spec", "containers", "not") == {}


def test_a_fault_points_into_the_text() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - image: i\n"
    (pod,) = pods_of(manifest(text))
    (container,) = pod.containers

    fault = container.fault("wrong", at=("image",))
    missing = pod.fault("missing", at=("spec", "restartPolicy"))

    assert text[fault.place.start : fault.place.end] == "i"
    assert text[missing.place.start : missing.place.end] == "spec"
