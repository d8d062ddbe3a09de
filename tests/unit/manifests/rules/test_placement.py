"""Taints, selectors and labels: where these rules must stay silent, and what they mend."""

import json
from typing import Any

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.kubernetes.vocabulary import meant_accelerator, meant_key, meant_value
from tests.unit.manifests.lint.linted import fixed, lines, manifest, only, report

PREFIX = "cloud.google.com/"
SELECTOR = "  nodeSelector: {{{}}}\n"
TOLERATIONS = "  tolerations: [{}]\n"


def pod(spec: str = "") -> str:
    return manifest("v1", "Pod", f"spec:\n{spec}  containers: [{{name: a, image: 'a:1'}}]\n")


def found(code: str, spec: str, *, pools_sh: str = "", pools_json: str = "[]") -> list[Any]:
    return lines(report(pod(spec), pools_sh=pools_sh, pools_json=pools_json), code)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gke-spot", "gke-spot"),
        ("google.com/gke-nodepool", "gke-nodepool"),
        (PREFIX + "spot", "gke-spot"),
        (PREFIX + "gke-sopt", "gke-spot"),
        (PREFIX + "gke-Spot", "gke-spot"),
        (PREFIX + "gke_spot", "gke-spot"),
        (PREFIX + "gke-node-pool", "gke-nodepool"),
        (PREFIX + "gke-flexstart", "gke-flex-start"),
        (PREFIX + "gke-flex", "gke-flex-start"),
        (PREFIX + "gke-preemptable", "gke-preemptible"),
        (PREFIX + "gke-compute-class", "compute-class"),
        (PREFIX + "gke-accelerators", "gke-accelerator"),
        (PREFIX + "gke-gpu-type", "gke-accelerator"),
        (PREFIX + "gke-max-run-duration", "gke-max-run-duration-seconds"),
    ],
)
def test_a_near_miss_leads_back_to_the_label(key: str, meant: str) -> None:
    assert meant_key(key) == PREFIX + meant


@pytest.mark.parametrize(
    "key",
    [
        PREFIX + "gke-spot",
        PREFIX + "compute-class",
        PREFIX + "machine-family",
        PREFIX + "gke-boot-disk",
        PREFIX + "gke-tpu-slice",
        PREFIX + "gke-metadata-server-enabled",
        PREFIX + "gke-tpu-partition-4x4x4-id",
        PREFIX + "${LABEL}",
        "iam.gke.io/gke-metadata-server-enabled",
        "example.com/compute-class",
        "spot",
        "accelerator",
        "a" * 500,
    ],
)
def test_other_labels_are_left_alone(key: str) -> None:
    assert meant_key(key) is None


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("nvidia-l4", None),
        ("nvidia-tesla-l4", "nvidia-l4"),
        ("L4", "nvidia-l4"),
        ("nvidia-h100", "nvidia-h100-80gb"),
        ("nvidia-a100", "nvidia-tesla-a100"),
        ("nvidia-telsa-t4", "nvidia-tesla-t4"),
        ("nvidia-h100-80g", "nvidia-h100-80gb"),
        # What may be new is not ours to correct.
        ("nvidia-l40s", None),
        ("nvidia-b400", None),
        ("nvidia-gb400", None),
        ("nvidia-h100-96gb", None),
        ("amd-mi300x", None),
        ("<GPU_TYPE>", None),
    ],
)
def test_an_accelerator_is_known_by_its_name_and_its_numbers(given: str, meant: str | None) -> None:
    assert meant_accelerator(given) == meant


@pytest.mark.parametrize(
    ("key", "given", "meant"),
    [
        ("gke-spot", "True", "true"),
        ("gke-flex-start", "yes", "true"),
        ("gke-spot", "true", None),
        ("gke-provisioning", "Spot", "spot"),
        ("gke-provisioning", "on-demand", "standard"),
        ("gke-provisioning", "flex_start", "flex-start"),
        ("gke-provisioning", "standard", None),
        ("gke-provisioning", "reservation", None),
        ("gke-nodepool", "Spot", None),
    ],
)
def test_a_value_is_held_against_those_there_are(key: str, given: str, meant: str | None) -> None:
    assert meant_value(PREFIX + key, given) == meant


def test_a_label_that_a_pool_has_is_no_mistake() -> None:
    spec = SELECTOR.format('gke-spot: "true"')
    pools = "gcloud container node-pools create a --node-labels=gke-spot=true\n"

    assert found("OL504", spec) != []
    assert found("OL504", spec, pools_sh=pools) == []


def test_a_flag_of_gke_is_never_false() -> None:
    excluded = (
        "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "{nodeSelectorTerms: [{matchExpressions: [{key: cloud.google.com/gke-spot, "
        "operator: NotIn, values: ['false']}]}]}}}\n"
    )
    finding = only(report(pod(SELECTOR.format(PREFIX + 'gke-spot: "false"'))), "OL504")

    assert "DoesNotExist" in finding.hint
    assert found("OL504", excluded) == []


def test_a_misspelt_word_is_corrected_where_it_stands() -> None:
    text = pod(SELECTOR.format('cloud.google.com/gke-sopt: "True"'))

    assert fixed(text, unsafe=True, options=LintOptions(select=("OL504",))) == pod(
        SELECTOR.format('cloud.google.com/gke-spot: "true"')
    )


def test_flavors_and_classes_speak_of_nodes_too() -> None:
    flavor = manifest(
        "kueue.x-k8s.io/v1beta1",
        "ResourceFlavor",
        'spec:\n  nodeLabels:\n    cloud.google.com/gke-spott: "true"\n'
        "  tolerations:\n  - {key: cloud.google.com/gke-spto, operator: Exists}\n",
    )
    compute_class = manifest(
        "cloud.google.com/v1",
        "ComputeClass",
        "spec:\n  priorities:\n  - gpu: {type: nvidia-tesla-l4, count: 1}\n    spot: true\n",
    )

    assert lines(report(flavor), "OL504") == [("OL504", 6), ("OL504", 8)]
    assert lines(report(compute_class), "OL504") == [("OL504", 6)]


@pytest.mark.parametrize(
    ("toleration", "words"),
    [
        ("{key: a, operator: Exists, value: b}", "does not allow a value"),
        ("{effect: NoSchedule}", "has no key"),
        ("{value: b}", "has no key"),
        ("{key: a, effect: NoSchedule, tolerationSeconds: 5}", "requires the effect NoExecute"),
        ("{key: a, operator: Is}", "'Is' is not a valid operator"),
        ("{key: a, operator: Exists, effect: Never}", "'Never' is not a valid effect"),
        ("{key: 'a=b', operator: Exists}", "is not a valid key"),
        ("{key: a, value: 'b:NoSchedule'}", "is not a valid value"),
    ],
)
def test_a_toleration_is_refused_for_what_the_server_refuses(toleration: str, words: str) -> None:
    assert words in only(report(pod(TOLERATIONS.format(toleration))), "OL505").message


@pytest.mark.parametrize(
    "toleration",
    [
        "{operator: Exists}",
        "{key: a}",
        "{key: a, value: ''}",
        "{key: a, operator: Exists, value: ''}",
        "{key: example.com/a.b_c, value: x, effect: NoExecute, tolerationSeconds: 0}",
        "{key: $KEY, value: '<value>'}",
        "{key: a, operator: Gt, value: '5'}",
    ],
)
def test_a_toleration_that_works_is_left_alone(toleration: str) -> None:
    assert found("OL505", TOLERATIONS.format(toleration)) == []


@pytest.mark.parametrize(
    ("labels", "is_flagged"),
    [
        ('cloud.google.com/gke-flex-start: "true", cloud.google.com/gke-spot: "true"', True),
        ('cloud.google.com/gke-flex-start: "true", cloud.google.com/gke-provisioning: spot', True),
        ('cloud.google.com/gke-flex-start: "true"', False),
        (
            'cloud.google.com/gke-flex-start: "true", '
            "cloud.google.com/gke-provisioning: flex-start",
            False,
        ),
    ],
)
def test_a_node_is_flex_start_or_spot(labels: str, is_flagged: bool) -> None:
    assert bool(found("OL506", SELECTOR.format(labels))) is is_flagged


POOL = "gcloud container node-pools create gpu --spot --node-taints=a=b:{}\n"
BY_NAME = SELECTOR.format("cloud.google.com/gke-nodepool: gpu")


@pytest.mark.parametrize(
    ("spec", "pools", "is_flagged"),
    [
        (BY_NAME, POOL.format("NoSchedule"), True),
        (BY_NAME, POOL.format("NoExecute"), True),
        (BY_NAME, POOL.format("PreferNoSchedule"), False),
        (BY_NAME + TOLERATIONS.format("{key: a, value: b}"), POOL.format("NoSchedule"), False),
        (BY_NAME + TOLERATIONS.format("{key: a, value: c}"), POOL.format("NoSchedule"), True),
        (BY_NAME, POOL.format("NoSchedule").replace("a=b", "nvidia.com/gpu=present"), False),
        (BY_NAME, POOL.format("NoSchedule").replace("a=b", "$TAINT"), False),
        ("", POOL.format("NoSchedule"), False),
        # Another pool of the same kind lets it in.
        (
            SELECTOR.format('cloud.google.com/gke-spot: "true"'),
            POOL.format("NoSchedule") + "gcloud container node-pools create open --spot\n",
            False,
        ),
    ],
)
def test_a_pod_tolerates_what_its_pool_is_tainted_with(
    spec: str, pools: str, is_flagged: bool
) -> None:
    assert bool(found("OL507", spec, pools_sh=pools)) is is_flagged


def test_autopilot_tolerates_what_it_taints() -> None:
    text, pools = pod(BY_NAME), POOL.format("NoSchedule")
    found_there = report(text, pools_sh=pools, options=LintOptions(is_autopilot=True))

    assert lines(found_there, "OL507") == []


@pytest.mark.parametrize("more", ["", TOLERATIONS.format("{key: x, operator: Exists}")])
def test_the_toleration_that_is_missing_can_be_added(more: str) -> None:
    text = pod(BY_NAME + more)
    pools = POOL.format("NoSchedule")
    finding = only(report(text, pools_sh=pools), "OL507")

    assert finding.fault.fix is not None and not finding.fault.fix.is_safe
    toleration = {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
    (change,) = finding.fault.fix.changes
    value = getattr(change, "value", None)
    assert value == (toleration if more else [toleration])


def listed(*pools: dict[str, object]) -> str:
    config = {"machineType": "g2-standard-24"}
    return json.dumps([{"config": config, "instanceGroupUrls": [], **pool} for pool in pools])


NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": {}}


@pytest.mark.parametrize(
    ("labels", "is_flagged"),
    [
        ("cloud.google.com/gke-nodepool: other", True),
        ("cloud.google.com/gke-nodepool: gpu", False),
        ("team: vision", True),
        ("topology.kubernetes.io/zone: us-central1-a", False),
        ('cloud.google.com/gke-spot: "true"', False),
        ("cloud.google.com/gke-nodepool: $POOL", False),
    ],
)
def test_a_pool_is_missed_only_where_all_are_known(labels: str, is_flagged: bool) -> None:
    spec = SELECTOR.format(labels)

    assert bool(found("OL508", spec, pools_json=listed({"name": "gpu"}))) is is_flagged
    # A script may have made only some, and `kubectl get nodes` shows none that is scaled to zero.
    assert found("OL508", spec, pools_sh="gcloud container node-pools create gpu\n") == []
    assert found("OL508", spec, pools_json=json.dumps(NODE)) == []


def test_the_pool_that_was_meant_is_named() -> None:
    text = pod(SELECTOR.format("cloud.google.com/gke-nodepool: spot-14"))

    finding = only(report(text, pools_json=listed({"name": "spot-l4"})), "OL508")

    assert finding.hint == "Did you mean 'spot-l4'?"


def test_one_of_several_pools_is_enough() -> None:
    spec = (
        "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "{nodeSelectorTerms: [{matchExpressions: [{key: cloud.google.com/gke-nodepool, "
        "operator: In, values: [gone, gpu]}]}]}}}\n"
    )

    assert found("OL508", spec, pools_json=listed({"name": "gpu"})) == []
    assert found("OL508", spec, pools_json=listed({"name": "other"})) != []


def test_the_tier_is_left_to_the_class() -> None:
    both = 'cloud.google.com/compute-class: {}, cloud.google.com/gke-spot: "true"'
    text = pod(SELECTOR.format(both.format("mine")))

    assert lines(report(text), "OL509") != []
    assert "gke-spot" not in fixed(text, unsafe=True, options=LintOptions(select=("OL509",)))
    for name in ("Scale-Out", "Balanced", "autopilot"):
        assert found("OL509", SELECTOR.format(both.format(name))) == []


@pytest.mark.parametrize(("value", "is_flagged"), [(-11, True), (-10, False), (0, False)])
def test_a_priority_below_minus_ten_gets_no_node(value: int, is_flagged: bool) -> None:
    text = manifest("scheduling.k8s.io/v1", "PriorityClass", f"value: {value}\n")

    assert bool(lines(report(text), "OL510")) is is_flagged
    assert lines(report(text, options=LintOptions(is_autopilot=True)), "OL510") == []


def test_an_empty_term_harms_only_where_there_is_no_other() -> None:
    affinity = (
        "  affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: "
        "{{nodeSelectorTerms: {}}}}}}}\n"
    )
    field = "{matchFields: [{key: metadata.name, operator: In, values: [n]}]}"

    assert len(found("OL512", affinity.format("[{}, {}]"))) == 2
    assert found("OL512", affinity.format("[]")) != []
    assert found("OL512", affinity.format(f"[{{}}, {field}]")) == []
    assert found("OL512", affinity.format("nothing")) == []


TRAIN_JOB = manifest(
    "trainer.kubeflow.org/v1alpha1",
    "TrainJob",
    "spec:\n  runtimeRef: {name: torch}\n"
    "  trainer: {numNodes: 2, resourcesPerNode: {limits: {nvidia/gpu: 1}}}\n"
    "  podTemplateOverrides:\n    - targetJobs: [{name: node}]\n"
    "      spec: {nodeSelector: {cloud.google.com/gke-spot: true}}\n",
)


def test_a_misspelled_resource_is_found_outside_pod_templates() -> None:
    assert lines(report(TRAIN_JOB), "OL514") == [("OL514", 6)]
    assert "nvidia.com/gpu: 1" in fixed(TRAIN_JOB, unsafe=True)


def test_a_boolean_selector_is_found_in_a_part_of_a_pod_template() -> None:
    assert lines(report(TRAIN_JOB), "OL503") == [("OL503", 9)]
    # A part has fields of its own, which are not judged.
    assert lines(report(TRAIN_JOB), "OL601") == []
