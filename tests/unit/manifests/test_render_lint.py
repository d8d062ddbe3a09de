"""Our own lint has nothing to say about what is rendered."""

from pathlib import Path

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.linting import lint
from outlast.manifests.render import as_stream, write_files
from tests.unit.manifests.render_cases import CASES, case


@pytest.mark.parametrize("name", CASES)
def test_what_is_rendered_is_clean(name: str, tmp_path: Path) -> None:
    write_files(case(name).files, tmp_path)

    report = lint(tmp_path, options=LintOptions(is_autopilot=True if "autopilot" in name else None))

    assert [f"{one.code} {one.message}" for one in report.findings] == []


def test_the_stream_is_clean_too() -> None:
    stream = as_stream(case("training").files).encode()

    report = lint("-", read_stdin=lambda: stream)

    assert [f"{one.code} {one.message}" for one in report.findings] == []
