"""An integration supports the releases that it is tested with, and says so in one range."""

import re
import tomllib
from pathlib import Path

import pytest

from outlast.integrations.versions import _numbers

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src/outlast/integrations"
FRAMEWORKS = ["transformers", "accelerate", "lightning", "keras"]


def ranges_in_extras() -> dict[str, tuple[str, str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [one for extra in project["optional-dependencies"].values() for one in extra]
    found = (re.fullmatch(r"([\w-]+)>=([\d.]+),<([\d.]+)", one) for one in listed)
    return {match[1]: (match[2], match[3]) for match in found if match is not None}


def locked(lock: str, package: str) -> str:
    text = (ROOT / "tests/frameworks" / lock).read_text()
    found = re.search(rf"^{package}==([\d.]+)", text, re.M)
    assert found is not None, (lock, package)
    return found[1]


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_the_range_of_an_extra_reaches_from_the_oldest_to_the_newest_tested_release(
    package: str,
) -> None:
    at_least, below = ranges_in_extras()[package]
    oldest, newest = locked("older.lock", package), locked("requirements.lock", package)

    assert f"{oldest}.".startswith(f"{at_least}.")
    assert _numbers(oldest) < _numbers(newest) < _numbers(below)
    # The next minor release is not supported before it is tested.
    assert _numbers(below) == (_numbers(newest)[0], _numbers(newest)[1] + 1)


def test_the_range_of_trl_is_the_tested_minor_release() -> None:
    at_least, below = map(_numbers, ranges_in_extras()["trl"])
    major, minor, *_ = _numbers(locked("requirements.lock", "trl"))

    assert (at_least, below) == ((major, minor), (major, minor + 1))


@pytest.mark.parametrize("package", [*FRAMEWORKS, "trl"])
def test_an_integration_checks_for_the_range_of_its_extra(package: str) -> None:
    at_least, below = ranges_in_extras()[package]

    texts = [path.read_text() for path in SOURCES.rglob("*.py")]

    lower = re.compile(rf'(?i)at_least ?= ?"{re.escape(at_least)}"')
    upper = re.compile(rf'(?i)below ?= ?"{re.escape(below)}"')
    assert any(lower.search(text) and upper.search(text) for text in texts)
