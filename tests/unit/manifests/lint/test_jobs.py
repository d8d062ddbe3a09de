"""The rules of a podFailurePolicy, and which of them take what."""

import pytest

from outlast.manifests.lint.kubernetes.jobs import ExitCodes, FailureRule

DISRUPTED = frozenset({("DisruptionTarget", "True")})


def codes(*values: int, but: bool = False, container: str | None = None) -> ExitCodes:
    return ExitCodes(values=frozenset(values), is_negated=but, container=container)


@pytest.mark.parametrize(
    ("wide", "narrow", "is_covered"),
    [
        (codes(1, 2), codes(1), True),
        (codes(1), codes(1, 2), False),
        (codes(75, but=True), codes(1, 2), True),
        (codes(75, but=True), codes(1, 75), False),
        (codes(75, but=True), codes(75, 76, but=True), True),
        (codes(75, 76, but=True), codes(75, but=True), False),
        (codes(1), codes(2, but=True), False),
        (codes(1, container="a"), codes(1), False),
        (codes(1, container="a"), codes(1, container="b"), False),
        (codes(1), codes(1, container="b"), True),
        (codes(1), codes(), False),
        (codes(1, but=True), codes(), False),
    ],
)
def test_a_rule_covers_another_if_it_takes_all_of_it(
    wide: ExitCodes, narrow: ExitCodes, is_covered: bool
) -> None:
    assert wide.covers(narrow) is is_covered


def test_zero_is_no_failure() -> None:
    assert not codes(0, 1).has(0)
    assert not codes(1, but=True).has(0)


def test_a_code_is_of_a_container() -> None:
    assert codes(75, container="main").has(75, "main")
    assert not codes(75, container="main").has(75, "other")
    assert codes(75).has(75, "other")


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        (codes(42), False),
        (codes(137), True),
        (codes(143), True),
        (codes(42, but=True), True),
        (codes(137, 143, but=True), False),
    ],
)
def test_a_killed_container_leaves_with_137_or_143(given: ExitCodes, is_taken: bool) -> None:
    assert FailureRule(index=0, action="FailJob", codes=given).takes_killed is is_taken


def test_conditions_and_codes_do_not_cover_each_other() -> None:
    by_code = FailureRule(index=0, action="Count", codes=codes(1, but=True))
    by_condition = FailureRule(index=1, action="Ignore", conditions=DISRUPTED)

    assert not by_code.covers(by_condition)
    assert not by_condition.covers(by_code)
    assert by_condition.covers(FailureRule(index=2, action="Count", conditions=DISRUPTED))
