"""The pre-commit hook that this repository offers does what it says."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.unit.manifests.lint.linted import SPOT_JOB

HOOKS = Path(__file__).parents[3] / ".pre-commit-hooks.yaml"


def hook() -> dict[str, Any]:
    (found,) = yaml.safe_load(HOOKS.read_text())
    assert isinstance(found, dict)
    return found


def test_the_hook_fails_on_a_finding_and_passes_without_one(tmp_path: Path) -> None:
    program, *words = str(hook()["entry"]).split()
    command = [str(Path(sys.executable).parent / program), *words, *hook()["args"]]
    manifest = tmp_path / "job.yaml"

    manifest.write_text(SPOT_JOB)
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    manifest.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: lab}\n")
    clean = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert (found.returncode, "OL103" in found.stdout) == (1, True)
    assert (clean.returncode, clean.stdout) == (0, "")


def test_the_hook_is_given_no_single_files() -> None:
    # A commit that touches no manifest would have nothing to lint, which is an error.
    assert hook()["pass_filenames"] is False
    assert hook()["additional_dependencies"] == [".[plan]"]
