"""`outlast demo`: both acts for real, the folder it leaves, and Ctrl-C in the middle."""

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

from outlast.cli.demo import _story
from outlast.drill.demo import acts
from outlast.drill.demo.acts import Demo
from outlast.drill.demo.digits import draw_digits
from outlast.drill.demo.folder import MADE, MARK, demo_folder
from outlast.drill.errors import DrillError
from outlast.drill.events import Listener, ignore
from tests.drill.drilling import nothing_left_behind, processes_with

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


@contextmanager
def unseen(_: str) -> Iterator[Listener]:
    yield ignore


def outlast_demo(out: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "outlast", "demo", "--out", str(out), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def assert_shown(done: "subprocess.CompletedProcess[str]", out: Path) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout)
    training, scoring = shown["acts"]
    assert shown["passed"] and training["passed"] and scoring["passed"]
    for act in (training, scoring):
        assert act["evictions"] >= 5 and act["without_notice"] >= 1
        assert act["reasons"] == [] and all(one["ok"] for one in act["verdicts"])
    assert "not-identical" in [one["code"] for one in training["verdicts"]]
    assert (scoring["items_lost"], scoring["items_doubled"]) == (0, 0)
    assert sorted(path.name for path in out.iterdir()) == sorted([MARK, *MADE])
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert Counter(row["key"] for row in rows) == Counter(
        f"image-{number:04}" for number in range(acts.ITEMS)
    )


def test_both_acts_survive_and_leave_only_their_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"

    done = outlast_demo(out, "--seed", "3", "--format", "json")

    assert_shown(done, out)
    assert done.stderr == ""
    shown = json.loads(done.stdout)
    assert shown["images"] >= 2000 and shown["right"] > 0.9
    for act in shown["acts"]:
        assert Path(act["report"]).read_text().startswith("<!doctype html>")


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
    whole = Path(acts.__file__).with_name("training.py").read_text()
    broken = tmp_path / "training.py"
    broken.write_text(whole.replace(', "rng": rng}', "}").replace("STEPS = 3600", "STEPS = 1500"))
    assert '"rng"' not in broken.read_text() and "1500" in broken.read_text()
    command = [*acts._program("training.py", tmp_path / "model.npz")[:-2], str(broken)]
    monkeypatch.setattr(acts, "_program", lambda _, target: [*command, str(target)])
    digits = draw_digits(500, seed=1)

    act = acts._training(digits, tmp_path, tmp_path, 1, unseen)
    story = _story(Demo(seed=1, seconds=20.0, acts=(act,), right=None))

    assert not act.passed
    assert any(reason.startswith("not-identical: ") for reason in act.reasons)
    assert "NO  training: not-identical" in story
    assert "Did NOT pass. `outlast demo --seed 1` repeats it." in story


def test_what_was_never_compared_does_not_pass() -> None:
    nothing: Any = SimpleNamespace(comparisons=())
    few: Any = SimpleNamespace(comparisons=[SimpleNamespace(items=[SimpleNamespace(items=7)])])

    assert acts._not_same(nothing) == ["The model was not compared with the undisturbed one."]
    assert acts._not_once(nothing) == ["Of 2,400 items, none were compared."]
    assert acts._not_once(few) == ["Of 2,400 items, 7 were compared."]


def test_the_same_seed_draws_the_same_images() -> None:
    first, again, other = (draw_digits(20, seed=seed) for seed in (3, 3, 4))

    assert np.array_equal(first.images, again.images)
    assert np.array_equal(first.labels, again.labels)
    assert not np.array_equal(first.images, other.images)


@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [
        (signal.SIGINT, 130, "eviction 1 of attempt"),
        (signal.SIGTERM, 143, "running undisturbed"),
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

    told = time.monotonic()
    os.killpg(program.pid, number)
    time.sleep(0.02)
    os.killpg(program.pid, number)
    rest = program.stderr.read()
    program.stderr.close()

    assert program.wait(20) == code
    # It takes well below two seconds where nothing else runs.
    assert time.monotonic() - told < 10
    assert "Traceback" not in rest
    assert processes_with(f"TMPDIR={os.environ['TMPDIR']}") == []
    assert not list((tmp_path / "out").glob("*.new"))


def test_a_folder_of_someone_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "model.npz").write_text("precious")

    done = outlast_demo(mine)

    assert done.returncode == 2
    assert "is not empty, and no earlier demo made it." in done.stderr
    assert "hint:  Name another one with --out." in done.stderr
    assert [path.name for path in mine.iterdir()] == ["model.npz"]


def test_the_folder_of_an_earlier_demo_is_used_again_and_keeps_what_is_not_the_demos(
    tmp_path: Path,
) -> None:
    with demo_folder(tmp_path / "out") as folder:
        for name in (*MADE, "notes.txt", f".{MADE[0]}.new"):
            (folder / name).write_text("old")

    with demo_folder(tmp_path / "out") as folder:
        found = sorted(path.name for path in folder.iterdir())

    assert found == [MARK, "notes.txt"]


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        demo_folder(tmp_path / "out"),
        pytest.raises(DrillError, match="Another demo is at work in the folder"),
        demo_folder(tmp_path / "out"),
    ):
        pass


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    for name in ("file", "file/below"):
        with (
            pytest.raises(DrillError, match="cannot be used: "),
            demo_folder(tmp_path / name),
        ):
            pass


def test_a_mark_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MARK).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(DrillError), demo_folder(tmp_path / "out"):
        pass

    assert not (tmp_path / "elsewhere").exists()


def test_a_seed_below_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DrillError, match=r"The seed is -1\."):
        acts.hold_demo(tmp_path / "out", seed=-1, stage=unseen)
