"""The public surface, what importing costs, and that every part has its page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import outlast
from tests.generated import command_names, pages

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_generated_page_is_what_the_code_says(path: Path) -> None:
    assert path.read_text() == pages()[path](), "Run `make docs` and look at the difference."


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    command = [sys.executable, "-I", "-c", code]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_outlast_loads_next_to_nothing() -> None:
    loaded = modules_after("import outlast") - modules_after("import importlib")

    assert loaded == {"outlast"}


def test_a_guard_needs_the_standard_library_only() -> None:
    loaded = modules_after("import outlast; outlast.Guard()") - modules_after("pass")

    foreign = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert foreign == {"outlast"}
    assert not {"http.client", "ssl", "asyncio", "ctypes"} & loaded


def test_importing_starts_no_thread_and_installs_no_handler() -> None:
    code = """
import signal, threading
before = signal.getsignal(signal.SIGTERM), threading.active_count()
import outlast
outlast.Guard()
assert before == (signal.getsignal(signal.SIGTERM), threading.active_count())
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_exported_name_exists_and_nothing_else_does() -> None:
    assert set(dir(outlast)) == {*outlast.__all__, "__version__"}
    for name in dir(outlast):
        assert getattr(outlast, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Gaurd'"):
        _ = outlast.Gaurd  # type: ignore[attr-defined]  # the mistake is the point


@pytest.mark.parametrize("command", command_names())
def test_every_command_has_a_how_to_page_that_uses_it(command: str) -> None:
    how_to = [page.read_text() for page in (ROOT / "docs/how-to").glob("*.md")]

    assert any(f"outlast {command}" in text for text in how_to)


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    waiting = list(reached)
    while waiting:
        page = waiting.pop()
        for target in links(page):
            assert target.exists(), f"{page.name} links to {target}, which is not there."
            if target.suffix == ".md" and target not in reached:
                reached.add(target)
                waiting.append(target)

    assert set((ROOT / "docs").rglob("*.md")) <= reached


def links(page: Path) -> list[Path]:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    return [(page.parent / target).resolve() for target in targets]
