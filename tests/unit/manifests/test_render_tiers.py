"""Where rendered Pods run, for every tier: selectors, tolerations, pools, clocks, grace."""

from datetime import timedelta

import pytest

from outlast.capacity.vocabulary import Tier
from outlast.interruption.node import ANNOTATION
from outlast.manifests.render.resolved import resolve_workload
from tests.unit.manifests.render_cases import (
    CASES,
    MINIMAL,
    case,
    rendered,
    workload,
)

SPOT_KEY = "cloud.google.com/gke-spot"


@pytest.mark.parametrize("name", CASES)
def test_tolerations_are_the_taints_of_the_pool_and_no_others(name: str) -> None:
    text, overrides = CASES[name]
    resolved = resolve_workload(
        workload(text, **{k.replace(".", "__"): v for k, v in overrides.items()})
    )

    tolerations = case(name).pod.get("tolerations", [])

    taints = resolved.pool.taints if resolved.pool else ()
    expected = {(t.key, t.value, str(t.effect)) for t in taints}
    if resolved.is_queued:
        expected.add(("cloud.google.com/gke-queued", "true", "NoSchedule"))
    assert {(t["key"], t["value"], t["effect"]) for t in tolerations} == expected
    assert all(t["operator"] == "Equal" for t in tolerations)


@pytest.mark.parametrize("name", [name for name in CASES if "flex" in name or "kueue" in name])
def test_flex_start_knows_nothing_of_spot_and_hears_its_clock(name: str) -> None:
    rendering = case(name)

    assert SPOT_KEY not in str(list(rendering.objects.values()))
    assert rendering.env["OUTLAST_NODE_NAME"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert rendering.env["OUTLAST_MAX_RUN_SECONDS"] == "604800"
    assert rendering.env["OUTLAST_STAY_UNTIL_SHUTDOWN"] == "1"
    assert rendering.pod.get("automountServiceAccountToken", True) is True
    assert rendering.one("ServiceAccount")["automountServiceAccountToken"] is True
    role, binding = rendering.one("ClusterRole"), rendering.one("ClusterRoleBinding")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    [subject] = binding["subjects"]
    account = rendering.one("ServiceAccount")["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    assert subject["name"] == rendering.pod["serviceAccountName"]


def test_the_annotation_named_in_the_role_is_the_one_that_is_read() -> None:
    assert ANNOTATION in case("training-flex-start").text("21-cluster-role.yaml")


def test_without_a_lease_nothing_may_speak_to_the_api_server() -> None:
    rendering = case("training")

    assert rendering.all("ClusterRole") == []
    assert rendering.pod["automountServiceAccountToken"] is False
    assert "OUTLAST_STAY_UNTIL_SHUTDOWN" not in rendering.env


def test_spot_is_selected_not_only_tolerated() -> None:
    selector = case("training").pod["nodeSelector"]

    assert selector == {SPOT_KEY: "true", "cloud.google.com/gke-accelerator": "nvidia-l4"}


def test_on_demand_stays_off_every_node_that_is_taken_away() -> None:
    pod = case("serving").pod

    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    assert {e["key"] for e in term["matchExpressions"]} == {
        SPOT_KEY,
        "cloud.google.com/gke-preemptible",
        "cloud.google.com/gke-flex-start",
    }
    assert {e["operator"] for e in term["matchExpressions"]} == {"DoesNotExist"}


def test_a_hybrid_is_a_compute_class_with_ordered_priorities() -> None:
    rendering = case("training-hybrid")

    compute_class = rendering.one("ComputeClass")
    spot, flex, on_demand = compute_class["spec"]["priorities"]
    assert (spot["spot"], "flexStart" in spot) == (True, False)
    assert flex["flexStart"] == {"enabled": True, "nodeRecycling": {"leadTimeSeconds": 3600}}
    assert ("spot" in flex, flex["maxRunDurationSeconds"]) == (False, 604_800)
    assert (on_demand["spot"], "flexStart" in on_demand) == (False, False)
    assert rendering.pod["nodeSelector"] == {
        "cloud.google.com/compute-class": compute_class["metadata"]["name"]
    }
    assert not [file for file in rendering.files if "node-pool" in file.path]
    assert rendering.env["OUTLAST_NODE_NAME"]
    assert "OUTLAST_MAX_RUN_SECONDS" not in rendering.env


def test_a_hybrid_without_accelerators_skips_flex_start() -> None:
    rendering = case("training-hybrid-cpu")

    first, second = rendering.one("ComputeClass")["spec"]["priorities"]
    assert (first["spot"], second["spot"]) == (True, False)
    assert rendering.all("ClusterRole") == []


def test_the_order_and_the_lead_of_a_hybrid_can_be_set() -> None:
    rendering = rendered(
        tier="hybrid", hybrid__order="[flex-start, on-demand]", hybrid__recycle_lead="30m"
    )

    flex, on_demand = rendering.one("ComputeClass")["spec"]["priorities"]
    assert flex["flexStart"]["nodeRecycling"] == {"leadTimeSeconds": 1800}
    assert on_demand["spot"] is False
    assert rendering.pod["terminationGracePeriodSeconds"] == 120


@pytest.mark.parametrize("name", [name for name in CASES if "autopilot" in name])
def test_autopilot_gets_no_pools_and_no_tolerations(name: str) -> None:
    rendering = case(name)

    assert not [file for file in rendering.files if "node-pool" in file.path]
    assert "tolerations" not in rendering.pod and "affinity" not in rendering.pod


@pytest.mark.parametrize("name", CASES)
def test_nothing_exceeds_what_a_reclaimed_node_gives(name: str) -> None:
    text, overrides = CASES[name]
    resolved = resolve_workload(
        workload(text, **{k.replace(".", "__"): v for k, v in overrides.items()})
    )

    grace = case(name).pod["terminationGracePeriodSeconds"]

    if resolved.can_be_reclaimed:
        assert grace <= (105 if "window" in name else 15)


def test_the_long_window_gives_105_seconds_and_the_pool_asks_for_it() -> None:
    rendering = case("training-window")

    assert rendering.pod["terminationGracePeriodSeconds"] == 105
    assert rendering.env["OUTLAST_GRACE_SECONDS"] == "105"
    assert "--system-config-from-file=" in rendering.text("setup/node-pool.sh")
    assert "shutdownGracePeriodSeconds: 120" in rendering.text("setup/system-config.yaml")
    assert "shutdown_grace_period_seconds = 120" in rendering.text("setup/node-pool.tf")


def test_uninterruptible_training_is_flex_start_and_is_left_in_place() -> None:
    rendering = case("training-uninterruptible")

    assert rendering.pod["nodeSelector"]["cloud.google.com/gke-flex-start"] == "true"
    annotations = rendering.templates[0]["metadata"]["annotations"]
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_a_listed_pool_decides_taints_labels_and_machine() -> None:
    pools = (
        "[{name: cheap, tier: spot, machine: g2-standard-24, labels: {team: vision},"
        " taints: [{key: provisioning-tier, value: preemptible}]}]"
    )
    rendering = rendered(cluster__pools=pools)

    [toleration] = rendering.pod["tolerations"]
    assert (toleration["key"], toleration["value"]) == ("provisioning-tier", "preemptible")
    assert rendering.pod["nodeSelector"]["team"] == "vision"
    assert rendering.pod["nodeSelector"][SPOT_KEY] == "true"
    assert "create cheap" in rendering.text("setup/node-pool.sh")


def test_a_pool_that_exists_is_not_created() -> None:
    rendering = rendered(cluster__pools="[{name: cheap, tier: spot, exists: true}]")

    assert not [file for file in rendering.files if "node-pool" in file.path]


def test_automatic_means_by_the_rules() -> None:
    assert resolve_workload(workload()).tier is Tier.SPOT
    assert resolve_workload(workload(deadline="72h")).tier is Tier.HYBRID
    assert resolve_workload(workload(deadline="72h")).workload.deadline == timedelta(hours=72)
    assert MINIMAL.count("\n") <= 10
