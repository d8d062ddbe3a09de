"""A drill runs the real command with its real secrets, and tells nobody of them."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from outlast._redact import redactor
from outlast.drills import drill
from outlast.drills.errors import DrillError
from outlast.drills.page import write_html
from tests.drill.drilling import nothing_left_behind

SECRETS = {
    "url": "Zq7xW9kPv3url",
    "parameter": "Zq7xW9kPv3parameter",
    "option": "Zq7xW9kPv3option",
    "assigned": "Zq7xW9kPv3assigned",
    "variable": "Zq7xW9kPv3variable",
    "github": "ghp_Zq7xW9kPv3LmT2Zq7xW9kPv3LmT2",
    "printed": "Zq7xW9kPv3printed",
}
PROGRAM = """
import os, sys, pathlib
url, _, key, assigned, git = sys.argv[1:6]
# It gets what it was meant to get.
pathlib.Path("seen.json").write_text(repr([*sys.argv[1:], os.environ["HUB_TOKEN"]]))
print("connecting to", url)
print("refused:", key, assigned.partition("=")[2], os.environ["HUB_TOKEN"])
print(f"password={sys.argv[6]} and {git}", flush=True)
pathlib.Path("result.json").write_text("1")
sys.exit(CODE)
"""


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(redactor, "_remembered", {})
    monkeypatch.setenv("HUB_TOKEN", SECRETS["variable"])
    with nothing_left_behind(tmp_path, monkeypatch):
        yield


def planted(tmp_path: Path, *, code: int) -> list[str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("CODE", str(code)))
    return [
        *(sys.executable, str(program)),
        f"postgresql://u:{SECRETS['url']}/x@host/db?sslpassword={SECRETS['parameter']}",
        *("--api-key", SECRETS["option"]),
        f"HF_TOKEN={SECRETS['assigned']}",
        f"https://{SECRETS['github']}@github.com/org/repo",
        SECRETS["printed"],
    ]


def leaks(text: str) -> list[str]:
    return [name for name, secret in SECRETS.items() if secret in text]


@pytest.mark.parametrize("code", [0, 3], ids=["finished", "failed"])
def test_no_secret_is_in_any_report_of_a_drill(tmp_path: Path, code: int) -> None:
    command = planted(tmp_path, code=code)
    # On its own, a plain word on a command line is nothing that anybody could recognize.
    known = {name: secret for name, secret in SECRETS.items() if name != "printed"}
    told: list[object] = []
    kept = tmp_path / "kept"

    report = drill(
        command,
        evictions=1,
        expect=["result.json"],
        recording=tmp_path / "recording",
        keep=kept,
        backoff_limit=1,
        finished_when=f"API_TOKEN={SECRETS['option']} true",
        replace_after=timedelta(0),
        listener=told.append,
    )

    write_html(report, tmp_path / "drill.html")
    texts = {
        "json": json.dumps(report.as_json()),
        "junit": report.as_junit(),
        "story": report.story(),
        "html": (tmp_path / "drill.html").read_text(),
        "events": repr(told),
        "report": repr(replace(report, command=())),
    }
    for path in [*(tmp_path / "recording").rglob("*"), *kept.glob("*-logs/*")]:
        if path.is_file():
            texts[path.name] = path.read_bytes().decode(errors="replace")
    for name, text in texts.items():
        assert not [one for one, secret in known.items() if secret in text], name
        assert f"password={SECRETS['printed']}" not in text, name
    assert report.command[2:6] == (
        "postgresql://u:***@host/db?sslpassword=***",
        "--api-key",
        "***",
        "HF_TOKEN=***",
    )
    seen = next(kept.rglob("seen.json")).read_text()
    assert leaks(seen) == list(SECRETS)


def test_what_a_reset_prints_and_says_is_masked(tmp_path: Path) -> None:
    with pytest.raises(DrillError) as caught:
        drill(
            ["true"],
            evictions=1,
            reset=f"echo 'no access for postgresql://u:{SECRETS['url']}@host'; exit 3",
        )

    assert leaks(str(caught.value)) == []
    assert "postgresql://u:***@host" in str(caught.value)
    assert os.environ["HUB_TOKEN"] == SECRETS["variable"]
