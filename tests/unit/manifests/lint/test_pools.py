"""Node pools are read from scripts, Terraform, exports and workload files."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.manifests.lint.engine.files import InputFile
from outlast.manifests.lint.engine.loading import load
from outlast.manifests.lint.pools.gcloud import read_script
from outlast.manifests.lint.pools.hcl import UNKNOWN, read_hcl
from outlast.manifests.lint.pools.model import ClusterCapacity, NodePool, NodeTier, joined
from outlast.manifests.lint.pools.shell import commands
from outlast.manifests.lint.pools.terraform import read_terraform
from outlast.manifests.lint.scheduling import Taint
from outlast.yamltext.source import SourceText

DEDICATED = Taint(key="dedicated", value="spot", effect="NoSchedule")


def script(text: str) -> ClusterCapacity:
    return read_script(SourceText(name="pools.sh", text=text))


def terraform(*texts: str) -> ClusterCapacity:
    return joined(read_terraform(SourceText(name="main.tf", text=text) for text in texts).values())


def exported(text: str) -> ClusterCapacity:
    return load(InputFile(name="pools.json", path=Path("pools.json"), data=text.encode())).capacity


def only(capacity: ClusterCapacity) -> NodePool:
    (pool,) = capacity.pools
    return pool


SCRIPT = """\
#!/bin/sh
set -eu
POOL=spot-gpu; export TAINT="dedicated=spot"
cat > config.yaml <<'EOF'
gcloud container node-pools create not-this-one --spot
EOF
# gcloud container node-pools create nor-this --spot
if true; then
  gcloud beta container node-pools create "$POOL" \\
    --cluster ${CLUSTER:-lab} \\
    --spot --enable-autoscaling --num-nodes=1 --max-nodes 6 \\
    --machine-type=g2-standard-24 \\
    --accelerator type=nvidia-l4,count=2 \\
    --node-labels=team=ml,env=prod \\
    --node-taints="$TAINT":NoSchedule,other:NoExecute && echo done
fi
"""


def test_a_script_is_followed_through_variables_and_continued_lines() -> None:
    pool = only(script(SCRIPT))

    assert (pool.name, pool.tier) == ("spot-gpu", NodeTier.SPOT)
    assert pool.taints == (DEDICATED, Taint(key="other", effect="NoExecute"))
    assert pool.labels == {"team": "ml", "env": "prod"}
    assert (pool.machine_type, pool.nodes_max) == ("g2-standard-24", 6)
    assert (pool.accelerator, pool.accelerator_count) == ("nvidia-l4", 2)


def test_a_flag_of_a_script_has_its_place() -> None:
    pool = only(script(SCRIPT))

    for aspect, text in (("tier", "--spot"), ("max-nodes", "--max-nodes")):
        place = pool.places[aspect]
        assert SCRIPT[place.start : place.end] == text
        assert place.source.position(place.start)[0] == 11
    assert SCRIPT[pool.place.start : pool.place.end] == '"$POOL"'


@pytest.mark.parametrize(
    ("flags", "tier"),
    [
        ("--spot", NodeTier.SPOT),
        ("--preemptible", NodeTier.SPOT),
        ("--flex-start --max-run-duration=7d", NodeTier.FLEX_START),
        ("--enable-queued-provisioning", NodeTier.FLEX_START),
        ("--num-nodes=3", NodeTier.ON_DEMAND),
    ],
)
def test_the_flags_tell_the_tier(flags: str, tier: NodeTier) -> None:
    assert only(script(f"gcloud container node-pools create a {flags}")).tier is tier


def test_the_longest_life_of_a_node_is_known() -> None:
    flex = only(script("gcloud container node-pools create a --flex-start --max-run-duration 2d"))
    body = 'node_config {\n flex_start = true\n max_run_duration = "3600s"\n }'
    block = f'resource "google_container_node_pool" "a" {{\n {body} \n}}'
    config = {"machineType": "a", "flexStart": True, "maxRunDuration": "60s"}

    assert flex.run_seconds_max == 172_800
    assert only(terraform(block)).run_seconds_max == 3600
    assert only(exported(json.dumps({"name": "a", "config": config}))).run_seconds_max == 60
    assert only(script("gcloud container node-pools create a")).run_seconds_max is None


def test_taints_from_elsewhere_are_not_known() -> None:
    pool = only(script("gcloud container node-pools create a --spot --node-taints=$FROM_OUTSIDE"))

    assert not pool.knows_taints


def test_a_cluster_has_a_default_pool_or_is_autopilot() -> None:
    standard = script("gcloud container clusters create lab --spot")
    autopilot = script("gcloud container clusters create-auto lab")

    assert (only(standard).tier, standard.is_autopilot) == (NodeTier.SPOT, False)
    assert (autopilot.pools, autopilot.is_autopilot) == ((), True)


def test_words_are_cut_as_a_shell_cuts_them() -> None:
    text = 'a \'b c\' "d\\"$X" e\\ f $(g h) \\\n i; X=1 && echo ${X}${Y:-2}$Z\n'

    words = [[word.text for word in command] for command in commands(text)]

    assert words == [["a", "b c", 'd"$X', "e f", "$(g h)", "i"], ["X=1"], ["echo", "12$Z"]]


@given(st.text(alphabet="ab =$(){}<>'\"\\\n;&|#-", max_size=80))
def test_any_script_is_read(text: str) -> None:
    for command in commands(text):
        for word in command:
            assert 0 <= word.start < word.end <= len(text)
    script("gcloud container node-pools create " + text)


MAIN_TF = """\
# resource "google_container_node_pool" "commented" {}
resource "google_container_node_pool" "spot" {
  name    = "spot-gpu"
  cluster = google_container_cluster.lab.id
  autoscaling {
    min_node_count = 0
    max_node_count = var.limit
  }
  node_config {
    spot         = true
    machine_type = "g2-standard-24"
    labels = {
      team  = "ml"
      "env" : "prod"
      made  = "${local.by}"
    }
    guest_accelerator {
      type  = "nvidia-l4"
      count = 2
    }
    taint {
      key    = "dedicated"
      value  = "spot"
      effect = "NO_SCHEDULE"
    }
    oauth_scopes = concat(["a"], local.scopes)
    metadata = merge({
      a = 1
    }, { b = 2 })
  }
}

resource "google_container_cluster" "lab" {
  enable_autopilot = false
}
"""
VARIABLES_TF = 'variable "limit" {\n  type    = number\n  default = 6\n}\n'


def test_terraform_is_read_with_the_variables_of_its_folder() -> None:
    capacity = terraform(MAIN_TF, VARIABLES_TF)

    pool = only(capacity)
    assert (pool.name, pool.tier, pool.nodes_max) == ("spot-gpu", NodeTier.SPOT, 6)
    assert pool.taints == (DEDICATED,)
    assert pool.labels == {"team": "ml", "env": "prod"}
    assert (pool.accelerator, pool.accelerator_count) == ("nvidia-l4", 2)
    assert capacity.is_autopilot is False
    place = pool.places["tier"]
    assert MAIN_TF[place.start : place.end] == "spot"
    assert place.source.position(place.start) == (10, 5)


@pytest.mark.parametrize(
    ("body", "tier"),
    [
        ("node_config { spot = true }", NodeTier.SPOT),
        ("node_config { preemptible = true }", NodeTier.SPOT),
        ("node_config { flex_start = true }", NodeTier.FLEX_START),
        ("queued_provisioning { enabled = true }", NodeTier.FLEX_START),
        ("node_config { spot = false }", NodeTier.ON_DEMAND),
        ("node_config {\n spot = var.nobody_knows\n }", None),
    ],
)
def test_terraform_tells_the_tier_or_leaves_it_open(body: str, tier: NodeTier | None) -> None:
    text = f'resource "google_container_node_pool" "a" {{\n {body} \n}}'

    assert only(terraform(text)).tier is tier


def test_computed_taints_of_terraform_are_not_known() -> None:
    body = 'node_config {\n spot = true\n dynamic "taint" {\n for_each = var.taints\n }\n }'
    text = f'resource "google_container_node_pool" "a" {{\n {body} \n}}'

    assert not only(terraform(text)).knows_taints


def test_an_autopilot_cluster_of_terraform_is_known() -> None:
    text = 'resource "google_container_cluster" "a" {\n enable_autopilot = true\n}'

    assert terraform(text).is_autopilot is True


def test_hcl_gives_literals_and_says_what_it_does_not_know() -> None:
    text = """
    a = [1, 2.5, "x", true, null, call(3), var.list[0]]
    b = <<-EOT
      anything { = }
    EOT
    c = 1 == 2 ? "x" : "y"
    d = "quoted ${upper("}")} text"
    /* e = 1 */ f = -4 // g = 2
    """
    root = read_hcl(text)

    assert root.value("a") == [1, 2.5, "x", True, None, UNKNOWN, UNKNOWN]
    assert root.value("b") is root.value("c") is root.value("d") is UNKNOWN
    assert root.value("f") == -4
    assert "e" not in root.attributes and "g" not in root.attributes


@given(st.text(alphabet='ab=${}[]()"<>-\n#/*,.:1 ', max_size=120))
def test_any_terraform_is_read(text: str) -> None:
    terraform('resource "google_container_node_pool" "a" {\n' + text)


def test_deep_terraform_ends() -> None:
    assert read_hcl("a = " + "[" * 50_000) is not None
    assert read_hcl("a {" * 50_000) is not None


GKE_POOL = {
    "name": "spot-gpu",
    "config": {
        "machineType": "g2-standard-24",
        "spot": True,
        "labels": {"team": "ml"},
        "taints": [{"key": "dedicated", "value": "spot", "effect": "NO_SCHEDULE"}],
        "accelerators": [{"acceleratorCount": "2", "acceleratorType": "nvidia-l4"}],
    },
    "autoscaling": {"enabled": True, "maxNodeCount": 6},
}


def test_merged_maps_are_read_if_all_of_them_are_known() -> None:
    text = """
a = merge({ x = { pool = "cpu" } }, { y = { pool = "gpu" } })
b = merge(
  { x = 1, y = 1 },
  {
    x = 2
  },
)
c = merge(local.some, { x = 1 })
d = merge({ x = 1 }, tomap(concat(["a"], [1])))
e = (1)
f = 5
"""
    root = read_hcl(text)

    assert root.value("a") == {"x": {"pool": "cpu"}, "y": {"pool": "gpu"}}
    assert root.value("b") == {"x": 2, "y": 1}
    assert (root.value("c"), root.value("d"), root.value("e")) == (UNKNOWN, UNKNOWN, UNKNOWN)
    assert root.value("f") == 5


def test_a_list_of_gcloud_is_the_whole_cluster() -> None:
    text = json.dumps([GKE_POOL], indent=1)
    capacity = exported(text)

    pool = only(capacity)
    assert capacity.is_complete
    assert (pool.name, pool.tier, pool.nodes_max) == ("spot-gpu", NodeTier.SPOT, 6)
    assert pool.taints == (DEDICATED,)
    assert (pool.accelerator, pool.accelerator_count) == ("nvidia-l4", 2)
    assert text[pool.place.start : pool.place.end] == '"spot-gpu"'


@pytest.mark.parametrize(
    ("config", "more", "tier"),
    [
        ({"preemptible": True}, {}, NodeTier.SPOT),
        ({"flexStart": True}, {}, NodeTier.FLEX_START),
        ({}, {"queuedProvisioning": {"enabled": True}}, NodeTier.FLEX_START),
        ({}, {}, NodeTier.ON_DEMAND),
    ],
)
def test_an_export_tells_the_tier(
    config: dict[str, object], more: dict[str, object], tier: NodeTier
) -> None:
    pool = {"name": "a", "config": {"machineType": "g2-standard-4", **config}, **more}

    capacity = exported(json.dumps(pool))

    assert only(capacity).tier is tier
    assert not capacity.is_complete


def test_a_description_of_a_cluster_tells_its_mode() -> None:
    text = json.dumps({"nodePools": [GKE_POOL], "autopilot": {"enabled": True}})

    assert exported(text).is_autopilot is True


def test_nodes_of_kubectl_are_put_into_their_pools() -> None:
    def node(name: str, pool: str, **labels: str) -> dict[str, object]:
        given = {"cloud.google.com/gke-nodepool": pool, **labels}
        taints = [{"key": "dedicated", "value": "spot", "effect": "NoSchedule"}]
        spec = {"taints": taints if pool == "cheap" else []}
        return {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": name, "labels": given},
            "spec": spec,
        }

    spot = {"cloud.google.com/gke-provisioning": "spot"}
    items = [node("a", "cheap", **spot), node("b", "cheap", **spot), node("c", "steady")]
    capacity = exported(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    assert [(pool.name, pool.tier) for pool in capacity.pools] == [
        ("cheap", NodeTier.SPOT),
        ("steady", NodeTier.ON_DEMAND),
    ]
    assert capacity.pools[0].taints == (DEDICATED,)


WORKLOAD = """\
name: tiny
kind: training
image: registry.example/trainer:1.0
command: [python, train.py]
accelerator: {type: nvidia-l4}
work: {hours: 3}
checkpoint: {url: "gs://runs/tiny", size: 1GiB}
cluster:
  pools:
    - name: cheap
      tier: spot
      taints: [{key: dedicated, value: spot}]
"""


def test_a_workload_file_names_the_pools_of_its_cluster() -> None:
    pool = only(exported(WORKLOAD))

    assert (pool.name, pool.tier, pool.taints) == ("cheap", NodeTier.SPOT, (DEDICATED,))
    assert pool.place.source.position(pool.place.start)[0] == 10


def test_a_workload_file_that_cannot_be_used_is_told() -> None:
    file = load(
        InputFile(name="w.yaml", path=None, data=WORKLOAD.replace("spot\n", "spott\n").encode())
    )

    assert file.capacity.pools == ()
    assert "Ignored the node pools of a workload file" in (file.notice or "")


def test_a_pool_of_a_script_and_of_terraform_is_one() -> None:
    flags = "--spot --machine-type=g2-standard-24 --node-taints=dedicated=spot:NoSchedule"
    one = script(f"gcloud container node-pools create spot-gpu {flags}")
    other = script("gcloud container node-pools create spot-gpu --machine-type=e2-medium")

    assert len(joined([one, terraform(MAIN_TF)]).pools) == 1
    assert len(joined([one, other]).pools) == 2
