import importlib.metadata

import pytest

from outlast.errors import MissingExtra
from outlast.integrations.versions import UnsupportedVersion, require


def check(at_least: str, below: str, package: str = "numpy") -> None:
    require(package, extra="example", at_least=at_least, below=below, needed_for="outlast.example")


@pytest.mark.parametrize(
    ("installed", "at_least", "below"),
    [("5.14.1", "5.14", "5.24"), ("5.23.0", "5.14", "5.24"), ("2.5.1.post0", "2.5.1", "2.7")],
)
def test_a_release_in_the_range_is_accepted(
    installed: str, at_least: str, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: installed)

    check(at_least, below)


@pytest.mark.parametrize("installed", ["5.13.9", "5.24.0", "5.24.0rc1", "6", "unknown"])
def test_a_release_that_was_not_tested_is_refused_with_the_range(
    installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: installed)

    with pytest.raises(
        UnsupportedVersion, match=r"from 5\.14 up to, but not including, 5\.24"
    ) as e:
        check("5.14", "5.24")

    assert f"{installed} is installed" in str(e.value)
    assert e.value.hint == "Run: pip install 'outlast[example]'"


def test_a_framework_that_is_not_installed_is_named_with_its_extra() -> None:
    with pytest.raises(MissingExtra, match=r"outlast\.example needs packages"):
        check("1", "2", package="no-such-package-here")
