"""`outlast render` and `outlast schema`, as a person runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from outlast.capacity.workload.file import workload_schema

MINIMAL = """\
name: tiny-gpt
kind: training
image: registry.example/trainer:1
command: [python, train.py]
accelerator: {type: nvidia-l4, count: 2}
work: {hours: 38}
checkpoint: {url: "gs://lab-runs/tiny-gpt", size: 12GiB}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "workload.yaml"
    path.write_text(MINIMAL)
    return path


def outlast(*arguments: object, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "outlast", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_the_stream_is_yaml_and_names_its_files(file: Path) -> None:
    done = outlast("render", file)

    assert (done.returncode, done.stderr) == (0, "")
    kinds = [one["kind"] for one in yaml.safe_load_all(done.stdout) if one]
    assert kinds[0] == "Namespace" and "Job" in kinds
    assert "# file: 50-job.yaml\n" in done.stdout
    assert "# file: setup/node-pool.sh\n# | #!/usr/bin/env bash\n" in done.stdout


def test_set_changes_what_the_file_says(file: Path) -> None:
    done = outlast("render", file, "--set", "tier=hybrid", "--set", "accelerator.count=1")

    classes = [o for o in yaml.safe_load_all(done.stdout) if o and o["kind"] == "ComputeClass"]
    [compute_class] = classes
    assert compute_class["spec"]["priorities"][0]["machineType"] == "g2-standard-8"


def test_a_folder_gets_one_file_for_each_object(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"

    done = outlast("render", file, "--out", folder)

    assert done.returncode == 0
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    assert sorted(done.stdout.splitlines()) == [str(path) for path in written]
    for path in folder.glob("*.yaml"):
        assert isinstance(yaml.safe_load(path.read_text()), dict)
    assert os.access(folder / "setup/node-pool.sh", os.X_OK)
    assert not os.access(folder / "50-job.yaml", os.X_OK)


def test_links_in_the_folder_are_refused(file: Path, tmp_path: Path) -> None:
    folder, mine = tmp_path / "out", tmp_path / "node-pool.sh"
    mine.write_text("mine")
    (folder / "setup").mkdir(parents=True)
    (folder / "setup" / "node-pool.sh").symlink_to(mine)

    done = outlast("render", file, "--out", folder)

    assert done.returncode == 2
    assert "is a symbolic link" in done.stderr
    assert mine.read_text() == "mine"
    assert not os.access(mine, os.X_OK)


def test_rendering_again_replaces_and_another_tier_is_not_mixed_in(
    file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    outlast("render", file, "--out", folder)
    first = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (folder / "50-job.yaml").write_text("damaged")
    (folder / "kustomization.yaml").write_text("mine")

    again = outlast("render", file, "--out", folder)
    mixed = outlast("render", file, "--out", folder, "--set", "tier=hybrid")

    assert again.returncode == 0
    assert {path: path.read_bytes() for path in first} == first
    assert mixed.returncode == 2
    assert "contains files from another rendering: setup/node-pool.sh" in mixed.stderr
    assert (folder / "kustomization.yaml").read_text() == "mine"
    assert not (folder / "35-compute-class.yaml").exists()


def test_programs_get_json(file: Path) -> None:
    done = outlast("render", file, "--format", "json")

    files = {one["path"]: one["text"] for one in json.loads(done.stdout)["files"]}
    assert yaml.safe_load(files["50-job.yaml"])["kind"] == "Job"
    assert "--spot" in files["setup/node-pool.sh"]


@pytest.mark.parametrize(
    ("arguments", "words", "hint"),
    [
        (["--set", "chekpoint.size=1GiB"], "Did you mean 'checkpoint'?", "outlast schema"),
        (["--set", "tier"], "--set: expected key=value, got 'tier'.", "work.hours=40"),
        (["--set", "tier=spott"], "on-demand, hybrid, got 'spott'. Did you mean", "outlast schema"),
        (
            ["--set", "grace=25s"],
            "A grace period of 25 s is not possible on Spot",
            "Set grace: 15s",
        ),
        (["--format", "yaml"], '"text", "json"', "outlast render --help"),
    ],
)
def test_a_mistake_is_told_with_a_hint_and_exit_2(
    arguments: list[str], words: str, hint: str, file: Path
) -> None:
    done = outlast("render", file, *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistake_in_the_file_is_told_with_its_line(file: Path) -> None:
    file.write_text(MINIMAL.replace("checkpoint:", "chekpoint:"))

    done = outlast("render", file.name, cwd=file.parent)

    assert done.returncode == 2
    expected = "error: workload.yaml:7:1: Unknown key 'chekpoint'. Did you mean 'checkpoint'?"
    assert done.stderr.splitlines()[0] == expected


def test_a_file_that_is_not_there_is_exit_2(tmp_path: Path) -> None:
    done = outlast("render", "missing.yaml", cwd=tmp_path)

    assert done.returncode == 2
    assert "missing.yaml: Could not read the workload file: No such file" in done.stderr


def test_a_folder_that_cannot_be_made_is_exit_3(file: Path) -> None:
    done = outlast("render", file, "--out", file / "below")

    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_the_schema_is_printed() -> None:
    done = outlast("schema")

    assert done.returncode == 0
    assert json.loads(done.stdout) == workload_schema()
