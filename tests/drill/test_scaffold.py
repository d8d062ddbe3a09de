"""`outlast scaffold`: a project passes its own drill and its own lint as written."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from outlast.capacity.workload.fields import NAME_CHARACTERS_MAX
from outlast.errors import OutlastError
from outlast.scaffold import project
from outlast.scaffold.project import (
    Framework,
    ProjectKind,
    ScaffoldRefused,
    templates,
    write_project,
)
from tests.drill.drilling import REPEATS_MAX, nothing_left_behind

HOSTILE = [
    "",
    "Upper",
    "-x",
    "x-",
    "1st",
    "a_b",
    "a.b",
    "a/b",
    "..",
    "../x",
    "a b",
    "a\n",
    "a;reboot",
    "$(reboot)",
    "@NAME@",
    "umläut",
    "a" * 41,
]
TRAININGS = ["training --framework torch", "training --framework jax"]
# A commit, because a tag can be moved to other code.
EXACT = re.compile(r"[a-z]+(\[[a-z,]+\])?==\d+(\.\d+)+\w*")
PINNED = re.compile(r"[\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


def sh(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-euc", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def readme_commands(folder: Path) -> list[list[str]]:
    """The words of each command in the README, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (folder / "README.md").read_text(), re.M | re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines]


# The other frameworks are in another environment: tests/frameworks/test_scaffolds.py.
@pytest.mark.parametrize("kind", ["batch", "training", *TRAININGS])
def test_a_project_does_what_its_readme_says_as_written(kind: str, tmp_path: Path) -> None:
    made = sh(f"outlast scaffold {kind} my-job", tmp_path)
    folder = tmp_path / "my-job"
    drill, render, lint = readme_commands(folder)
    done = {words[1]: sh(shlex.join(words), folder) for words in (render, lint)}
    # It is inconclusive if the job was done before all evictions came: then once more.
    drills = (sh(shlex.join(drill), folder) for _ in range(REPEATS_MAX))
    done["drill"] = next(one for one in drills if one.returncode != 4)

    assert made.returncode == 0, made.stdout
    assert done["drill"].returncode == 0, done["drill"].stdout
    assert done["drill"].stdout.rstrip().endswith("survived 3 evictions")
    assert re.search(r"PASS +identical", done["drill"].stdout)
    assert (folder / "drill.html").exists()
    assert done["render"].returncode == 0, done["render"].stdout
    assert done["lint"].returncode == 0, done["lint"].stdout
    assert done["lint"].stdout.startswith("No findings in ")
    assert "my-job" in (folder / "manifests").joinpath("61-rules.yaml").read_text()


@pytest.mark.parametrize("kind", list(ProjectKind))
def test_ci_runs_the_commands_of_the_readme(kind: ProjectKind, tmp_path: Path) -> None:
    write_project(kind, tmp_path, "my-job")

    workflow = yaml.safe_load((tmp_path / ".github/workflows/outlast.yml").read_text())

    [job] = workflow["jobs"].values()
    scripts = [step["run"].replace("\\\n", " ") for step in job["steps"] if "run" in step]
    install, *commands = [shlex.split(script) for script in scripts]
    assert install == ["pip", "install", "-r", "requirements.txt"]
    requirements = (tmp_path / "requirements.txt").read_text()
    assert re.search(r"^outlast\[[a-z,]*plan[a-z,]*\]==", requirements, re.M)
    # Nothing is installed but what has a version there.
    installs = re.findall(r"pip install .*", (tmp_path / "README.md").read_text())
    assert installs == ["pip install -r requirements.txt"]
    assert sorted(commands) == sorted(readme_commands(tmp_path))


@pytest.mark.parametrize("kind", list(ProjectKind))
def test_the_image_starts_what_was_drilled_without_a_shell(
    kind: ProjectKind, tmp_path: Path
) -> None:
    write_project(kind, tmp_path, "my-job")
    drilled = readme_commands(tmp_path)[0]

    lines = (tmp_path / "Dockerfile").read_text().splitlines()

    [entry] = [line for line in lines if line.startswith(("ENTRYPOINT", "CMD"))]
    words = json.loads(entry.removeprefix("ENTRYPOINT "))
    after = drilled[drilled.index("--") + 1 :]
    assert words == after[: len(words)]
    assert words[0] in ("python", "outlast")
    for line in lines:
        if line.startswith("COPY "):
            assert (tmp_path / line.split()[1]).exists()


@pytest.mark.parametrize("kind", list(ProjectKind))
def test_the_name_stands_everywhere_and_no_mark_is_left(kind: ProjectKind, tmp_path: Path) -> None:
    written = write_project(kind, tmp_path, "tiny-gpt")

    texts = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in written}

    assert len(texts) == len(list(templates(kind))) >= 8
    assert {"Dockerfile", "README.md", "workload.yaml", ".gitignore"} < set(texts)
    assert yaml.safe_load(texts["workload.yaml"])["name"] == "tiny-gpt"
    assert not any("@NAME@" in text for text in texts.values())


def test_the_name_and_the_folder_have_defaults(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()

    for command, folder in (
        ("outlast scaffold training", tmp_path),
        ("outlast scaffold batch . --name words", inside),
    ):
        assert sh(command, folder).returncode == 0

    assert "name: training" in (tmp_path / "training/workload.yaml").read_text()
    assert "name: words" in (inside / "workload.yaml").read_text()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/train.py").write_text("precious")
    (tmp_path / "mine/Dockerfile").symlink_to("nowhere")

    done = sh("outlast scaffold training mine", tmp_path)

    assert done.returncode == 2
    assert "'mine' already contains 'Dockerfile', 'train.py'." in done.stdout
    assert "hint:  Nothing was written." in done.stdout
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["Dockerfile", "train.py"]
    assert (tmp_path / "mine/train.py").read_text() == "precious"


@pytest.mark.parametrize("link", [".github", ".github/workflows"])
def test_a_link_in_the_folder_is_not_followed(link: str, tmp_path: Path) -> None:
    project, outside = tmp_path / "mine", tmp_path / "outside"
    (project / link).parent.mkdir(parents=True)
    outside.mkdir()
    (project / link).symlink_to(outside)

    with pytest.raises(OutlastError, match="is a symbolic link"):
        write_project(ProjectKind.TRAINING, project, "mine")

    assert list(outside.iterdir()) == []
    assert not (project / "train.py").exists()


def test_a_link_made_after_the_check_is_not_followed_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outside = tmp_path / "mine", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    monkeypatch.setattr(
        project, "refuse_links_below", lambda *_: (folder / ".github").symlink_to(outside)
    )

    with pytest.raises(OutlastError, match="is a symbolic link"):
        write_project(ProjectKind.TRAINING, folder, "mine")

    assert list(outside.iterdir()) == []
    assert [path.name for path in folder.iterdir()] == [".github"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")

    with pytest.raises(ScaffoldRefused, match=r"'.*mine' is a file, not a folder"):
        write_project(ProjectKind.TRAINING, tmp_path / "mine", "mine")


def test_what_was_written_goes_if_the_rest_cannot_be(tmp_path: Path) -> None:
    (tmp_path / ".github").write_text("not a folder")

    with pytest.raises(ScaffoldRefused, match=r"Could not write to '.*': Not a directory\."):
        write_project(ProjectKind.TRAINING, tmp_path, "mine")

    assert sorted(path.name for path in tmp_path.iterdir()) == [".github", "temporary"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_a_cluster_would_refuse_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ScaffoldRefused, match="is not a valid workload name"):
        write_project(ProjectKind.TRAINING, tmp_path / "new", name)

    assert not (tmp_path / "new").exists()


def test_a_refused_name_is_told_with_a_hint(tmp_path: Path) -> None:
    done = sh("outlast scaffold batch --name '../x'", tmp_path)

    assert done.returncode == 2
    assert "error: '../x' is not a valid workload name." in done.stdout
    assert "hint:  Set --name to at most 40 lowercase letters" in done.stdout


def test_names_are_as_long_as_those_of_workload_files() -> None:
    assert project.NAME_CHARACTERS_MAX == NAME_CHARACTERS_MAX


@pytest.mark.parametrize("kind", list(ProjectKind))
def test_the_image_runs_as_the_user_of_the_rendered_pods(kind: ProjectKind, tmp_path: Path) -> None:
    write_project(kind, tmp_path, "my-job")

    lines = (tmp_path / "Dockerfile").read_text().splitlines()
    rendered = sh("outlast render workload.yaml --out manifests", tmp_path)
    job = yaml.safe_load((tmp_path / "manifests/50-job.yaml").read_text())

    assert rendered.returncode == 0, rendered.stdout
    user = job["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    [line] = [line for line in lines if line.startswith("USER ")]
    assert line == f"USER {user}:{user}"
    # Files are put in place before, so that the program cannot change itself.
    assert lines.index(line) > max(n for n, one in enumerate(lines) if one.startswith("COPY "))


@pytest.mark.parametrize("kind", list(ProjectKind))
def test_everything_from_elsewhere_has_an_exact_version(kind: ProjectKind, tmp_path: Path) -> None:
    write_project(kind, tmp_path, "my-job")

    [image] = re.findall(r"^FROM (\S+)$", (tmp_path / "Dockerfile").read_text(), re.M)
    assert re.fullmatch(r"\w+:\d+\.\d+\.\d+-\w+-\w+", image)
    workflow = (tmp_path / ".github/workflows/outlast.yml").read_text()
    actions = re.findall(r"uses: (.+)", workflow)
    assert actions
    assert all(map(PINNED.fullmatch, actions))
    for requirement in (tmp_path / "requirements.txt").read_text().splitlines():
        assert EXACT.fullmatch(requirement)


@pytest.mark.parametrize("framework", list(Framework))
def test_a_framework_changes_the_program_and_its_requirements_only(
    framework: Framework, tmp_path: Path
) -> None:
    plain = dict(templates(ProjectKind.TRAINING))

    found = dict(templates(ProjectKind.TRAINING, framework))

    changed = {path for path in found if found[path] != plain.get(path)}
    expected = {"train.py", "requirements.txt"} if framework is not Framework.NUMPY else set()
    assert found.keys() == plain.keys()
    assert changed == expected
    for requirement in found["requirements.txt"].replace("@VERSION@", "1.0").splitlines():
        assert EXACT.fullmatch(requirement)


def test_only_a_training_has_a_framework(tmp_path: Path) -> None:
    done = sh("outlast scaffold batch --framework torch", tmp_path)

    assert done.returncode == 2
    assert "error: A batch project has no framework, but 'torch' was given." in done.stdout


def test_the_model_goes_where_the_cluster_lets_it(tmp_path: Path) -> None:
    write_project(ProjectKind.TRAINING, tmp_path, "my-job")
    text = (tmp_path / "workload.yaml").read_text()

    done = sh("MODEL_PATH=elsewhere.npz python train.py", tmp_path)

    assert done.returncode == 0, done.stdout
    assert (tmp_path / "elsewhere.npz").exists()
    assert not (tmp_path / "model.npz").exists()
    assert yaml.safe_load(text)["env"]["MODEL_PATH"].startswith("/tmp/")


def test_pages_show_exact_versions_of_actions() -> None:
    pages = sorted((Path(__file__).parents[2] / "docs").rglob("*.md"))

    loose = [
        f"{page.name}: {action}"
        for page in pages
        for action in re.findall(r"^ *(?:- )?uses: (.+)", page.read_text(), re.M)
        if not PINNED.fullmatch(action)
    ]

    assert loose == []
