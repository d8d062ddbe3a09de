"""`outlast lint` and `outlast rules` as people and pipelines run them."""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.cli.app import run
from tests.unit.manifests.lint.linted import SPOT_JOB
from tests.unit.manifests.rules.harness import FIXTURES

UNQUOTED = (FIXTURES / "unquoted-value/flagged.yaml").read_text()


def outlast(*arguments: str, cwd: Path, given: str = "") -> "subprocess.CompletedProcess[str]":
    """The command in this process, which is much quicker than a new one."""
    out, err = io.StringIO(), io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("sys.stdin", stdin)
        code = run(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(SPOT_JOB)
    return tmp_path


def test_findings_go_to_stdout_and_talk_to_stderr(folder: Path) -> None:
    done = outlast("lint", "job.yaml", cwd=folder)

    assert done.returncode == 1
    assert done.stdout.startswith("job.yaml:4:9: info OL301 no-pending-alert: ")
    assert done.stderr == "1 error, 3 warnings, 1 info in 1 object (1 file).\n"


def test_json_is_an_object_with_the_findings(folder: Path) -> None:
    done = outlast("lint", ".", "--format", "json", cwd=folder)

    findings = json.loads(done.stdout)["findings"]
    assert {finding["code"] for finding in findings} == {
        "OL101",
        "OL103",
        "OL104",
        "OL301",
        "OL904",
    }
    assert set(findings[0]) >= {
        "code",
        "name",
        "severity",
        "message",
        "hint",
        "file",
        "line",
        "column",
        "end_line",
        "end_column",
        "fixable",
    }


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 1),
        (["--fail-on", "error"], 1),
        (["--fail-on", "never"], 0),
        (["--select", "OL904"], 1),
        (["--select", "OL904", "--fail-on", "error"], 0),
        (["--select", "OL301"], 0),
        (["--select", "OL301", "--fail-on", "info"], 1),
        (["--ignore", "OL1,OL9"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_exit_code_follows_the_severity(folder: Path, arguments: list[str], code: int) -> None:
    assert outlast("lint", "job.yaml", *arguments, cwd=folder).returncode == code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lint"], "No path was given."),
        (["lint", "job.yaml", "--fxi"], "Unknown option: --fxi."),
        (["lint", "gone.yaml"], "There is no file or folder 'gone.yaml'."),
        (["lint", "empty"], "Nothing was linted"),
        (["lint", "job.yaml", "--select", "OL777"], "There is no rule 'OL777'."),
        (["lint", "job.yaml", "--fix", "--diff"], "cannot be combined"),
        (["lint", "job.yaml", "--unsafe-fixes"], "--unsafe-fixes requires --fix or --diff"),
        (["lint", "-", "--fix"], "Standard input cannot be fixed"),
        (["lint", "job.yaml", "--write-baseline"], "--write-baseline requires --baseline"),
        (
            ["lint", "job.yaml", "--baseline", "b", "--write-baseline", "--fix"],
            "cannot be combined with --fix",
        ),
        (["lint", "job.yaml", "--baseline", "gone.json"], "There is no baseline 'gone.json'."),
        (["lint", "job.yaml", "--config", "gone.toml"], "There is no file 'gone.toml'."),
        (["lint", "job.yaml", "--pools", "other.yaml"], "No node pool was found in 'other.yaml'."),
        (["lint", "job.yaml", "--kubernetes-version", "3"], "no schemas for Kubernetes '3'"),
        (["lint", "job.yaml", "--format", "yaml"], "yaml"),
        (["rules", "OL777"], "There is no rule 'OL777'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_lint_that_cannot_run_exits_with_2(
    folder: Path, arguments: list[str], words: str
) -> None:
    (folder / "empty").mkdir()
    (folder / "other.yaml").write_text(UNQUOTED)

    done = outlast(*arguments, cwd=folder)

    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ") and words in first
    assert second.startswith("hint:  ")


def test_standard_input_is_linted(folder: Path) -> None:
    done = outlast("lint", "-", "--select", "OL904", cwd=folder, given=SPOT_JOB)

    assert done.stdout.startswith("<stdin>:13:18: warning OL904")


def test_pools_are_read_from_their_own_option(folder: Path) -> None:
    (folder / "job.yaml").write_text(SPOT_JOB.replace("cloud.google.com/gke-spot", "pool"))
    (folder / "pools.sh").write_text(
        "gcloud container node-pools create a --spot --node-labels=pool=true\n"
    )

    done = outlast("lint", "--pools", "pools.sh", "job.yaml", "--select", "OL101", cwd=folder)

    assert "job.yaml:7:5: warning OL101" in done.stdout


def test_fixes_are_written_and_then_nothing_is_left_to_fix(folder: Path) -> None:
    path = folder / "pod.yaml"
    path.write_text(UNQUOTED)
    path.chmod(0o640)

    first = outlast("lint", "pod.yaml", "--fix", "--select", "OL503", cwd=folder)
    once = path.read_text()
    second = outlast("lint", "pod.yaml", "--fix", "--select", "OL503", cwd=folder)

    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stderr == "No findings in 1 object (1 file), 3 fixed.\n"
    assert 'attempt: "3"  # <- OL503' in once
    assert path.read_text() == once
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in folder.iterdir() if one.name.startswith(".outlast")] == []


def test_a_diff_changes_nothing_and_can_be_applied(folder: Path) -> None:
    path = folder / "pod.yaml"
    path.write_text(UNQUOTED)

    done = outlast("lint", "pod.yaml", "--diff", cwd=folder)

    assert done.returncode == 1
    assert path.read_text() == UNQUOTED
    applied = subprocess.run(
        ["git", "apply", "-p0", "-"], cwd=folder, input=done.stdout, text=True, capture_output=True
    )
    assert applied.returncode == 0, applied.stderr
    assert outlast("lint", "pod.yaml", "--select", "OL503", cwd=folder).returncode == 0


def test_a_baseline_is_written_and_honoured(folder: Path) -> None:
    wrote = outlast("lint", "job.yaml", "--baseline", "known.json", "--write-baseline", cwd=folder)
    after = outlast("lint", "job.yaml", "--baseline", "known.json", cwd=folder)

    assert wrote.returncode == after.returncode == 0
    assert after.stdout == ""
    assert "5 in the baseline" in after.stderr


def test_the_nearest_options_count_and_the_command_line_goes_before(folder: Path) -> None:
    (folder / "outlast.toml").write_text('[lint]\nselect = ["OL904"]\nfail-on = "error"\n')

    by_file = outlast("lint", "job.yaml", cwd=folder)
    by_line = outlast("lint", "job.yaml", "--select", "OL103", cwd=folder)

    assert by_file.returncode == 0 and "OL904" in by_file.stdout
    assert by_line.returncode == 1 and "OL103" in by_line.stdout


def test_a_skipped_template_is_told(folder: Path) -> None:
    (folder / "chart.yaml").write_text("kind: Pod\nname: {{ .Values.name }}\n")

    done = outlast("lint", ".", cwd=folder)

    assert "notice: chart.yaml: skipped, because it is a Helm template." in done.stderr


def test_the_rules_are_listed_and_each_has_its_manual(folder: Path) -> None:
    listed = outlast("rules", cwd=folder)
    page = outlast("rules", "no-grace", cwd=folder)
    data = json.loads(outlast("rules", "OL101", "--format", "json", cwd=folder).stdout)

    assert "OL101  warning  no-grace" in listed.stdout
    assert page.stdout.startswith("OL101 no-grace (warning)\n\nA Spot Pod")
    assert "\nWhy: " in page.stdout and "\nInstead: " in page.stdout
    assert data["rules"][0]["name"] == "no-grace"


def test_no_bytes_bring_a_traceback(folder: Path) -> None:
    (folder / "bad.yaml").write_bytes(b"kind: \xff\x00\n\x1b[31m: [")

    done = subprocess.run(
        [sys.executable, "-m", "outlast", "lint", "bad.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert "OL901" in done.stdout
    assert "Traceback" not in done.stderr and "\x1b" not in done.stdout


def test_a_reader_that_has_seen_enough_gets_no_traceback(folder: Path) -> None:
    command = f"{sys.executable} -m outlast lint . --format json | head -n 1"

    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True)

    assert done.stdout == "{\n"
    assert "Traceback" not in done.stderr
