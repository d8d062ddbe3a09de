"""With the packages of `pip install outlast` alone, no command ends with a traceback."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from outlast.cli.commands import CLUSTER, COMMANDS

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
# What the extras bring, as it is imported.
EXTRAS = (
    *("google.cloud.pubsub_v1", "httpx2", "jsonschema_rs", "kubernetes_validate", "obstore"),
    *("psycopg", "pyarrow", "pydantic", "yaml", "torch", "jax"),
)
BARE = f"""
import sys
class Absent:
    def find_spec(name, path=None, target=None):
        if name in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent)
from outlast.cli.entry import main
sys.exit(main())
"""
ARGUMENTS = {
    "completion": ["bash"],
    "demo": ["--out", "/proc/none"],
    "drill": ["--skip-baseline"],
    "exec": [],
    "learn": ["run"],
    "lint": ["."],
    "publish": ["sqlite:///jobs.db", "none.jsonl"],
    "queue": ["sqlite:///jobs.db"],
    "results": ["sqlite:///jobs.db"],
    "rules": [],
    "scaffold": ["training", "project"],
    "schema": [],
    "settings": [],
    "simulate": ["none.json"],
    "why": ["run"],
    "work": ["a:b", "--queue", "sqlite:///jobs.db", "--sink", "sqlite:///jobs.db"],
}
PLANNED = ["lint", "plan", "render", "schema"]


def bare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BARE, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_package_of_an_extra_is_taken_away_here() -> None:
    extras = {
        one
        for name in ("all", "objects", "postgres", "pubsub", "parquet", "plan", "cluster")
        for one in PROJECT["optional-dependencies"][name]
    }
    packages = {one.partition("[")[0].partition(">")[0] for one in extras} - {"outlast"}

    assert len(packages) == len(EXTRAS) - len(["torch", "jax"])


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_no_command_ends_with_a_traceback(name: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("kind: Job\n")

    done = bare(tmp_path, name, *ARGUMENTS.get(name, ["nowhere"]))

    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2), done.stderr
    if done.returncode:
        assert "error: " in done.stderr


@pytest.mark.parametrize("name", [one.name for one in COMMANDS if one.group == CLUSTER])
def test_a_command_of_a_cluster_names_the_extra_with_all_of_its_packages(
    name: str, tmp_path: Path
) -> None:
    done = bare(tmp_path, name, "nowhere")

    assert "pip install 'outlast[cluster]'" in done.stderr


@pytest.mark.parametrize("name", PLANNED)
def test_a_command_of_planning_names_its_extra(name: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("kind: Job\n")

    done = bare(tmp_path, name, *ARGUMENTS.get(name, ["nowhere.yaml"]))

    assert "pip install 'outlast[plan]'" in done.stderr


def test_a_mistyped_command_is_reported(tmp_path: Path) -> None:
    done = bare(tmp_path, "dril")

    assert done.stderr.splitlines()[0] == "error: Unknown command 'dril'. Did you mean 'drill'?"


def test_the_tutorial_needs_no_extra(tmp_path: Path) -> None:
    script = "import outlast\nwith outlast.Run('run', {'n': 0}) as run:\n  list(run.steps(3))"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)

    for command in ("checkpoints", "why", "learn"):
        done = bare(tmp_path, command, "run")

        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_has_help(name: str, tmp_path: Path) -> None:
    done = bare(tmp_path, name, "--help")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert f"outlast {name}" in done.stdout
    assert "examples:" in done.stdout.lower()


def test_help_without_options_names_the_extra(tmp_path: Path) -> None:
    for name, extra in (("plan", "plan"), ("submit", "cluster")):
        done = bare(tmp_path, name, "--help")

        assert done.stdout.splitlines()[-1] == (
            "The options are shown once its packages are installed. "
            f"Run: pip install 'outlast[{extra}]'"
        )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_installed(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    done = bare(tmp_path, "completion", shell, "--install")

    assert done.returncode == 0, done.stderr
    assert "Open a new shell to use it." in done.stdout
