"""Prepare the pages of docs/ for the site generator.

The pages are written for readers on GitHub and for the test that executes them. The generator gets
a copy in which a fence names only its language, and a link to a file that is not on the site leads
to the repository.
"""

import os
import re
import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
REPOSITORY: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"][
    "Repository"
]
# Pages outside docs/ that are on the site too, by their name there.
ALSO = {
    "changelog.md": ROOT / "CHANGELOG.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "security-policy.md": ROOT / "SECURITY.md",
    "benchmarks.md": ROOT / "bench/RESULTS.md",
}

_FENCE = re.compile(r"^( *`{3,}\w+)[^\n`]*$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")


def prepare(target: Path) -> None:
    """Write the pages into `target`, which is emptied first."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target)
    shutil.copytree(ROOT / "website/assets", target / "assets", dirs_exist_ok=True)
    for name, source in {**ALSO, **_own()}.items():
        (target / name).write_text(prepared(source.read_text(), source))


def prepared(text: str, source: Path) -> str:
    """The text of the file `source` as the generator needs it."""
    plain = _FENCE.sub(r"\1", text)
    return _LINK.sub(lambda link: target_of(link[1], source) + (link[2] or ""), plain)


def target_of(link: str, source: Path) -> str:
    """Where a link in the file `source` leads on the site."""
    if re.match(r"[a-z]+:", link):
        return link
    file = (source.parent / link).resolve()
    if _name(file) is None:
        return f"{REPOSITORY}/blob/main/{file.relative_to(ROOT)}"
    return os.path.relpath(_name(file) or "", Path(_name(source) or "").parent)


def _own() -> dict[str, Path]:
    return {str(page.relative_to(DOCS)): page for page in DOCS.rglob("*.md")}


def _name(file: Path) -> str | None:
    """The name of a file on the site, None if it is not there."""
    if file.is_relative_to(DOCS):
        return str(file.relative_to(DOCS))
    return next((name for name, source in ALSO.items() if source == file), None)
