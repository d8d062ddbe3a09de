"""Lint refuses what a real API server refused, and nothing that it accepted.

The answers were recorded by `tests/servers/api_answers.py`; no server is needed here.
"""

import json

import pytest

from tests.unit.manifests.validation.cases import (
    ANSWERS,
    Case,
    accepted_cases,
    answers,
    refused_cases,
)
from tests.unit.manifests.validation.matching import errors_in, verdict

REFUSED_MIN, ACCEPTED_MIN = 130, 110

# The server puts stringData into data before it checks them.
ELSEWHERE = {"secret-docker-not-json"}


def test_the_answers_are_of_a_real_server_and_there_are_enough() -> None:
    recorded = json.loads(ANSWERS.read_text())
    statuses = [answer["status"] for answer in recorded["answers"].values()]

    assert recorded["server"].startswith("v1.36.")
    assert sum(status >= 400 for status in statuses) >= REFUSED_MIN
    assert sum(status == 201 for status in statuses) >= ACCEPTED_MIN


def test_every_manifest_has_an_answer() -> None:
    refused, accepted = refused_cases(), accepted_cases()

    assert {case.name for case in [*refused, *accepted]} == set(answers())
    assert [case.name for case in refused if answers()[case.name].status < 400] == []
    assert [case.name for case in accepted if answers()[case.name].status != 201] == []


@pytest.mark.parametrize("case", refused_cases(), ids=lambda case: case.name)
def test_what_the_server_refuses_is_an_error_with_its_reason(case: Case) -> None:
    result = verdict(case, answers()[case.name])

    assert result.errors, f"no error; the server said: {answers()[case.name].message}"
    if case.name not in ELSEWHERE:
        assert result.is_reported, f"{result.errors} instead of {answers()[case.name].message}"


@pytest.mark.parametrize("case", accepted_cases(), ids=lambda case: case.name)
def test_what_the_server_accepts_is_no_error(case: Case) -> None:
    assert [f"{one.code} {one.message}" for one in errors_in(case)] == []
