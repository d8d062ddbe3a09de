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

from tests.drill.drilling import REPEATS_MAX, control, nothing_left_behind, processes_with
from tests.patience import PATIENCE_SECONDS, eventually

INCONCLUSIVE = 4


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


def outlast_drill(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "outlast", "drill", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def conclusive_outlast_drill(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """As `conclusive_drill`."""
    done = outlast_drill(*arguments)
    for _ in range(REPEATS_MAX):
        if done.returncode != INCONCLUSIVE:
            break
        done = outlast_drill(*arguments)
    return done


def test_a_job_that_survives_gives_0_and_a_short_story() -> None:
    done = conclusive_outlast_drill(
        *("--evictions", "2", "--grace", "60s", "--seed", "5", "--expect", "result.json"),
        *("--", *control("well_behaved")),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 evictions, grace 60 s, seed 5" in done.stdout
    assert "PASS  identical      Same as the baseline: result.json (bit for bit)." in done.stdout
    assert done.stdout.rstrip().endswith("survived 2 evictions")
    assert "running without evictions" in done.stderr and "SIGTERM" in done.stderr


def test_a_job_that_does_not_survive_gives_1_in_each_format(tmp_path: Path) -> None:
    page = tmp_path / "drill.html"
    options = ["--evictions", "1", "--no-notice", "0", "--grace", "60s", "--seed", "1"]
    options += ["--skip-baseline", "--report", str(page)]

    as_json, as_junit = (
        conclusive_outlast_drill(*options, "--format", name, "--", *control("exits_zero"))
        for name in ("json", "junit")
    )

    assert (as_json.returncode, as_junit.returncode) == (1, 1)
    checks = {one["name"]: one for one in json.loads(as_json.stdout)["checks"]}
    assert checks["exit-code"]["result"] == "fail"
    assert "a Job counts exit code 0 as complete" in checks["exit-code"]["reason"]
    failed = ElementTree.fromstring(as_junit.stdout).findall(".//failure")
    assert "exit-code" in [one.get("type") for one in failed]
    assert as_json.stderr == as_junit.stderr == ""
    assert "exit-code" in page.read_text()


@pytest.mark.parametrize(("strict", "code"), [([], 0), (["--strict"], 1)])
def test_a_job_that_was_killed_but_lost_nothing_gives_0_and_1_if_strict(
    strict: list[str], code: int
) -> None:
    options = ["--evictions", "1", "--no-notice", "0", "--hostile", "0", "--grace", "0.2s"]
    options += ["--seed", "1", "--expect", "result.json", *strict]

    done = conclusive_outlast_drill(*options, "--", *control("ignores_sigterm"))

    assert done.returncode == code, done.stdout
    assert "WARN  left-in-time   In 1 of 1 evictions it did not react to SIGTERM" in done.stdout
    assert done.stdout.rstrip().endswith("survived 1 eviction with warnings: left-in-time")


def test_a_drill_that_proves_nothing_gives_4() -> None:
    done = outlast_drill("--evictions", "1", "--hostile", "1", "--no-notice", "0", "--", "true")

    assert done.returncode == 4, done.stdout
    assert "FAIL  conclusive" in done.stdout
    assert done.stdout.rstrip().endswith("inconclusive after 0 of 1 evictions")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "No command was given."),
        (["--"], "No command was given."),
        (["--", "no-such-command"], "Cannot start 'no-such-command'"),
        (["--grace", "5", "--", "true"], "'5' is not a duration"),
        (["--grace=-3s", "--", "true"], "'-3s' is not a duration"),
        (["--every", "0s", "--", "true"], "--every is '0s'"),
        (["--evictions", "many", "--", "true"], "--evictions"),
        (["--no-notice", "2", "--", "true"], "--no-notice is 2.0"),
        (["--trace", "/none.json", "--", "true"], "Could not read the trace '/none.json'"),
        (["--expect", "never.txt", "--", "sleep", "0.1"], "did not write 'never.txt'"),
        (["--format", "yaml", "--", "true"], '"text", "json", "junit"'),
        (["--evict", "--", "true"], "--evict"),
        (["--baseline", "--", "true"], "Unknown option: --baseline."),
        (["--report", "/none/drill.html", "--", "true"], "whose folder does not exist"),
        (["--report", "/tmp", "--", "true"], "which is a folder"),
        (["--every", "99999999999h", "--", "true"], "The duration is too long."),
        (["--recording", __file__, "--", "true"], "Expected a folder."),
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
    assert "The baseline run failed 2 times without any eviction" in done.stdout


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_being_stopped_clears_up(number: signal.Signals, code: int, tmp_path: Path) -> None:
    sign = tmp_path / "up"
    script = f"trap '' TERM INT; (setsid sleep 3600 &); touch {sign}; while :; do sleep 0.1; done"
    command = [sys.executable, "-m", "outlast", "drill", "--", "sh", "-c", script]
    program = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    eventually(sign.exists, "the command runs")

    # As a terminal does it, and once more by an impatient user.
    os.killpg(program.pid, number)
    time.sleep(0.02)
    os.killpg(program.pid, number)

    assert program.wait(PATIENCE_SECONDS) == code
    assert processes_with(f"TMPDIR={os.environ['TMPDIR']}") == []


@pytest.mark.needs("pid-namespace")
def test_a_drill_that_is_killed_takes_its_nodes_with_it(tmp_path: Path) -> None:
    sign = tmp_path / "up"
    script = f"(setsid sleep 3600 &); touch {sign}; while :; do sleep 0.1; done"
    command = [sys.executable, "-m", "outlast", "drill", "--keep", str(tmp_path / "kept")]
    program = subprocess.Popen(
        [*command, "--", "sh", "-c", script], stderr=subprocess.DEVNULL, start_new_session=True
    )
    eventually(sign.exists, "the command runs")

    program.kill()
    program.wait()

    mark = f"OUTLAST_RUN_URL={tmp_path}/kept/baseline/run"
    eventually(lambda: processes_with(mark) == [], "the node is gone")
