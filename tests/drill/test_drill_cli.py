"""`outlast drill` as a user and a CI meet it: exit codes, formats, mistakes, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.drill.drilling import control, nothing_left_behind, processes_with

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


def outlast_drill(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "outlast", "drill", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_job_that_survives_gives_0_and_a_short_story() -> None:
    done = outlast_drill(
        *("--evictions", "2", "--grace", "8s", "--seed", "5", "--expect", "result.json"),
        *("--", *control("well_behaved")),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 evictions, grace 8 s, seed 5" in done.stdout
    assert "ok  not-identical  The same as undisturbed: result.json (bit for bit)." in done.stdout
    assert done.stdout.rstrip().endswith("survived 2 evictions")
    assert "running undisturbed" in done.stderr and "SIGTERM" in done.stderr


def test_a_job_that_does_not_survive_gives_1_in_each_format(tmp_path: Path) -> None:
    page = tmp_path / "drill.html"
    options = ["--evictions", "1", "--no-notice", "0", "--grace", "8s", "--seed", "1"]
    options += ["--no-baseline", "--report", str(page)]

    as_json, as_junit = (
        outlast_drill(*options, "--format", name, "--", *control("exits_zero"))
        for name in ("json", "junit")
    )

    assert (as_json.returncode, as_junit.returncode) == (1, 1)
    verdicts = {one["code"]: one for one in json.loads(as_json.stdout)["verdicts"]}
    assert verdicts["exit-zero"]["ok"] is False
    assert "a Job counts exit 0 as complete" in verdicts["exit-zero"]["reason"]
    failed = ElementTree.fromstring(as_junit.stdout).findall(".//failure")
    assert "exit-zero" in [one.get("type") for one in failed]
    assert as_json.stderr == as_junit.stderr == ""
    assert "exit-zero" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "There is no command to drill."),
        (["--"], "There is no command to drill."),
        (["--", "no-such-command"], "Cannot start 'no-such-command'"),
        (["--grace", "5", "--", "true"], "'5' is not a duration"),
        (["--grace=-3s", "--", "true"], "'-3s' is not a duration"),
        (["--every", "0s", "--", "true"], "--every is '0s'"),
        (["--evictions", "many", "--", "true"], "--evictions"),
        (["--no-notice", "2", "--", "true"], "--no-notice is 2.0"),
        (["--trace", "/none.json", "--", "true"], "The trace '/none.json' cannot be read"),
        (["--expect", "never.txt", "--", "sleep", "0.1"], "'never.txt' was not written"),
        (["--format", "yaml", "--", "true"], '"text", "json", "junit"'),
        (["--evict", "--", "true"], "--evict"),
        (["--report", "/none/drill.html", "--", "true"], "there is no such folder"),
        (["--report", "/tmp", "--", "true"], "that is a folder"),
        (["--every", "99999999999h", "--", "true"], "longer than can be counted"),
        (["--recording", __file__, "--", "true"], "A folder is expected."),
    ],
)
def test_a_mistake_is_told_with_a_hint_and_exit_2(arguments: list[str], words: str) -> None:
    done = outlast_drill(*arguments)

    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    first, second = done.stderr.splitlines()[-2:]
    assert first.startswith("error: ") and words in first
    assert second.startswith("hint:  ")
    assert "Traceback" not in done.stderr


def test_a_command_that_fails_at_once_gives_1_with_its_last_output() -> None:
    done = outlast_drill("--backoff-limit", "1", "--", "sh", "-c", "echo no such data set; exit 3")

    assert done.returncode == 1
    assert "| no such data set" in done.stdout
    assert "failed 2 times, the last time with exit code 3" in done.stdout


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_being_stopped_clears_up_within_two_seconds(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    sign = tmp_path / "up"
    script = f"trap '' TERM INT; (setsid sleep 60 &); touch {sign}; while :; do sleep 0.1; done"
    command = [sys.executable, "-m", "outlast", "drill", "--", "sh", "-c", script]
    program = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    give_up_at = time.monotonic() + 20
    while not sign.exists() and time.monotonic() < give_up_at:
        time.sleep(0.02)

    told = time.monotonic()
    # As a terminal does it, and once more by an impatient user.
    os.killpg(program.pid, number)
    time.sleep(0.02)
    os.killpg(program.pid, number)

    assert program.wait(10) == code
    assert time.monotonic() - told < 2
    assert processes_with(f"TMPDIR={os.environ['TMPDIR']}") == []


@pytest.mark.needs("pid-namespace")
def test_a_drill_that_is_killed_takes_its_nodes_with_it(tmp_path: Path) -> None:
    sign = tmp_path / "up"
    script = f"(setsid sleep 60 &); touch {sign}; while :; do sleep 0.1; done"
    command = [sys.executable, "-m", "outlast", "drill", "--keep", str(tmp_path / "kept")]
    program = subprocess.Popen(
        [*command, "--", "sh", "-c", script], stderr=subprocess.DEVNULL, start_new_session=True
    )
    while not sign.exists():
        time.sleep(0.02)

    program.kill()
    program.wait()

    give_up_at = time.monotonic() + 5
    mark = f"OUTLAST_RUN_URL={tmp_path}/kept/baseline/run"
    while processes_with(mark) and time.monotonic() < give_up_at:
        time.sleep(0.02)
    assert processes_with(mark) == []


def test_the_harness_hardly_slows_an_undisturbed_command_down(tmp_path: Path) -> None:
    """Generous, because other tests run at the same time; `bench/drill.py` measures it."""
    done = outlast_drill(
        *("--evictions", "1", "--timeout", "20s", "--format", "json"), *("--", "sleep", "1.5")
    )

    figures = json.loads(done.stdout)["figures"]
    assert 1.5 <= figures["seconds"] < 1.9
