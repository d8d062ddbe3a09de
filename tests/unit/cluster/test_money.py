"""The cost of runs whose attempts used several tiers, or whose tier is not known."""

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from outlast.capacity.planning.attempt_price import (
    AttemptUse,
    price_attempts,
    split_amount,
)
from outlast.capacity.planning.run_price import workload_price
from outlast.capacity.vocabulary import Tier
from outlast.capacity.workload.file import Workload
from outlast.cluster.diagnosis.facts import node_fact
from outlast.cluster.resources import JOBS, NODES
from outlast.cluster.watching.board import board_of
from outlast.cluster.watching.figures import Money
from outlast.cluster.watching.money import money_of
from outlast.cluster.watching.places import place_of
from outlast.cluster.watching.view import RunSources, view_of
from outlast.cluster.watching.view_json import view_json
from outlast.journal.events import AttemptStarted
from outlast.journal.place import AttemptPlace
from outlast.journal.reader import AttemptRecord
from outlast.journal.run_journal import RunJournal, journal_of
from tests.unit.cli.journal_files import START, write_journal
from tests.unit.cluster.served_runs import served
from tests.unit.cluster.watched_runs import WORKLOAD, records_of, three_attempts, workload

URL = "gs://lab-runs/tiny"


def hybrid() -> Workload:
    return Workload.parse(WORKLOAD.replace("tier: spot", "tier: hybrid"), name="tiny.yaml")


def records(*tiers: str | None, **place: Any) -> list[AttemptRecord]:
    """Three attempts with these tiers, None for one that states none."""

    def stated(event: Any, tier: str | None) -> Any:
        if not isinstance(event, AttemptStarted):
            return event
        return replace(event, tier=tier, **place)

    found = records_of(three_attempts())
    return [
        replace(one, events=tuple(stated(event, tier) for event in one.events))
        for one, tier in zip(found, tiers, strict=True)
    ]


def journal(*tiers: str | None, **place: Any) -> RunJournal:
    return journal_of(URL, records(*tiers, **place))


def money(*tiers: str | None, file: Workload | None = None, **more: Any) -> Money:
    found = money_of([journal(*tiers, **more.pop("place", {}))], file, **more)
    assert found is not None
    return found


def priced(tier: Tier, seconds: float) -> Decimal:
    price = workload_price(workload(), tier).amount
    assert price is not None
    return Decimal(repr(seconds)) / 3600 * price


def cost_row(found: Money) -> str:
    sources = RunSources(name="tiny", namespace="", now=START, snapshot=None, money=found)
    return next(row.text for row in board_of(view_of(sources)).rows if row.label == "cost")


def test_each_attempt_of_a_hybrid_run_has_the_price_of_its_own_tier() -> None:
    seconds = [one.seconds for one in journal("spot", "spot", "spot").summary.attempts]

    found = money("spot", "on-demand", "spot", file=hybrid())

    right = priced(Tier.SPOT, seconds[0] + seconds[2]) + priced(Tier.ON_DEMAND, seconds[1])
    assert abs(found.spent - right) < Decimal("0.03")
    assert found.is_exact
    assert dict(found.by_tier).keys() == {"spot", "on-demand"}
    assert sum(amount for _, amount in found.by_tier) == found.spent
    assert money("spot", "spot", "spot", file=hybrid()).spent < found.spent
    assert f"{found.spent} USD so far (spot {dict(found.by_tier)['spot']}, on-demand" in cost_row(
        found
    )


def test_what_an_attempt_states_beats_the_file() -> None:
    """As after `outlast resume --tier`, which leaves the file as it is."""
    moved = money("spot", "on-demand", "on-demand", file=workload())

    assert moved.spent > money("spot", "spot", "spot", file=workload()).spent
    assert moved.spent == money("spot", "on-demand", "on-demand").spent


def test_an_unknown_tier_gives_bounds_and_says_so() -> None:
    lowest, highest = money("spot", "flex-start", "spot"), money("spot", "on-demand", "spot")

    found = money("spot", None, "spot", file=hybrid())

    assert (found.spent, found.spent_max) == (lowest.spent, highest.spent)
    assert (found.is_exact, found.by_tier, found.saved_share) == (False, (), None)
    assert cost_row(found).startswith(f"{lowest.spent} to {highest.spent} USD so far; ")
    assert "% saved to " in cost_row(found)
    assert found.notes[0] == (
        "The tier of attempt 2 is not known: priced from the cheapest to the most expensive of "
        "spot, flex-start, on-demand."
    )


def test_an_unknown_tier_has_no_single_figure_in_json() -> None:
    found = money("spot", None, "spot", file=hybrid())
    sources = RunSources(name="tiny", namespace="", now=START, snapshot=None, money=found)

    shown = view_json(view_of(sources))["money"]

    assert (shown["spent"], shown["saved_share"]) == (None, None)
    assert (shown["spent_min"], shown["spent_max"]) == (str(found.spent), str(found.spent_max))


def test_an_unknown_tier_without_a_file_is_one_of_all_that_are_sold() -> None:
    found = money(None, None, None)

    assert found.spent == money("flex-start", "flex-start", "flex-start").spent
    assert found.spent_max == money("on-demand", "on-demand", "on-demand").spent


def test_an_attempt_of_unknown_machine_gives_a_minimum() -> None:
    one, *rest = records("spot", "spot", "spot")
    bare = replace(
        one,
        events=tuple(
            replace(event, machine=None, zone=None) if isinstance(event, AttemptStarted) else event
            for event in one.events
        ),
    )

    found = money_of([journal_of(URL, [bare, *rest])], None)

    assert found is not None and found.spent_max is None
    assert found.spent < money("spot", "spot", "spot").spent
    assert cost_row(found).startswith(f"at least {found.spent} USD so far")
    assert "attempt 1 is not fully known" in found.notes[0]


def test_accelerators_attached_to_a_machine_are_not_left_out_silently() -> None:
    """An n1 machine's type does not say which GPUs it has; the workload file does."""
    found = money("spot", "spot", "spot", place={"machine": "n1-standard-8"})

    assert found.spent_max is None


def test_different_machines_have_no_price_of_the_same_steps_on_demand() -> None:
    found = money("spot", "spot", "spot", file=workload(), place={"machine": "g2-standard-8"})

    assert found.on_demand is None
    assert found.spent < money("spot", "spot", "spot", file=workload()).spent


def test_the_labels_of_a_node_tell_the_tier_of_a_rendered_hybrid() -> None:
    """Its manifest states no tier, because a ComputeClass chooses one for each node."""
    places = {"gke-spot-2": AttemptPlace(tier="on-demand")}

    found = money("spot", None, "spot", file=hybrid(), places=places)

    assert found == money("spot", "on-demand", "spot", file=hybrid())


@pytest.mark.parametrize(
    ("labels", "tier"),
    [
        ({"cloud.google.com/gke-spot": "true"}, "spot"),
        ({"cloud.google.com/gke-provisioning": "spot"}, "spot"),
        ({"cloud.google.com/gke-flex-start": "true"}, "flex-start"),
        (
            {
                "cloud.google.com/gke-flex-start": "true",
                "cloud.google.com/gke-provisioning": "standard",
            },
            "flex-start",
        ),
        ({"cloud.google.com/gke-provisioning": "standard"}, "on-demand"),
        ({}, None),
    ],
)
def test_the_tier_of_a_node_by_its_labels(labels: dict[str, str], tier: str | None) -> None:
    labels = {
        **labels,
        "node.kubernetes.io/instance-type": "g2-standard-24",
        "topology.kubernetes.io/zone": "us-central1-a",
    }
    place = place_of(node_fact({"metadata": {"name": "n1", "labels": labels}}))

    assert (place.tier, place.machine, place.zone) == (tier, "g2-standard-24", "us-central1-a")


def uses(*tiers: str) -> Sequence[AttemptUse]:
    return [
        AttemptUse(
            attempt=number,
            seconds=1000.0 / 3 * number,
            tier=tier,
            machine="g2-standard-24",
            location="us-central1",
        )
        for number, tier in enumerate(tiers, start=1)
    ]


def test_equal_prices_have_exactly_that_mean() -> None:
    found = price_attempts(uses("spot", "spot", "spot"))

    assert found is not None
    assert found.low == found.high == workload_price(workload(), Tier.SPOT).amount


@pytest.mark.parametrize("total", ["0.01", "0.02", "10.00", "123456.79"])
def test_the_parts_of_an_amount_add_up_to_it(total: str) -> None:
    found = price_attempts(uses("spot", "on-demand", "flex-start", "spot"))
    assert found is not None

    parts = split_amount(Decimal(total), found.shares)

    assert sum(parts.values()) == Decimal(total)
    assert all(amount >= 0 for amount in parts.values())


def test_watch_and_why_show_the_same_cost_of_a_hybrid_run(tmp_path: Path) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(WORKLOAD.replace("tier: spot", "tier: hybrid"))
    for tiers in (("spot", "on-demand", "spot"), ("spot", None, "spot")):
        url = write_journal(tmp_path / str(tiers[1]), records(*tiers))
        with served(tmp_path) as cluster:
            cluster.add_job()
            watched = cluster.outlast(
                "watch", file, "--once", "--format", "json", "--journal", url
            ).json["money"]
            why = _why(url, file)

        assert (watched["spent"], watched["spent_min"], watched["spent_max"]) == (
            why["cost"],
            why["cost_min"],
            why["cost_max"],
        )


def _why(url: str, file: Path) -> dict[str, Any]:
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO

    from outlast.cli.app import run

    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()):
        assert run(["why", url, "--workload", str(file), "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_watch_learns_tiers_from_nodes_and_keeps_them_when_the_nodes_are_gone(
    tmp_path: Path,
) -> None:
    from outlast.cluster.connection.client import connect
    from outlast.cluster.runs.selection import select_run
    from outlast.cluster.runs.target import RunTarget
    from outlast.cluster.watching.session import RunCluster, WatchSession
    from tests.patience import eventually

    url = write_journal(tmp_path / "run", records("spot", None, "spot"))
    with served(tmp_path) as cluster, connect(kubeconfig=cluster.kubeconfig) as client:
        cluster.add_job()
        labels = {"cloud.google.com/gke-provisioning": "standard"}
        metadata = {"name": "gke-spot-2", "labels": labels}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        cluster.api.store.put(NODES, node)
        watched = RunCluster(
            client, select_run(client, "tiny", "team-a"), cut_streams=client.cut_streams
        )
        target = RunTarget(name="tiny", url=url, workload=hybrid())
        with WatchSession(target, cluster=watched, namespace="team-a") as session:
            session.collect(20.0)
            seen = session.view().money
            cluster.api.store.remove(NODES, None, "gke-spot-2")

            def is_gone() -> bool:
                session.wait(0.05)
                return not watched.snapshot().nodes

            eventually(is_gone, "the node is gone")
            after = session.view().money

    right = money("spot", "on-demand", "spot", file=hybrid())
    assert seen is not None and after is not None
    assert seen.spent == after.spent == right.spent
    assert seen.is_exact and after.is_exact


def test_the_finish_is_estimated_for_the_tier_that_the_job_runs_on(tmp_path: Path) -> None:
    """After `outlast resume --tier on-demand` the file still has another tier."""
    file = tmp_path / "tiny.yaml"
    file.write_text(WORKLOAD)
    url = write_journal(tmp_path / "run", records("spot", "spot", "on-demand"))
    finishes = []
    with served(tmp_path) as cluster:
        item = cluster.add_job()
        for tier in ("spot", "on-demand"):
            [container] = item["spec"]["template"]["spec"]["containers"]
            container["env"][1]["value"] = tier
            cluster.api.store.put(JOBS, item)
            done = cluster.outlast("watch", file, "--once", "--format", "json", "--journal", url)
            finishes.append(done.json["finish"]["p90"])

    assert finishes[1] < finishes[0]
