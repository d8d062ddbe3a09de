"""The drill must judge every specimen as an expert would, on a quiet and on a busy machine.

`SPECIMEN_SEEDS` and `NEVER_SAVED_DRILLS` set how many drills a soak runs.
"""

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.drills.judge.verdict import CheckResult
from tests.drill.drilling import nothing_left_behind
from tests.drill.specimen_drills import FOLDER, Specimen, specimens

ALL = specimens()
SEEDS = int(os.environ.get("SPECIMEN_SEEDS", "3"))
DRILLS = int(os.environ.get("NEVER_SAVED_DRILLS", "1000"))
PARTS = 4
BUSY = "import os\nwhile os.getppid() == {parent}: sum(range(10_000))"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


def by_name(one: Specimen) -> str:
    return one.name


def test_every_specimen_has_its_verdict() -> None:
    programs = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "habits"}

    assert programs == {one.module for one in ALL}
    assert len(ALL) >= 40


def test_a_verdict_that_differs_from_the_experts_is_noticed() -> None:
    [right] = [one for one in ALL if one.name == "never_saves_silently"]
    report = right.drill(seed=1)
    wrong = Specimen(name=right.name, verdict="survived", fail=["identical"])

    assert right.wrongs(report) == [], report.story()
    assert {"verdict: did not survive", "identical: pass"} <= set(wrong.wrongs(report))


@pytest.mark.parametrize("specimen", [one for one in ALL if one.quick], ids=by_name)
def test_a_specimen_is_judged_as_by_an_expert(specimen: Specimen) -> None:
    report = specimen.drill(seed=1)

    assert specimen.wrongs(report) == [], report.story()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("load", [0, 2], ids=["quiet", "busy"])
@pytest.mark.parametrize("specimen", ALL, ids=by_name)
def test_a_specimen_is_judged_as_by_an_expert_whatever_the_load_and_the_seed(
    specimen: Specimen, load: int
) -> None:
    with busy(load * (os.cpu_count() or 1)):
        for seed in range(1, SEEDS + 1):
            report = specimen.drill(seed)

            assert specimen.wrongs(report) == [], report.story()


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_program_that_never_resumes_never_survives_under_random_load(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECIMEN_STEPS", "15")
    never = [one for one in ALL if one.never_resumes]
    rng = random.Random(part)
    for number in range(part, DRILLS, PARTS):
        with busy(rng.randrange(2 * (os.cpu_count() or 1) + 1)):
            report = rng.choice(never).drill(seed=rng.randrange(10**6), evictions=rng.randint(1, 3))

        assert not report.survived, f"drill {number}\n{report.story()}"
        assert "resumed" not in report.names_with(CheckResult.PASS), report.story()


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that compute all the time, until the block ends."""
    command = [sys.executable, "-S", "-c", BUSY.format(parent=os.getpid())]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()
