"""`outlast demo`: both parts for real, the folder it leaves, and Ctrl-C in the middle."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from outlast.cli.run.demo import _summary
from outlast.demo import runner
from outlast.demo.digits import draw_digits
from outlast.demo.runner import MARKER, OUTPUTS, DemoResult, demo_folder
from outlast.drills.errors import DrillError
from outlast.drills.run.events import Listener, ignore
from tests.drill.drilling import REPEATS_MAX, nothing_left_behind, processes_with
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


@contextmanager
def unseen(_: str) -> Iterator[Listener]:
    yield ignore


def outlast_demo(out: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A demo. It is repeated if the machine stalled so that its evictions came too late."""
    command = [sys.executable, "-m", "outlast", "demo", "--out", str(out), *arguments]
    for _ in range(REPEATS_MAX):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "inconclusive" not in done.stdout:
            break
    return done


def assert_shown(done: "subprocess.CompletedProcess[str]", out: Path) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout)
    training, scoring = shown["parts"]
    assert shown["passed"] and training["passed"] and scoring["passed"]
    for part in (training, scoring):
        assert part["evictions"] >= 5 and part["without_notice"] >= 1
        assert part["reasons"] == [] and part["verdict"] == "survived"
    assert {"name": "identical", "result": "pass"}.items() <= training["checks"][6].items()
    assert (scoring["items_lost"], scoring["duplicates"]) == (0, 0)
    assert sorted(path.name for path in out.iterdir()) == sorted([MARKER, *OUTPUTS])
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert Counter(row["key"] for row in rows) == Counter(
        f"image-{number:04}" for number in range(runner.ITEMS)
    )


def test_both_parts_survive_and_leave_only_their_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"

    done = outlast_demo(out, "--seed", "3", "--format", "json")

    assert_shown(done, out)
    assert done.stderr == ""
    shown = json.loads(done.stdout)
    assert shown["images"] >= 2000 and shown["accuracy"] > 0.9
    for part in shown["parts"]:
        assert Path(part["report"]).read_text().startswith("<!doctype html>")


@pytest.mark.soak
@pytest.mark.parametrize("number", range(100))
def test_every_seed_survives(number: int, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(100_000)
    print(f"demo {number} has seed {seed}")

    done = outlast_demo(tmp_path / "out", "--seed", str(seed), "--format", "json")

    assert_shown(done, tmp_path / "out")


def test_a_training_that_forgets_its_random_state_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Path(runner.__file__).with_name("training.py").read_text()
    broken = tmp_path / "training.py"
    broken.write_text(whole.replace(', "rng": rng}', "}").replace("STEPS = 3600", "STEPS = 1500"))
    assert '"rng"' not in broken.read_text() and "1500" in broken.read_text()
    command = [*runner._program("training.py", tmp_path / "model.npz")[:-2], str(broken)]
    monkeypatch.setattr(runner, "_program", lambda _, target: [*command, str(target)])
    digits = draw_digits(500, seed=1)

    part = runner._train(digits, tmp_path, tmp_path, 1, unseen)
    summary = _summary(DemoResult(seed=1, seconds=20.0, parts=(part,), accuracy=None))

    assert not part.passed
    assert any(reason.startswith("identical: ") for reason in part.reasons)
    assert "FAIL training: identical" in summary
    assert "The demo failed. Repeat it with `outlast demo --seed 1`." in summary


def test_what_was_never_compared_does_not_pass() -> None:
    nothing: Any = SimpleNamespace(comparisons=())
    few: Any = SimpleNamespace(comparisons=[SimpleNamespace(items=[SimpleNamespace(items=7)])])

    assert runner._not_compared(nothing) == ["The model was not compared with the baseline."]
    assert runner._not_counted(nothing) == ["Expected 2,400 compared items, got none."]
    assert runner._not_counted(few) == ["Expected 2,400 compared items, got 7."]


def test_the_same_seed_draws_the_same_images() -> None:
    first, again, other = (draw_digits(20, seed=seed) for seed in (3, 3, 4))

    assert np.array_equal(first.images, again.images)
    assert np.array_equal(first.labels, again.labels)
    assert not np.array_equal(first.images, other.images)


@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [
        (signal.SIGINT, 130, "eviction 1 of attempt"),
        (signal.SIGTERM, 143, "running without evictions"),
    ],
    ids=["ctrl-c", "sigterm"],
)
def test_being_stopped_clears_up(
    number: signal.Signals, code: int, moment: str, tmp_path: Path
) -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", "outlast", "demo", "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert program.stderr is not None
    for line in program.stderr:
        if moment in line:
            break

    os.killpg(program.pid, number)
    time.sleep(0.02)
    os.killpg(program.pid, number)
    rest = program.stderr.read()
    program.stderr.close()

    assert program.wait(PATIENCE_SECONDS) == code
    assert "Traceback" not in rest
    assert processes_with(f"TMPDIR={os.environ['TMPDIR']}") == []
    assert not list((tmp_path / "out").glob("*.new"))


def test_a_folder_of_someone_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "model.npz").write_text("precious")

    done = outlast_demo(mine)

    assert done.returncode == 2
    assert "is not empty and was not created by an earlier demo." in done.stderr
    assert "hint:  Choose another folder with --out." in done.stderr
    assert [path.name for path in mine.iterdir()] == ["model.npz"]


def test_the_folder_of_an_earlier_demo_is_used_again_and_keeps_what_is_not_the_demos(
    tmp_path: Path,
) -> None:
    with demo_folder(tmp_path / "out") as folder:
        for name in (*OUTPUTS, "notes.txt", f".{OUTPUTS[0]}.new"):
            (folder / name).write_text("old")

    with demo_folder(tmp_path / "out") as folder:
        found = sorted(path.name for path in folder.iterdir())

    assert found == [MARKER, "notes.txt"]


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        demo_folder(tmp_path / "out"),
        pytest.raises(DrillError, match="Another demo is running in the folder"),
        demo_folder(tmp_path / "out"),
    ):
        pass


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    for name in ("file", "file/below"):
        with (
            pytest.raises(DrillError, match="Could not use the folder "),
            demo_folder(tmp_path / name),
        ):
            pass


def test_a_mark_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MARKER).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(DrillError), demo_folder(tmp_path / "out"):
        pass

    assert not (tmp_path / "elsewhere").exists()


def test_a_seed_below_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DrillError, match=r"--seed: expected 0 or more, got -1\."):
        runner.run_demo(tmp_path / "out", seed=-1, present=unseen)
