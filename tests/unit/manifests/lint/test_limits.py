"""How many nodes a pool can have over all its zones, and what else limits a cluster."""

import json
from pathlib import Path

import pytest

from outlast.manifests.lint.engine.files import InputFile
from outlast.manifests.lint.engine.loading import load
from outlast.manifests.lint.pools.gcloud import read_script
from outlast.manifests.lint.pools.model import (
    ZONES_MAX,
    ClusterCapacity,
    NodePool,
    NodeTier,
    Quota,
    is_zone,
    joined,
)
from outlast.manifests.lint.pools.terraform import read_terraform
from outlast.yamltext.source import SourceText


def only(capacity: ClusterCapacity) -> NodePool:
    (pool,) = capacity.pools
    return pool


def loaded(name: str, text: str) -> ClusterCapacity:
    return load(InputFile(name=name, path=Path(name), data=text.encode())).capacity


@pytest.mark.parametrize(
    ("flags", "at_most"),
    [
        ("", None),
        ("--enable-autoscaling --total-max-nodes=6 --region=us-central1", 6),
        ("--enable-autoscaling --max-nodes=6 --zone us-central1-a", 6),
        ("--enable-autoscaling --max-nodes=6 --location=us-central1-a", 6),
        ("--enable-autoscaling --max-nodes=6 --node-locations=a,b,c", 18),
        ("--enable-autoscaling --max-nodes=6 --region=us-central1", 6 * ZONES_MAX),
        ("--num-nodes=2 --zone=us-central1-a", 2),
    ],
)
def test_a_script_counts_nodes_for_each_zone(flags: str, at_most: int | None) -> None:
    text = f"gcloud container node-pools create a {flags}\n"

    assert only(read_script(SourceText(name="a.sh", text=text))).nodes_at_most == at_most


@pytest.mark.parametrize(
    ("body", "at_most"),
    [
        ("autoscaling {\n total_max_node_count = 6\n }", 6),
        ('location = "us-central1-a"\n autoscaling {\n max_node_count = 6\n }', 6),
        ('node_locations = ["a", "b"]\n autoscaling {\n max_node_count = 6\n }', 12),
        ('location = "us-central1"\n node_count = 2', 2 * ZONES_MAX),
        ("location = var.place\n node_count = 2", 2 * ZONES_MAX),
    ],
)
def test_terraform_counts_nodes_for_each_zone(body: str, at_most: int) -> None:
    text = f'resource "google_container_node_pool" "a" {{\n {body}\n}}\n'

    assert (
        only(joined(read_terraform([SourceText(name="a.tf", text=text)]).values())).nodes_at_most
        == at_most
    )


@pytest.mark.parametrize(
    ("more", "at_most"),
    [
        ({"autoscaling": {"enabled": True, "totalMaxNodeCount": 6}}, 6),
        ({"autoscaling": {"enabled": True, "maxNodeCount": 6}, "locations": ["a", "b", "c"]}, 18),
        ({"autoscaling": {"enabled": True, "maxNodeCount": 6}}, 6 * ZONES_MAX),
    ],
)
def test_an_export_counts_nodes_for_each_zone(more: dict[str, object], at_most: int) -> None:
    text = json.dumps({"name": "a", "config": {"machineType": "e2-standard-4"}, **more})

    assert only(loaded("pools.json", text)).nodes_at_most == at_most


def test_only_a_list_of_pools_holds_those_without_a_node() -> None:
    pool = {"name": "a", "config": {"machineType": "e2-standard-4"}}
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": {}}

    assert loaded("pools.json", json.dumps([pool])).knows_empty_pools
    assert loaded("cluster.json", json.dumps({"nodePools": [pool]})).knows_empty_pools
    assert not loaded("pool.json", json.dumps(pool)).knows_empty_pools
    assert not loaded("nodes.json", json.dumps(node)).knows_empty_pools


def test_the_quota_of_a_workload_file_reaches_the_review() -> None:
    text = (
        "name: a\nkind: ci\nimage: registry.example/a:1\ncommand: [make]\n"
        "cluster: {quota: {preemptible: 8}}\n"
    )

    quota = joined([ClusterCapacity(), loaded("workload.yaml", text)]).quota

    assert quota == Quota(preemptible=8)
    assert (quota.of(NodeTier.SPOT), quota.of(NodeTier.FLEX_START)) == (8, 8)
    assert quota.of(NodeTier.ON_DEMAND) is None


@pytest.mark.parametrize(
    ("place", "is_one"),
    [("us-central1-a", True), ("us-central1", False), ("", False), ("us-central1-ai1a", False)],
)
def test_a_zone_is_a_region_with_a_letter(place: str, is_one: bool) -> None:
    assert is_zone(place) is is_one


def test_of_two_maxima_for_one_pool_the_larger_counts() -> None:
    scripts = [
        f"gcloud container node-pools create a --enable-autoscaling --total-max-nodes={count}\n"
        for count in (4, 8, 6)
    ]

    capacity = joined(read_script(SourceText(name="a.sh", text=text)) for text in scripts)

    assert only(capacity).nodes_at_most == 8
