"""What is not judged as the API server would: placeholders, bases, templates of controllers."""

import pytest

from outlast.manifests.lint.validation.objects import refusals
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.reading import read
from outlast.yamltext.source import SourceText

JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  volumeClaimPolicies:
    - templates:
        - metadata: {name: CLAIM}
          spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Ti}}}
  replicatedJobs:
    - name: workers
      template:
        spec:
          completions: 4
          parallelism: 4
          backoffLimitPerIndex: 1
          template:
            spec:
              containers:
                - name: train
                  image: registry.example/trainer:1
                  volumeMounts: [{name: data, mountPath: /data}]
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers: [{name: a, image: "a:1"}]
"""
RAY = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray}
spec:
  headGroupSpec:
    template:
      spec:
        containers:
          - name: ray_head
            volumeMounts: [{name: logs, mountPath: /logs}]
"""


def refused(text: str, *, is_base: bool = False) -> list[tuple[str | int, ...]]:
    (root,) = read(text).documents
    source = SourceText(name="a.yaml", text=text)
    return [one.path for one in refusals(KubernetesObject(source, root, is_base=is_base))]


def test_a_job_set_adds_the_volumes_of_its_claims() -> None:
    assert refused(JOB_SET.replace("CLAIM", "data")) == []
    (path,) = refused(JOB_SET.replace("CLAIM", "other"))
    assert path[-3:] == ("volumeMounts", 0, "name")


def test_a_job_set_makes_its_jobs_indexed_and_restarts_them_on_failure() -> None:
    text = JOB_SET.replace("CLAIM", "data")
    changed = text.replace("completions: 4", "completionMode: NonIndexed")

    assert [path[-1] for path in refused(changed)] == ["backoffLimitPerIndex"]


@pytest.mark.parametrize("name", ["${NAME}", "<name>", "MY_POD", "NAME", "{{name}}"])
def test_a_placeholder_is_not_judged(name: str) -> None:
    assert refused(POD.replace("NAME", f'"{name}"')) == []


def test_a_base_of_kustomize_may_lack_what_an_overlay_adds() -> None:
    text = POD.replace("NAME", "a_b").replace(', image: "a:1"', "")

    assert refused(text) == [("metadata", "name"), ("spec", "containers", 0, "image")]
    assert refused(text, is_base=True) == [("metadata", "name")]


def test_a_controller_may_complete_its_templates() -> None:
    (path,) = refused(RAY)

    assert path[-2:] == (0, "name")


def test_a_removed_version_is_left_to_its_own_rule() -> None:
    assert refused("apiVersion: apps/v1beta1\nkind: Deployment\nspec: {replicas: -1}\n") == []
