"""How `outlast work` finds what it should call."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.cli.batch.work import TargetError, load_target
from outlast.errors import OutlastError

MODULE = """
import math
def double(number): return number * 2
async def later(number): return number
class Model:
    def __call__(self, number): return number + 1
class Needy:
    def __init__(self, path): ...
    def __call__(self, number): ...
class Group:
    @staticmethod
    def inner(number): return number
limit = 5
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "someones.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("import nosuchpackage\n")
    (tmp_path / "raising.py").write_text("\nraise RuntimeError('no GPU')\n")
    (tmp_path / "exiting.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "unreadable.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("someones", "broken", "raising", "exiting", "unreadable"):
        sys.modules.pop(name, None)


def test_a_function_of_the_current_folder_is_found() -> None:
    assert load_target("someones:double")(4) == 8
    assert load_target("someones:Group.inner")(4) == 4


def test_of_a_class_an_instance_is_made() -> None:
    assert load_target("someones:Model")(4) == 5


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("double", "Expected MODULE:FUNCTION, got 'double'."),
        ("someones:", "Expected MODULE:FUNCTION, got 'someones:'."),
        (":double", "Expected MODULE:FUNCTION, got ':double'."),
        ("nosuch:double", "No module named 'nosuch'."),
        ("nosuch.deeper:double", "No module named 'nosuch.deeper'."),
        ("someones:duoble", "Module 'someones' has no attribute 'duoble'."),
        ("someones:limit", "'someones:limit' cannot be used: 5 is not callable."),
        ("someones:later", "is async"),
        ("exiting:f", "Could not import 'exiting': SystemExit: 0"),
        ("someones:Needy", "missing 1 required positional argument: 'path'"),
        (
            "broken:double",
            "Could not import 'broken': ModuleNotFoundError: No module named 'nosuchp",
        ),
        ("raising:double", "Could not import 'raising': RuntimeError: no GPU ("),
        (
            "unreadable:f",
            "Could not import 'unreadable': SyntaxError: invalid syntax (unreadable.py, line 1).",
        ),
    ],
)
def test_what_cannot_be_called_is_told(target: str, words: str) -> None:
    with pytest.raises(TargetError) as raised:
        load_target(target)

    assert words in str(raised.value)
    assert raised.value.hint is not None


def test_a_misspelt_function_gets_the_names_there_are() -> None:
    with pytest.raises(OutlastError) as raised:
        load_target("someones:duoble")

    assert raised.value.hint == "It defines Group, Model, Needy, double, later."
