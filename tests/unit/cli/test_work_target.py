"""How `outlast work` finds what it should call."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.cli.work import TargetError, load_target
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
    (tmp_path / "unreadable.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("someones", "broken", "raising", "unreadable"):
        sys.modules.pop(name, None)


def test_a_function_of_the_current_folder_is_found() -> None:
    assert load_target("someones:double")(4) == 8
    assert load_target("someones:Group.inner")(4) == 4


def test_of_a_class_an_instance_is_made() -> None:
    assert load_target("someones:Model")(4) == 5


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("double", "'double' does not name a function."),
        ("someones:", "'someones:' does not name a function."),
        (":double", "':double' does not name a function."),
        ("nosuch:double", "There is no module 'nosuch'."),
        ("nosuch.deeper:double", "There is no module 'nosuch.deeper'."),
        ("someones:duoble", "The module 'someones' has no 'duoble'."),
        ("someones:limit", "'someones:limit' cannot be used: 5 cannot be called with an item."),
        ("someones:later", "is asynchronous"),
        ("someones:Needy", "missing 1 required positional argument: 'path'"),
        ("broken:double", "could not be imported: ModuleNotFoundError: No module named 'nosuchp"),
        ("raising:double", "could not be imported: RuntimeError: no GPU (line 2 of "),
        ("unreadable:f", "could not be imported: SyntaxError"),
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
