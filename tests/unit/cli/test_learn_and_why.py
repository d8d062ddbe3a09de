"""`outlast learn` and `outlast why`: what they say of a run, what they warn of and refuse."""

import json
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from outlast.capacity.vocabulary import Tier
from outlast.capacity.workload.quantities import parse_exact_duration
from outlast.cli.plan.learn import learn
from outlast.cli.printing import Format
from outlast.errors import OutlastError
from outlast.journal.attempt import Attempt, seconds_between
from outlast.journal.reader import read_journal
from outlast.storage.opening import open_store
from tests.commands import command
from tests.patience import PATIENCE_SECONDS
from tests.unit.cli.journal_files import Simulated, write_journal

TODAY = date(2026, 9, 1)
why = command("why")
WORKLOAD = """\
name: tiny-gpt
kind: training
image: registry.example/trainer:1
accelerator: {type: nvidia-l4, count: 2}
checkpoint: {url: "gs://lab-runs/tiny-gpt", size: 12 GiB}
"""
TRAIN = """\
import os, signal, time
import numpy as np
import outlast

state = {"weights": np.zeros(200_000)}
with outlast.Run("run", state, every_steps=5) as run:
    for count, step in enumerate(run.steps(60)):
        if count == 0:
            time.sleep(0.4)
        state["weights"] += 1
        time.sleep(0.01)
        if step == int(os.environ.get("STOP_AT", -1)):
            os.kill(os.getpid(), getattr(signal, os.environ["STOP_BY"]))
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def workload_file(tmp_path: Path) -> Path:
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD)
    return path


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A run of an hour in two lives, 100 s apart."""
    run = Simulated(step_seconds=60)
    run.start(warm_seconds=120)
    run.work(20, save_every=10, stall=2)
    run.evict(final_seconds=10, wait_seconds=100)
    run.start(load_seconds=60, warm_seconds=120)
    run.work(35)
    return write_journal(tmp_path / "run", run.finish())


def told(capsys: Captured) -> tuple[dict[str, dict[str, object]], dict[str, object], str]:
    out, err = capsys.readouterr()
    found = json.loads(out)
    return {part["name"]: part for part in found["parts"]}, found, err


# A run that really was interrupted


def test_the_time_of_a_run_that_was_killed_and_evicted_adds_up(
    tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    for stop in (
        {"STOP_AT": "20", "STOP_BY": "SIGKILL"},
        {"STOP_AT": "40", "STOP_BY": "SIGTERM"},
        {},
    ):
        subprocess.run(
            [sys.executable, "train.py"],
            cwd=tmp_path,
            env={**os.environ, **stop},
            capture_output=True,
            timeout=PATIENCE_SECONDS,
        )

    why(str(tmp_path / "run"), format=Format.JSON)
    parts, found, err = told(capsys)
    learn(str(tmp_path / "run"), format=Format.JSON)
    measured = json.loads(capsys.readouterr().out)["measured"]

    assert err == ""
    assert [attempt["ending"] for attempt in found["attempts"]] == [  # type: ignore[attr-defined]
        "killed",
        "announced",
        "finished",
    ]
    shares = [part["share"] for part in parts.values()]
    assert sum(shares) == pytest.approx(1.0)  # type: ignore[arg-type]
    # The machine decides how long each part took, and the journal shows within which bounds.
    views = [Attempt(record) for record in read_journal(open_store(str(tmp_path / "run")))[1:]]
    loaded = [seconds_between(view.started, view.loaded) for view in views]
    first_steps = [seconds_between(view.started, view.reached[view.first_done]) for view in views]  # type: ignore[index]
    assert min(first_steps) > 0.4
    assert parts["starting"]["seconds"] >= sum(loaded)  # type: ignore[operator]
    restart_seconds = parse_exact_duration(measured["restart"]).total_seconds()
    assert min(loaded) * 0.99 - 0.05 <= restart_seconds <= max(first_steps) * 1.01 + 0.05
    others = sum(part["seconds"] for name, part in parts.items() if name != "work")  # type: ignore[misc]
    assert 0 < parts["work"]["seconds"] <= found["total_seconds"] - others + 0.001  # type: ignore[operator]
    assert found["total_seconds"] > sum(first_steps) + 38 * 0.01  # type: ignore[operator]


# why


def test_a_run_is_priced_after_its_deadline_and_without_its_work_time(
    url: str, workload_file: Path, capsys: Captured
) -> None:
    workload_file.write_text(WORKLOAD + "deadline: 2020-01-01T00:00:00Z\n")

    why(url, workload=workload_file, tier=Tier.SPOT, today=TODAY, format=Format.JSON)

    parts, found, err = told(capsys)
    assert err == ""
    assert found["price_per_hour"] == "1.20014"
    assert parts["work"]["cost"] == "1.10"


def test_the_tier_is_the_files_or_the_rules(
    url: str, workload_file: Path, capsys: Captured
) -> None:
    why(url, workload=workload_file, today=TODAY, format=Format.JSON)
    by_rule = told(capsys)[1]["price_per_hour"]
    why(url, workload=workload_file, tier=Tier.ON_DEMAND, today=TODAY, format=Format.JSON)
    by_hand = told(capsys)[1]["price_per_hour"]
    workload_file.write_text(WORKLOAD + "tier: on-demand\n")
    why(url, workload=workload_file, today=TODAY, format=Format.JSON)

    assert by_rule == "1.20014"
    assert told(capsys)[1]["price_per_hour"] == by_hand != by_rule


def test_a_price_of_ones_own_beats_the_workloads(
    url: str, workload_file: Path, capsys: Captured
) -> None:
    workload_file.write_text(WORKLOAD + "nodes: 3\n")

    why(url, workload=workload_file, price="1.20", currency="EUR")

    out, err = capsys.readouterr()
    assert err == ""
    # 3744 s less 100 s of waiting, on three nodes.
    assert "finished. Total time: 62.4 min. Cost: 3.64 EUR (1.20 per node-hour).\n" in out


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("tier: hybrid\n", "Use --tier or --price for an exact cost."),
        ("tier: flex-start\n", "The flex-start price is an estimate: 0.5 x the on-demand price."),
        ("cluster: {location: mars-east1}\n", "Costs are not shown"),
    ],
    ids=["hybrid", "estimate", "unknown"],
)
def test_what_is_doubtful_about_a_price_is_said(
    url: str, workload_file: Path, capsys: Captured, lines: str, words: str
) -> None:
    workload_file.write_text(WORKLOAD + lines)

    why(url, workload=workload_file, today=TODAY)

    out, err = capsys.readouterr()
    assert words in err
    assert ("USD" in out) is ("mars" not in lines)


def test_a_hybrid_run_of_unknown_tiers_has_bounds_and_no_cost(
    url: str, workload_file: Path, capsys: Captured
) -> None:
    why(url, workload=workload_file, tier=Tier.FLEX_START, today=TODAY, format=Format.JSON)
    lowest = told(capsys)[1]["cost"]
    why(url, workload=workload_file, tier=Tier.ON_DEMAND, today=TODAY, format=Format.JSON)
    highest = told(capsys)[1]["cost"]
    workload_file.write_text(WORKLOAD + "tier: hybrid\n")

    why(url, workload=workload_file, today=TODAY, format=Format.JSON)
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    why(url, workload=workload_file, today=TODAY)

    assert (found["cost"], found["cost_min"], found["cost_max"]) == (None, lowest, highest)
    assert {part["cost"] for part in found["parts"]} == {None}
    assert "The tier of attempts 1, 2" in captured.err
    assert f"Cost: {lowest} to {highest} USD." in capsys.readouterr().out


def test_an_old_price_is_warned_of(url: str, workload_file: Path, capsys: Captured) -> None:
    why(url, workload=workload_file, today=date(2027, 1, 1))

    assert "days old" in capsys.readouterr().err


def test_saves_that_ate_a_third_are_worth_a_word(tmp_path: Path, capsys: Captured) -> None:
    run = Simulated(step_seconds=60)
    run.start()
    run.work(200, save_every=1, stall=30)

    why(write_journal(tmp_path, run.finish()))

    out = capsys.readouterr().out
    assert "saving         100.0 min  33.3%" in out
    assert "Suggested change: Save less often: after every 30.7 min of work." in out


def test_absurd_numbers_make_no_absurd_amount(tmp_path: Path, url: str, capsys: Captured) -> None:
    segment = tmp_path / "run/journal/000001-000001.jsonl"
    text = segment.read_text()
    assert '"stall_seconds":2' in text
    segment.write_text(text.replace('"stall_seconds":2', '"stall_seconds":-1e308', 1))

    why(url, price="1", format=Format.JSON)

    parts, found, err = told(capsys)
    assert "unreadable lines: 1)" in err
    assert found["lines_garbled"] == 1
    assert sum(part["share"] for part in parts.values()) == pytest.approx(1)  # type: ignore[misc]


@pytest.mark.parametrize("field", ["stall_seconds", "slow_seconds"])
def test_a_save_too_short_to_measure_is_no_reason_to_fail(
    tmp_path: Path, capsys: Captured, field: str
) -> None:
    run = Simulated(step_seconds=60)
    run.start()
    run.work(10, save_every=5)
    url = write_journal(tmp_path / "run", run.finish())
    [segment] = (tmp_path / "run/journal").iterdir()
    text = re.sub(rf'"{field}":[0-9][0-9.e+-]*', f'"{field}":1e-320', segment.read_text())
    others = {"stall_seconds", "slow_seconds"} - {field}
    for other in others:
        text = re.sub(rf'"{other}":[0-9][0-9.e+-]*', f'"{other}":0', text)
    assert f'"{field}":1e-320' in text
    segment.write_text(text)

    why(url)
    learn(url)

    assert "Save " not in capsys.readouterr().out


def test_why_refuses_what_does_not_go_together(url: str, workload_file: Path) -> None:
    with pytest.raises(OutlastError, match="--tier requires --workload"):
        why(url, tier=Tier.SPOT)
    with pytest.raises(OutlastError, match="and cannot be combined with --price"):
        why(url, workload=workload_file, tier=Tier.SPOT, price="1")
    with pytest.raises(OutlastError, match="--currency requires --price"):
        why(url, workload=workload_file, currency="EUR")
    with pytest.raises(OutlastError, match="--nodes: expected 1 to 10,000, got -3"):
        why(url, price="1", nodes=-3)


# learn


@pytest.mark.parametrize("is_absolute", [True, False])
def test_the_diff_can_be_applied_from_where_it_was_made(
    url: str,
    workload_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    is_absolute: bool,
) -> None:
    monkeypatch.chdir(workload_file.parent.parent)
    name = workload_file.relative_to(Path.cwd())

    learn(url, workload=workload_file if is_absolute else name)

    out = capsys.readouterr().out
    diff = out[out.index("--- ") :]
    subprocess.run(["patch", "-p0"], input=diff, text=True, check=True, capture_output=True)
    assert "size: 954MiB}\nmeasured:\n  save: " in workload_file.read_text()
    learn(url, workload=workload_file)
    assert "is already up to date" in capsys.readouterr().out


def test_a_file_that_no_diff_can_be_made_for_gets_the_figures_to_copy(
    url: str, workload_file: Path, capsys: Captured
) -> None:
    workload_file.write_text(WORKLOAD.replace("12 GiB", "&size 12 GiB") + "env: {SIZE: *size}\n")

    learn(url, workload=workload_file)

    out, err = capsys.readouterr()
    assert "Could not make a diff for the YAML in" in err
    assert "\n\nmeasured:\n  save: " in out
    assert out.endswith("checkpoint:\n  size: 954MiB\n")


def test_the_same_run_twice_counts_once(url: str, capsys: Captured) -> None:
    learn(url, format=Format.JSON)
    once = capsys.readouterr().out

    learn(url, url + "/", format=Format.JSON)

    assert capsys.readouterr().out == once


def test_learn_takes_the_number_of_nodes_that_is_given(
    url: str, workload_file: Path, capsys: Captured
) -> None:
    found = []
    for nodes in (None, 4):
        learn(url, workload=workload_file, nodes=nodes, format=Format.JSON)
        found.append(json.loads(capsys.readouterr().out)["measured"]["between_interruptions"])

    assert found == ["1h44s", "4h2m56s"]
    with pytest.raises(OutlastError, match="--nodes: expected 1 to 10,000, got 0"):
        learn(url, nodes=0)
