"""The manifests that guides show give exactly the findings they deserve."""

from pathlib import Path

from tests.unit.manifests.rules.harness import flagged, lint_files

GUIDE = Path(__file__).parents[3] / "fixtures" / "guide"

SPOT = {
    # The Job's own fields: no podFailurePolicy, so exit 0 at an eviction completes it.
    ("OL103", "spot-training.yaml", 13),
    # The Pod: no grace period, Never with six retries, tolerated but not selected.
    ("OL101", "spot-training.yaml", 15),
    ("OL104", "spot-training.yaml", 16),
    ("OL501", "spot-training.yaml", 19),
    # The container: :latest, and CHECKPOINT_DIR on no volume.
    ("OL904", "spot-training.yaml", 25),
    ("OL401", "spot-training.yaml", 29),
}
FLEX = {
    # An image without a tag.
    ("OL904", "flex-preprocessing.yaml", 16),
    # The Spot toleration that has no reason, and :latest.
    ("OL502", "flex-finetune.yaml", 22),
    ("OL904", "flex-finetune.yaml", 28),
}


def test_the_guide_gives_exactly_these_findings() -> None:
    found = flagged(lint_files(GUIDE))

    # One alert is missing for all three, told where the first of them is named.
    assert found == {*SPOT, *FLEX, ("OL301", "flex-finetune.yaml", 9)}


def test_each_manifest_alone_gives_its_own() -> None:
    pools = GUIDE / "node-pool.sh"

    assert flagged(lint_files(GUIDE / "spot-training.yaml", pools)) == {
        *SPOT,
        ("OL301", "spot-training.yaml", 12),
    }
    assert flagged(lint_files(GUIDE / "flex-preprocessing.yaml", pools)) == {
        ("OL904", "flex-preprocessing.yaml", 16),
        ("OL301", "flex-preprocessing.yaml", 4),
    }


def test_without_the_pool_nobody_knows_that_it_is_spot() -> None:
    assert flagged(lint_files(GUIDE / "spot-training.yaml")) == {
        ("OL904", "spot-training.yaml", 25),
        ("OL401", "spot-training.yaml", 29),
    }
