"""What the package index and GitHub are told: metadata, links, workflows."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from hatch_build import with_absolute_links

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = PROJECT["urls"]["Repository"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_links_of_the_readme_lead_to_the_repository_on_pypi() -> None:
    text = '[a](docs/a.md) [b](#b) [c](https://c.example) ![d](d.svg) <img src="e.svg">'

    found = with_absolute_links(text, "https://github.com/o/r")

    raw = "https://raw.githubusercontent.com/o/r/main"
    assert found == (
        "[a](https://github.com/o/r/blob/main/docs/a.md) [b](#b) [c](https://c.example) "
        f'![d]({raw}/d.svg) <img src="{raw}/e.svg">'
    )


def test_links_and_pictures_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)#]+)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)

    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_to_commits(path: Path) -> None:
    used = re.findall(r"uses: (\S+)", path.read_text())

    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_unless_it_says_more(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("name", ["test.yml", "release.yml"])
def test_the_workflows_try_every_python_that_is_promised(name: str) -> None:
    matrix = yaml.safe_load((ROOT / ".github/workflows" / name).read_text())["jobs"]["python"]
    prefix = "Programming Language :: Python :: 3."
    promised = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith(prefix)]

    assert matrix["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_a_release_is_published_only_after_every_python_was_tried() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]

    assert jobs["publish"]["needs"] == "python"
    assert jobs["python"]["needs"] == "build"


def test_every_address_of_the_repository_is_the_same() -> None:
    files = [*ROOT.glob(".github/**/*.*"), ROOT / "pyproject.toml"]
    for file in files:
        for address in re.findall(
            r"https://github\.com/[\w-]*outlast[\w-]*/[\w-]+", file.read_text()
        ):
            assert address == REPOSITORY, file


def test_the_demo_gets_the_versions_that_the_tests_run_with() -> None:
    demo, everything = (
        set(re.findall(r"^[\w.-]+==\S+", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements-demo.lock", "requirements.lock")
    )
    dependencies = {re.split(r"[<>=]", one)[0] for one in PROJECT["dependencies"]}

    assert demo <= everything
    assert dependencies <= {one.partition("==")[0] for one in demo}
