"""Every rule flags the lines that its fixtures mark, and no others."""

from importlib import import_module
from pathlib import Path

import pytest

import outlast.manifests.rules
from outlast.manifests.lint.engine.rule import Rule
from outlast.manifests.rules import ALL_RULES
from tests.unit.manifests.rules.harness import FIXTURES, files_of, found_by, marks_in

by_name = pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)


@by_name
def test_a_rule_flags_the_marked_lines_and_no_others(rule: Rule) -> None:
    files = files_of(rule, "flagged")

    assert marks_in(files), f"{rule.name}/flagged.yaml marks no line with # <- {rule.code}"
    assert found_by(rule, files) == marks_in(files)


@by_name
def test_a_rule_is_silent_where_its_fixture_is_clean(rule: Rule) -> None:
    files = files_of(rule, "clean")

    assert FIXTURES / rule.name / "clean.yaml" in files
    assert found_by(rule, files) == set()


def test_every_file_of_a_rule_is_in_the_list() -> None:
    folder = Path(outlast.manifests.rules.__file__).parent
    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "api"}

    assert names == {rule.check.__module__.rpartition(".")[2] for rule in ALL_RULES}


def test_every_folder_of_fixtures_belongs_to_a_rule() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == {rule.name for rule in ALL_RULES}


def test_codes_and_names_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in ALL_RULES]

    assert codes == sorted(set(codes))
    assert len({rule.name for rule in ALL_RULES}) == len(ALL_RULES)


@by_name
def test_a_file_holds_one_rule_that_is_called_like_it(rule: Rule) -> None:
    module = import_module(rule.check.__module__)

    assert [value for value in vars(module).values() if isinstance(value, Rule)] == [rule]
    assert rule.check.__name__ == rule.name.replace("-", "_")


def test_a_file_without_a_manual_is_no_rule() -> None:
    from outlast.manifests.lint.engine.rule import RuleManual

    with pytest.raises(ValueError, match="'Why: ' and 'Instead: '"):
        RuleManual.parse("A title.\n\nWhy: because.\n")
