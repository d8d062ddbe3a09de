"""The rules that choose a tier."""

import pytest

from outlast.capacity import Tier, Workload, choose_tier_by_rule

HEAD = "name: a\nimage: i\n"
GPU = "accelerator: {type: nvidia-l4}\n"
SAVED = "checkpoint: {url: gs://lab/a}\n"


@pytest.mark.parametrize(
    ("text", "tier", "reason"),
    [
        ("kind: serving\n", Tier.ON_DEMAND, "servers run on demand"),
        ("kind: training\n" + GPU, Tier.ON_DEMAND, "cannot resume, and may run longer"),
        (
            "kind: training\nwork: {hours: 20}\n" + GPU,
            Tier.FLEX_START,
            "fits within the lifetime of one flex-start node",
        ),
        ("kind: training\nwork: {hours: 200}\n" + GPU, Tier.ON_DEMAND, "runs longer than"),
        ("kind: training\nwork: {hours: 168}\n" + GPU, Tier.ON_DEMAND, "runs longer than"),
        (
            "kind: batch-inference\nparallelism: 20\nwork: {items: 10000, seconds_per_item: 600}\n"
            + GPU,
            Tier.FLEX_START,
            "fits within the lifetime of one flex-start node",
        ),
        ("kind: training\nwork: {hours: 20}\n", Tier.ON_DEMAND, "must not be evicted"),
        ("kind: training\n" + GPU + SAVED, Tier.SPOT, "can resume from checkpoints"),
        ("kind: training\ndeadline: 72h\n" + GPU + SAVED, Tier.HYBRID, "It has a deadline"),
        (
            "kind: training\ninterruptible: false\n" + GPU + SAVED,
            Tier.FLEX_START,
            "must not be preempted",
        ),
        (
            "kind: training\ninterruptible: false\n" + SAVED,
            Tier.ON_DEMAND,
            "flex-start is not known to offer its machine type",
        ),
        (
            "kind: training\ninterruptible: false\nmachine: h4d-standard-192\n" + SAVED,
            Tier.FLEX_START,
            "must not be preempted",
        ),
        (
            "kind: sweep\ndeadline: 72h\n" + GPU,
            Tier.SPOT,
            "In a sweep workload, an eviction loses only the piece",
        ),
        ("kind: ci\n", Tier.SPOT, "In a CI workload, an eviction loses only the piece"),
        (
            "kind: batch-inference\nqueue: postgresql://h/d\nsink: gs://lab/r\n",
            Tier.SPOT,
            "In a batch-inference workload, an eviction loses only the piece",
        ),
        ("kind: batch-inference\n", Tier.ON_DEMAND, "cannot resume"),
        ("kind: training\ntier: on-demand\n", Tier.ON_DEMAND, "sets this tier"),
        ("kind: sweep\ntier: hybrid\n", Tier.HYBRID, "sets this tier"),
    ],
)
def test_the_rules_choose(text: str, tier: Tier, reason: str) -> None:
    choice = choose_tier_by_rule(Workload.parse(HEAD + text, name="w"))

    assert choice.tier is tier
    assert reason in choice.reason
