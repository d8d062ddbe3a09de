"""The commands: what they print, for people and for programs, and how they refuse."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from outlast.capacity.pricing.prices import PriceError, PriceUnknown, parse_prices
from outlast.capacity.simulation.traces import TraceError, TracePolarity
from outlast.capacity.workload.file import Workload
from outlast.cli.plan.learn import learn
from outlast.cli.plan.prices import PriceFormat
from outlast.cli.printing import Format
from outlast.errors import OutlastError
from tests.commands import command
from tests.patience import PATIENCE_SECONDS
from tests.unit.capacity.generated_traces import counts_trace, nodes_trace, steps_trace
from tests.unit.capacity.test_plan import TRAINING
from tests.unit.capacity.test_price import CATALOGUE

TODAY = date(2026, 9, 1)

plan = command("plan")
simulate = command("simulate")
prices = command("prices")
why = command("why")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def workload_file(tmp_path: Path) -> Path:
    path = tmp_path / "workload.yaml"
    path.write_text(TRAINING)
    return path


# plan


def test_plan_prints_the_choice_its_reasons_and_every_tier(
    workload_file: Path, capsys: Captured
) -> None:
    plan(workload_file, today=TODAY, runs=1000)

    out, err = capsys.readouterr()
    assert out.startswith("Recommended tier for tiny-gpt: spot\n")
    for tier in ("spot", "flex-start", "on-demand", "hybrid"):
        assert f"\n{tier} " in out
    assert "(estimate)" in out
    assert "is too short for a final save" in err


def test_plan_prints_the_same_json_twice(workload_file: Path, capsys: Captured) -> None:
    texts = []
    for _ in range(2):
        plan(workload_file, today=TODAY, runs=1000, format=Format.JSON)
        texts.append(capsys.readouterr().out)

    assert texts[0] == texts[1]
    assert json.loads(texts[0])["tier"] == "spot"


def test_plan_takes_other_values_and_other_prices(
    workload_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text(
        "machine,accelerator,count,location,tier,price,currency,date,source\n"
        "g2-standard-24,,,us-central1,flex-start,0.50,USD,2026-08-30,contract\n"
    )

    plan(workload_file, set=["tier=hybrid"], today=TODAY, runs=500, format=Format.JSON)
    named = json.loads(capsys.readouterr().out)
    plan(workload_file, prices=[mine], today=TODAY, runs=500, format=Format.JSON)
    cheaper = json.loads(capsys.readouterr().out)

    assert named["tier"] == "hybrid"
    assert cheaper["tier"] == "flex-start"
    assert not cheaper["options"][1]["cost"]["is_estimate"]


def test_plan_sweeps_and_draws(workload_file: Path, tmp_path: Path, capsys: Captured) -> None:
    html, svg = tmp_path / "plan.html", tmp_path / "sweep.svg"

    plan(
        workload_file,
        sweep="checkpoint.size=1GiB,2000GiB",
        html=html,
        svg=svg,
        today=TODAY,
        runs=500,
    )

    out = capsys.readouterr().out
    assert "checkpoint.size" in out and "2000GiB" in out
    assert html.read_text().count('<svg class="plot"') == 3
    assert svg.read_text().startswith("<svg")


def test_plan_sweeps_what_the_file_lacks_and_past_what_cannot_be(
    workload_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    html = tmp_path / "sweep.html"
    workload_file.write_text(TRAINING.replace("work: {hours: 38}", "deadline: 20h"))

    plan(workload_file, sweep="work.hours=10,30", html=html, today=TODAY, runs=200)
    out, err = capsys.readouterr()
    plan(workload_file, sweep="work.hours=10,30", today=TODAY, runs=200, format=Format.JSON)
    found = json.loads(capsys.readouterr().out)

    assert "warning: No plan without the sweep:" in err
    assert "30          not possible" in out
    assert "work.hours=30: The deadline is in 20.0 h" in out
    assert "Sweep of work.hours" in html.read_text()
    assert [point["tier"] is None for point in found["sweep"]["points"]] == [False, True]


def test_plan_takes_prices_in_another_currency(
    workload_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    mine, half = tmp_path / "mine.csv", tmp_path / "half.csv"
    head = "machine,accelerator,count,location,tier,price,currency,date,source\n"
    spot = "g2-standard-24,nvidia-l4,2,us-central1,spot,1.10,EUR,2026-08-30,contract\n"
    mine.write_text(head + spot + spot.replace("spot,1.10", "on-demand,1.90"))
    half.write_text(head + spot)

    plan(workload_file, prices=[mine], today=TODAY, runs=200, format=Format.JSON)
    options = json.loads(capsys.readouterr().out)["options"]

    assert {option["cost"]["currency"] for option in options} == {"EUR"}
    with pytest.raises(PriceError, match="Currencies are not converted"):
        plan(workload_file, prices=[half], today=TODAY, runs=200)


def test_plan_takes_the_lives_of_a_trace_or_another_law(
    workload_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    trace, dull = tmp_path / "trace.csv", tmp_path / "dull.json"
    trace.write_text(nodes_trace(8, mean_hours=1))
    dull.write_text('{"metadata": {"gap_seconds": 60}, "data": [1, 1]}')

    plan(workload_file, trace=trace, today=TODAY, runs=500, format=Format.JSON)
    short = json.loads(capsys.readouterr().out)
    plan(workload_file, weibull_shape=0.5, today=TODAY, runs=500, format=Format.JSON)
    early = json.loads(capsys.readouterr().out)

    assert short["options"][0]["interruptions"] > 30
    assert early["options"][0]["interruptions"] > 10
    with pytest.raises(OutlastError, match="cannot be combined"):
        plan(workload_file, trace=trace, weibull_shape=0.5)
    with pytest.raises(OutlastError, match=r"--weibull-shape: expected 0\.1 to 10, got 0"):
        plan(workload_file, weibull_shape=0)
    with pytest.raises(TraceError, match="has no losses"):
        plan(workload_file, trace=dull)


def test_plan_takes_the_waits_of_a_trace_too(
    workload_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    trace = tmp_path / "trace.json"
    data = ([1] * 60 + [0] * 120) * 20
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 60}, "data": data}))

    def waiting(polarity: TracePolarity) -> tuple[str, str]:
        plan(workload_file, trace=trace, polarity=polarity, runs=300, format=Format.JSON)
        [told] = [
            (row["value"], row["origin"])
            for row in json.loads(capsys.readouterr().out)["assumptions"]
            if row["name"] == "mean wait for a Spot node"
        ]
        return told

    assert waiting(TracePolarity.AVAILABLE) == ("2.1 h", "given")
    assert waiting(TracePolarity.PREEMPTED) == ("60.0 min", "given")


def test_plan_tells_what_was_repaired_in_a_trace(
    workload_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    trace = tmp_path / "counts.txt"
    trace.write_text(counts_trace(5, hours=12, backwards=3))

    plan(workload_file, trace=trace, today=TODAY, runs=300)

    assert "warning: 3 of" in capsys.readouterr().err


def test_plan_warns_of_old_prices_on_stderr_alone(workload_file: Path, capsys: Captured) -> None:
    plan(workload_file, today=date(2026, 12, 24), runs=200, format=Format.JSON)

    out, err = capsys.readouterr()
    json.loads(out)
    assert "The oldest of these prices is 125 days old." in err


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda file: plan(file, set=["tier"]), "--set: expected key=value"),
        (lambda file: plan(file, runs=0), "--runs: expected 1 to 10,000,000, got 0"),
        (lambda file: plan(file, svg=file), "--svg requires --sweep"),
        (lambda file: plan(file, sweep="x"), "--sweep: expected key=from..to"),
        (
            lambda file: plan(file, sweep="nodes=1,2", svg=Path("x.png")),
            "expected a file name that ends in .svg",
        ),
        (lambda file: plan(file, html=Path("no/such/x.html")), "Could not write 'no/such/x.html'"),
        (lambda file: plan(file, flex_multiplier="0"), "Expected a flex-start multiplier"),
        (lambda file: plan(file, flex_multiplier="abc"), "at most 10, got 'abc'"),
        (lambda file: plan(file, seed=-1), "seed: expected a whole number of at least 0, got -1"),
        (lambda file: plan(file, set=["deadline=1h"]), "the work alone takes 38.0 h"),
        (lambda file: plan(file, prices=[file]), "has no columns"),
    ],
    ids=[
        "set",
        "runs",
        "svg",
        "sweep",
        "png",
        "html",
        "multiplier",
        "no multiplier",
        "seed",
        "deadline",
        "prices",
    ],
)
def test_plan_refuses_what_cannot_be(
    call: Callable[[Path], None], words: str, workload_file: Path
) -> None:
    with pytest.raises(OutlastError) as caught:
        call(workload_file)

    assert words in str(caught.value)


def test_plan_answers_from_a_cold_start(workload_file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outlast", "plan", workload_file],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert done.returncode == 0, done.stderr
    assert "Recommended tier for tiny-gpt: spot" in done.stdout


# prices


def test_prices_show_age_and_source_and_mark_estimates(capsys: Captured) -> None:
    prices("a2-highgpu-1g", "us-central1", today=date(2026, 9, 20))

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == 4
    assert "2.12081 USD   2026-08-21  30 d" in out
    assert "estimate: 0.5 x the on-demand price" in out
    assert err == ""


def test_prices_older_than_90_days_are_warned_of(capsys: Captured) -> None:
    prices("g2-standard-4", today=date(2026, 11, 19))
    fresh = capsys.readouterr().err
    prices("g2-standard-4", today=date(2026, 11, 20))

    assert fresh == ""
    assert "91 days old" in capsys.readouterr().err


def test_prices_of_a_day_to_come_have_no_age_and_are_warned_of(capsys: Captured) -> None:
    prices("g2-standard-4", "us-central1", "spot", today=date(2026, 1, 1))
    out, err = capsys.readouterr()
    prices("g2-standard-4", "spot", today=date(2026, 1, 1), format=PriceFormat.JSON)

    assert "2026-08-21  -  " in out
    assert "warning: A price is dated 2026-08-21, which is after today (2026-01-01)." in err
    assert json.loads(capsys.readouterr().out)["prices"][0]["age_days"] is None


def test_an_imported_catalogue_can_be_handed_to_other_commands(
    tmp_path: Path, capsys: Captured
) -> None:
    catalogue = tmp_path / "catalogue.csv"
    catalogue.write_text(CATALOGUE)

    prices(import_=catalogue, date=date(2026, 8, 21), today=TODAY, format=PriceFormat.CSV)

    out, err = capsys.readouterr()
    rows = parse_prices(out, name="out")
    assert {row.source for row in rows} == {"catalogue.csv"}
    assert not any(row.is_estimate for row in rows)
    assert "Skipped machines without prices for all their parts: 1, such as" in err


def test_prices_as_json_are_exact(capsys: Captured) -> None:
    prices("g2-standard-4", "us-central1", "spot", today=TODAY, format=PriceFormat.JSON)

    [row] = json.loads(capsys.readouterr().out)["prices"]
    assert (row["per_hour"], row["currency"], row["age_days"]) == ("0.42396", "USD", 11)


@pytest.mark.parametrize(
    ("filters", "hint"),
    [
        (["nvidia-h100"], "Did you mean 'nvidia-h100-80gb'?"),
        (["g2-standard-4", "us-centra1"], "Did you mean 'us-central1'?"),
        (["nothing"], "No price has 'nothing'."),
        (["g2-standard-4", "a2-highgpu-1g"], "Run `outlast prices`"),
    ],
)
def test_prices_suggest_the_name_that_was_meant(filters: list[str], hint: str) -> None:
    with pytest.raises(OutlastError, match="No price matches") as caught:
        prices(*filters)

    assert caught.value.hint is not None and caught.value.hint.startswith(hint)


def test_prices_refuse_what_cannot_be(tmp_path: Path) -> None:
    catalogue = tmp_path / "c.csv"
    catalogue.write_text(CATALOGUE)

    with pytest.raises(OutlastError, match="No price matches 'nothing'"):
        prices("nothing")
    with pytest.raises(OutlastError, match="does not contain the date of its prices"):
        prices(import_=catalogue)
    with pytest.raises(OutlastError, match="require --import"):
        prices(source="me")
    with pytest.raises(OutlastError, match="--import and --prices cannot be combined"):
        prices(import_=catalogue, date=TODAY, prices=[catalogue])
    with pytest.raises(PriceError, match=r"Expected a flex-start multiplier .*, got 'nan'"):
        prices(flex_multiplier="nan")
    with pytest.raises(PriceError, match="Could not read"):
        prices(import_=tmp_path / "no.csv", date=TODAY)


# simulate


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    paths = []
    for name, text in (
        ("steps.json", steps_trace(5, steps=600)),
        ("nodes.csv", nodes_trace(5, hours=12)),
        ("counts.txt", counts_trace(5, hours=12, backwards=3)),
    ):
        (tmp_path / name).write_text(text)
        paths.append(tmp_path / name)
    return paths


def test_simulate_compares_the_policies_on_every_format(
    traces: list[Path], capsys: Captured
) -> None:
    simulate(*traces, save_time="30s", unannounced_share=0.5, interval=["10m"], format=Format.JSON)

    reports = json.loads(capsys.readouterr().out)["traces"]
    assert [report["trace"] for report in reports] == ["steps.json", "nodes.csv", "counts.txt"]
    for report in reports:
        rows = {row["policy"]: row for row in report["policies"]}
        assert {
            "best fixed",
            "fixed 10.0 min",
            "Young",
            "Daly",
            "adaptive",
            "oracle",
        } <= rows.keys()
        assert all(0 < row["goodput"] <= rows["oracle"]["goodput"] + 1e-9 for row in rows.values())
        assert rows["best fixed"]["of_best_fixed"] == 1.0
        shares = ("goodput", "lost_share", "save_share", "restart_share")
        assert all(sum(row[s] for s in shares) == pytest.approx(1.0) for row in rows.values())
    assert reports[2]["repairs"]


def test_simulate_keeps_deadlines_and_prices_them(traces: list[Path], capsys: Captured) -> None:
    simulate(traces[1], work="3h", deadline="5h", machine="a2-highgpu-1g", format=Format.JSON)

    kept = json.loads(capsys.readouterr().out)["traces"][0]["deadline"]
    rows = {row["policy"]: row for row in kept["policies"]}
    assert all(row["missed"] == 0 for row in rows.values())
    assert rows["uniform-progress"]["cost"] < rows["on-demand"]["cost"]
    assert kept["oracle_cost_at_least"] <= min(row["cost"] for row in rows.values())


def test_simulate_prints_and_draws(traces: list[Path], tmp_path: Path, capsys: Captured) -> None:
    html, svg = tmp_path / "out.html", tmp_path / "out.svg"

    simulate(traces[2], work="2h", deadline="4h", html=html, svg=svg)

    out, err = capsys.readouterr()
    assert "adaptive" in out and "uniform-progress" in out and "lower bound" in out
    assert "kept the order of the lines" in err
    assert html.read_text().count('<svg class="plot"') == 1
    assert svg.read_text().startswith("<svg")


def test_simulate_says_what_its_tables_are_of(
    traces: list[Path], tmp_path: Path, capsys: Captured
) -> None:
    quiet, html = tmp_path / "quiet.json", tmp_path / "out.html"
    quiet.write_text(f'{{"metadata": {{"gap_seconds": 3600}}, "data": {[1] * 12}}}')

    simulate(quiet, work="2h", deadline="4h", unannounced_share=0.5, html=html)

    out = capsys.readouterr().out
    assert "1 machine, no losses; " in out
    assert "Meeting the deadline (9 runs, all losses unannounced):" in out
    assert "Meeting the deadline (9 runs, all losses unannounced):" in html.read_text()


@pytest.mark.parametrize(
    "keywords", [{}, {"restart_time": "90s", "save_time": "1h"}, {"restart_time": "10d"}]
)
def test_simulate_shows_a_trace_on_which_no_work_can_last(
    keywords: dict[str, str], tmp_path: Path, capsys: Captured
) -> None:
    short = tmp_path / "short.json"
    short.write_text('{"metadata": {"gap_seconds": 60}, "data": [1, 1, 0, 1, 0]}')

    simulate(short, **keywords)
    table = capsys.readouterr().out
    simulate(short, format=Format.JSON, **keywords)
    rows = json.loads(capsys.readouterr().out)["traces"][0]["policies"]

    assert "0.0%              -          -" in table
    assert all(row["of_best_fixed"] is None and row["of_oracle"] is None for row in rows)


def test_no_fixed_interval_is_better_than_the_best_even_if_saves_cost_nothing(
    traces: list[Path], capsys: Captured
) -> None:
    simulate(traces[0], save_time="0s", interval=["500ms"], format=Format.JSON)

    rows = json.loads(capsys.readouterr().out)["traces"][0]["policies"]
    assert all(row["of_best_fixed"] <= 1 for row in rows if row["interval_seconds"] is not None)


def test_simulate_takes_prices_of_ones_own(
    traces: list[Path], tmp_path: Path, capsys: Captured
) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text(
        "machine,accelerator,count,location,tier,price,currency,date,source\n"
        "a4-highgpu-8g,nvidia-b200,8,us-central1,on-demand,80,USD,2026-08-30,contract\n"
    )
    wanted = {"work": "3h", "deadline": "5h", "machine": "a4-highgpu-8g"}

    simulate(traces[1], prices=[mine], **wanted)

    assert "USD" in capsys.readouterr().out
    with pytest.raises(PriceUnknown, match="has no on-demand price"):
        simulate(traces[1], **wanted)
    with pytest.raises(OutlastError, match="--prices requires --machine"):
        simulate(traces[1], prices=[mine])


def test_simulate_names_the_flag_that_is_missing(traces: list[Path]) -> None:
    with pytest.raises(OutlastError) as caught:
        simulate(traces[1], work="2h")
    assert caught.value.hint == "Add --deadline 10h."
    with pytest.raises(OutlastError) as caught:
        simulate(traces[1], deadline="2h")
    assert caught.value.hint == "Add --work 8h."


def test_simulate_gives_the_same_numbers_for_the_same_seed(
    traces: list[Path], capsys: Captured
) -> None:
    texts = []
    for seed in (1, 1, 2):
        simulate(traces[2], seed=seed, format=Format.JSON)
        texts.append(capsys.readouterr().out)

    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"save_time": "soon"}, "'soon' is not a duration"),
        ({"unannounced_share": 1.5}, "--unannounced-share: expected 0 to 1, got 1.5"),
        ({"rounds": 0}, "--rounds: expected 1 to 1000, got 0"),
        ({"start_every": "0s"}, "a duration above 0"),
        ({"seed": -1}, "--seed: expected a whole number of at least 0, got -1"),
        ({"svg": Path("x.png")}, "expected a file name that ends in .svg, got 'x.png'"),
        ({"html": Path("no/such/x.html")}, "Could not write 'no/such/x.html': No such file"),
        ({"work": "2h"}, "--work and --deadline must be used together"),
        ({"work": "5h", "deadline": "4h"}, "too short"),
        ({"work": "20h", "deadline": "40h"}, "which is shorter than the deadline"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_simulate_refuses_what_cannot_be(
    keywords: dict[str, object], words: str, traces: list[Path]
) -> None:
    with pytest.raises(OutlastError) as caught:
        simulate(traces[1], **keywords)

    assert words in str(caught.value)


def test_simulate_refuses_odd_traces_and_files(traces: list[Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text("")

    with pytest.raises(OutlastError, match="No trace given"):
        simulate()
    with pytest.raises(OutlastError, match="--svg supports only one trace"):
        simulate(*traces, svg=tmp_path / "x.svg")
    with pytest.raises(TraceError, match="is empty"):
        simulate(empty)
    with pytest.raises(PriceUnknown, match="No price found"):
        simulate(traces[0], machine="a2-highgpu-1")


# learn and why, on a run that really was interrupted


TRAIN = """\
import os, signal, time
import numpy as np
import outlast

state = {"weights": np.zeros(200_000)}
with outlast.Run("run", state, every_steps=20) as run:
    for step in run.steps(150):
        state["weights"] += 1
        time.sleep(0.005)
        if step == int(os.environ.get("STOP_AT", -1)):
            os.kill(os.getpid(), getattr(signal, os.environ["STOP_BY"]))
"""


@pytest.fixture(scope="module")
def run_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Killed without a word, then told to stop, then left to finish."""
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "train.py").write_text(TRAIN)
    for stop in (
        {"STOP_AT": "50", "STOP_BY": "SIGKILL"},
        {"STOP_AT": "90", "STOP_BY": "SIGTERM"},
        {},
    ):
        subprocess.run(
            [sys.executable, "train.py"],
            cwd=folder,
            env={**os.environ, **stop},
            capture_output=True,
            timeout=PATIENCE_SECONDS,
        )
    return str(folder / "run")


def test_learn_prints_what_a_run_measured(run_url: str, capsys: Captured) -> None:
    learn(run_url, format=Format.JSON)

    found = json.loads(capsys.readouterr().out)
    assert found["interruptions"] == {"announced": 1, "missed": 0, "unannounced": 1}
    assert found["size_bytes"] >= 1_600_000
    assert found["measured"]["unannounced"] == "0.5"
    assert {"save", "stall", "between_interruptions", "waiting", "grace"} <= found[
        "measured"
    ].keys()
    assert found["diff"] is None


def test_learn_prints_a_diff_that_is_a_workload_file_again(
    run_url: str, workload_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    learn(run_url, workload=workload_file)

    out = capsys.readouterr().out
    assert "Interruptions: 2 (1 announced, 0 of those lost work; 1 without notice)" in out
    assert "Suggested interval:" in out
    patch = tmp_path / "learned.patch"
    patch.write_text(out[out.index("--- ") :])
    before = workload_file.read_text()
    subprocess.run(["patch", str(workload_file), str(patch)], check=True, capture_output=True)
    assert workload_file.read_text() != before
    assert Workload.read(workload_file).measured.unannounced == 0.5


def test_why_says_where_the_time_and_the_money_went(run_url: str, capsys: Captured) -> None:
    why(run_url, price="3600", format=Format.JSON)

    found = json.loads(capsys.readouterr().out)
    parts = {part["name"]: part for part in found["parts"]}
    assert found["finished"]
    assert [attempt["ending"] for attempt in found["attempts"]] == [
        "killed",
        "announced",
        "finished",
    ]
    assert [attempt["is_interruption"] for attempt in found["attempts"]] == [True, True, False]
    assert 0 < parts["work"]["seconds"] < found["total_seconds"]
    # 98 steps or more of 5 ms each are in attempts that are recorded completely.
    assert found["total_seconds"] > 98 * 0.005
    # What a kill cost is known only as far as the journal had been written.
    assert parts["redone work"]["seconds"] >= 0
    total = sum(part["seconds"] for part in found["parts"])
    assert total == pytest.approx(found["total_seconds"], rel=0.02)
    # At a dollar a second, the cost of the work is its seconds.
    assert float(parts["work"]["cost"]) == pytest.approx(parts["work"]["seconds"], abs=0.01)
    assert parts["waiting"]["cost"] == "0.00"


def test_why_tells_eviction_by_eviction(
    run_url: str, workload_file: Path, capsys: Captured
) -> None:
    why(run_url, workload=workload_file)

    out = capsys.readouterr().out
    assert "finished" in out and "killed" in out and "announced" in out
    assert "USD" in out
    assert "Worth most:" in out or "No single change" in out


def test_learn_and_why_refuse_a_place_without_a_journal(tmp_path: Path) -> None:
    with pytest.raises(OutlastError, match="No journal found"):
        learn(str(tmp_path))
    with pytest.raises(OutlastError, match="No journal found"):
        why(str(tmp_path))
    with pytest.raises(OutlastError, match="No run given"):
        learn()


def test_why_refuses_a_price_of_zero(run_url: str) -> None:
    with pytest.raises(OutlastError, match="--price: zero is not accepted"):
        why(run_url, price="0")
