"""The rendered Terraform, judged by `terraform fmt`, which parses it and wants it laid out."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.manifests.render_cases import CASES, case

pytestmark = pytest.mark.needs("terraform")


def fmt(folder: Path) -> "subprocess.CompletedProcess[str]":
    # A configuration of this machine has no say in the test.
    (folder / "terraform.rc").write_text("")
    environ = {
        **os.environ,
        "TF_CLI_CONFIG_FILE": str(folder / "terraform.rc"),
        "CHECKPOINT_DISABLE": "1",
    }
    command = ["terraform", "fmt", "-check", "-diff", "-recursive", "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environ)


def test_every_node_pool_is_valid_and_well_laid_out(tmp_path: Path) -> None:
    count = 0
    for name in CASES:
        for file in case(name).files:
            if file.path.endswith(".tf"):
                (tmp_path / f"{name}.tf").write_text(file.text)
                count += 1

    done = fmt(tmp_path)

    assert count > 15
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_terraform_would_refuse_what_is_not_its_language(tmp_path: Path) -> None:
    (tmp_path / "broken.tf").write_text(case("training").text("setup/node-pool.tf") + "}\n")

    assert fmt(tmp_path).returncode != 0
