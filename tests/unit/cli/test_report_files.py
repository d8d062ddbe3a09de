"""Files of --html and --svg: private, and complete or unchanged."""

import os
from pathlib import Path

import pytest

from outlast.cli.reports import write_report


@pytest.mark.parametrize(("share", "mode"), [("none", 0o600), ("group", 0o660)])
def test_a_new_report_has_the_permissions_of_other_private_files(
    share: str, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_SHARE", share)
    before = os.umask(0o022)
    try:
        write_report(tmp_path / "plan.html", "<p>secret</p>")
    finally:
        os.umask(before)

    assert (tmp_path / "plan.html").stat().st_mode & 0o777 == mode
