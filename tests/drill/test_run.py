"""Runs in real processes, evicted and killed, end with the same bits as undisturbed ones."""

import dataclasses
import functools
import itertools
import random
import re
import signal
from pathlib import Path

import pytest

from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.journal import FinalDecision, SaveFailed, read_journal
from outlast.storage import open_store
from tests.faults.lives import life
from tests.patience import eventually

pytest.importorskip("torch")

from tests.faults.stores import install_costly, install_killing, install_slow
from tests.faults.training import STEPS, Plan, train

BOUNDARIES_MIN = 14


@functools.cache
def undisturbed(folder: Path, own_generator: bool, /) -> str:
    """What a run ends with that nobody disturbs."""
    plan = Plan(
        url=str(folder / f"run-{own_generator}"),
        result=folder / f"result-{own_generator}",
        own_generator=own_generator,
        every_steps=1000,
        pause_seconds=0.0,
    )
    with life(train, plan, log=folder / "log") as one:
        assert one.wait() == 0, one.output
    return plan.result.read_text()


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calm")


def plan_in(tmp_path: Path, **changes: object) -> Plan:
    plan = Plan(url=str(tmp_path / "run"), result=tmp_path / "result")
    return dataclasses.replace(plan, **changes)  # type: ignore[arg-type]  # fields of a plan


def assert_all_listed_checkpoints_verify(url: str) -> None:
    store = open_store(url)
    for name in manifest_names(store):
        assert verify_checkpoint(store, read_manifest(store, name), lambda _: None) == []


@pytest.mark.parametrize(
    ("own_generator", "workers", "seed"),
    [
        pytest.param(True, 0, 1, id="own generator"),
        pytest.param(False, 0, 2, id="global generator"),
        pytest.param(True, 2, 3, id="two workers"),
    ],
)
def test_a_run_killed_at_random_instants_ends_bit_identical(
    tmp_path: Path, calm: Path, own_generator: bool, workers: int, seed: int
) -> None:
    chance = random.Random(seed)
    plan = plan_in(tmp_path, own_generator=own_generator, workers=workers)
    log = tmp_path / "log"
    codes = []

    for _ in range(16):
        with life(train, plan, log=log) as one:
            number = chance.choice((signal.SIGTERM, signal.SIGKILL))
            if not one.ended_within(chance.uniform(0.02, 0.35)):
                one.signal(number)
            codes.append(one.wait())
        # Before the guard is open, a SIGTERM ends the process as it would any other.
        assert codes[-1] in {signal.SIGTERM: (75, 143, 0), signal.SIGKILL: (137, 0)}[number]
    assert_all_listed_checkpoints_verify(plan.url)
    with life(train, plan, log=log) as last:
        assert last.wait() == 0, last.output

    assert plan.result.read_text() == undisturbed(calm, own_generator), f"seed {seed}, {codes}"


def test_a_run_killed_before_and_after_every_write_ends_bit_identical(
    tmp_path: Path, calm: Path
) -> None:
    plan = plan_in(tmp_path, every_steps=2, pause_seconds=0.0)
    log = tmp_path / "log"
    code, boundary = 137, 0

    while code != 0:
        doomed = dataclasses.replace(plan, prepare=functools.partial(install_killing, boundary))
        with life(train, doomed, log=log) as one:
            code = one.wait()
        assert code in (137, 0), one.output
        assert_all_listed_checkpoints_verify(plan.url)
        boundary += 1

    kinds = set(re.findall(r"killed (before|after) (\w+)", log.read_text()))
    assert kinds >= set(itertools.product(("before", "after"), ("packs", "manifests")))
    assert boundary >= BOUNDARIES_MIN
    assert plan.result.read_text() == undisturbed(calm, True)


def test_sigterm_saves_and_leaves_with_75_and_nothing_after_the_loop_runs(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, every_steps=1000, pause_seconds=0.0)
    waiting = dataclasses.replace(plan, waits_at=2)
    with life(train, waiting, log=tmp_path / "log") as one:
        eventually(lambda: one.output.count("computed a step") >= 2, "the second step")
        one.signal(signal.SIGTERM)

        assert one.wait() == 75

    assert "finished" not in one.output
    [name] = manifest_names(open_store(plan.url))
    with life(train, plan, log=tmp_path / "log") as again:
        assert again.wait() == 0
    step = read_manifest_step(name)
    assert step > 0
    assert f"entered at {step}" in again.output


def read_manifest_step(name: str) -> int:
    return int(name.removeprefix("manifests/").partition("-")[0])


def test_a_finished_run_yields_nothing_more(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, pause_seconds=0.0)
    for _ in range(2):
        with life(train, plan, log=tmp_path / "log") as one:
            assert one.wait() == 0

    assert f"entered at {STEPS}" in one.output


def test_a_store_that_hangs_does_not_keep_the_process_past_its_deadline(tmp_path: Path) -> None:
    plan = plan_in(
        tmp_path,
        grace_seconds=3.0,
        pause_seconds=0.05,
        prepare=functools.partial(install_slow, 3600.0, 2),
    )
    with life(train, plan, log=tmp_path / "log") as one:
        eventually(lambda: "slow: packs/" in one.output, "a write hangs")
        one.signal(signal.SIGTERM)

        assert one.wait() == 75
    assert manifest_names(open_store(plan.url))

    calm_plan = dataclasses.replace(plan, prepare=None, pause_seconds=0.0)
    with life(train, calm_plan, log=tmp_path / "log") as again:
        assert again.wait() == 0


def test_a_save_that_outlasts_the_grace_is_not_started_and_the_journal_says_why(
    tmp_path: Path,
) -> None:
    plan = plan_in(
        tmp_path,
        every_steps=4,
        grace_seconds=600.0,
        waits_at=5,
        prepare=functools.partial(install_costly, 3600.0),
    )
    with life(train, plan, log=tmp_path / "log") as one:
        eventually(lambda: manifest_names(open_store(plan.url)), "the first checkpoint")
        one.signal(signal.SIGTERM)
        assert one.wait() == 75

    [record] = read_journal(open_store(plan.url))
    [decision] = [event for event in record.events if isinstance(event, FinalDecision)]
    assert decision.choice.value in ("keep", "staged")
    assert decision.numbers["seconds_needed"] > decision.numbers["seconds_left"]
    failures = [event for event in record.events if isinstance(event, SaveFailed)]
    assert len(failures) <= 1
