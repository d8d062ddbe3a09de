"""README and docs are executed: every Python and shell block of a page, in order, in one folder.

A block is fenced with its language and, behind it, what to do:
- `python` and `sh` run; `python file=train.py` writes the file instead;
- `sh exit=75` expects that exit code; `text output` is what the block before must have printed,
  with `...` for what varies;
- `sh exit=75 again=0`: with this other code, the program was done before its signal came, because
  the machine stalled. Then the page starts over, as it does if a drill was inconclusive;
- `not-run` marks what needs a cluster or would run this test again.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.programs import Program

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
NOT_RUN_MAX = 6
ATTEMPTS_MAX = 5
INCONCLUSIVE = 4


class Block(NamedTuple):
    language: str
    options: dict[str, str]
    text: str
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    fence = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    text = page.read_text()
    for match in fence.finditer(text):
        options = {}
        for word in match[2].split():
            name, _, value = word.partition("=")
            options[name] = value
        yield Block(match[1], options, match[3], text[: match.start()].count("\n") + 1)


def runs(block: Block) -> bool:
    return block.language in ("python", "sh") and "not-run" not in block.options


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS_MAX):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        if (stalled := stalled_in(page, folder)) is None:
            return
    pytest.fail(f"{stalled}, {ATTEMPTS_MAX} times.")


def stalled_in(page: Path, folder: Path) -> str | None:
    """Run a page; where a stall of the machine kept it from showing anything, if one did."""
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    printed = ""
    for block in blocks_of(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if "file" in block.options:
            (folder / block.options["file"]).write_text(block.text)
        elif runs(block):
            command = {"python": [sys.executable, "-c"], "sh": ["bash", "-euc"]}[block.language]
            code, printed = run([*command, block.text], folder, environ)
            expected = int(block.options.get("exit", "0"))
            if code != expected and code in (INCONCLUSIVE, int(block.options.get("again", "-1"))):
                return f"{where} exited with {code}:\n{printed}"
            assert code == expected, f"{where}:\n{printed}"
        elif "output" in block.options:
            pattern = ".*".join(re.escape(part) for part in block.text.strip().split("..."))
            assert re.search(pattern, printed, re.DOTALL), f"{where} differs from:\n{printed}"
    return None


def run(command: list[str], folder: Path, environ: dict[str, str]) -> tuple[int, str]:
    """The exit code and everything that was printed. What runs in the background ends as well."""
    with Program(command, environ, folder=folder) as program:
        return program.wait(), program.output


def test_few_blocks_are_not_run() -> None:
    not_run = [b for page in PAGES for b in blocks_of(page) if "not-run" in b.options]

    assert len(not_run) <= NOT_RUN_MAX


def test_the_example_survives_a_drill(tmp_path: Path) -> None:
    drill = [sys.executable, "-m", "outlast", "drill", "--evictions", "2", "--seed", "1"]
    command = [*drill, "--expect", "{dir}/model.npz", "--", sys.executable]
    command += [str(ROOT / "examples/train.py"), "{dir}"]
    for _ in range(ATTEMPTS_MAX):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        if done.returncode != INCONCLUSIVE:
            break

    assert done.returncode == 0, done.stdout + done.stderr
    assert "bit for bit" in done.stdout


def test_the_readme_names_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"\bmake ([a-z]+)", (ROOT / "README.md").read_text()))

    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
