"""Whatever URL a command is given, and wherever from, the secret in it is never seen again."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast._redact import redactor
from outlast.cli.app import run as run_command
from outlast.cli.commands import COMMANDS
from outlast.cli.messages import print_crash
from outlast.cli.run.exec import main as run_exec
from tests.hostile_urls import SECRET, hostile_urls
from tests.unit.manifests.render_cases import BATCH

BOTH = ["--queue", "sqlite:///jobs.db", "--sink", "sqlite:///jobs.db"]
URLS = list(hostile_urls())
SCHEMES = ("postgresql", "sqlite", "pubsub", "gs", "file", "https")
OURS = list(hostile_urls(*SCHEMES))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and nothing that could be waited for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(redactor, "_remembered", {})
    monkeypatch.setattr("outlast.databases.postgres._is_passing", lambda _: False)
    # Captured output has no descriptor that could be discarded.
    monkeypatch.setattr("outlast.cli.app._discard_output", lambda: None)
    monkeypatch.setenv("COLUMNS", "1000")
    (tmp_path / "target.py").write_text("def target(row): return row\n")
    (tmp_path / "rows.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "workload.yaml").write_text(BATCH)
    (tmp_path / "kubeconfig").write_text("{}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return tmp_path


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged, as a program with a handler of its own would see it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    yield stream
    logging.getLogger().removeHandler(handler)
    logging.getLogger().setLevel(level)


def leaks_in(place: Path) -> list[str]:
    """Files that hold the secret, or are named by it."""
    return [
        str(path)
        for path in place.rglob("*")
        if SECRET in str(path) or (path.is_file() and SECRET.encode() in path.read_bytes())
    ]


ARGUMENTS = {
    "queue": ["queue", "URL"],
    "queue as json": ["queue", "URL", "--dead", "--format", "json"],
    "results": ["results", "URL", "--format", "json"],
    "export": ["results", "URL", "--export", "out.jsonl"],
    "publish": ["publish", "URL", "rows.jsonl", "--format", "json"],
    "publish from": ["publish", "sqlite:///jobs.db", "URL"],
    "work on": ["work", "target:target", "--queue", "URL", "--sink", "sqlite:///jobs.db"],
    "work into": ["work", "target:target", "--queue", "sqlite:///jobs.db", "--sink", "URL"],
    "checkpoints": ["checkpoints", "URL"],
    "checkpoints as json": ["checkpoints", "URL", "--format", "json"],
    "why": ["why", "URL", "--format", "json"],
    "learn": ["learn", "URL"],
    "lint": ["lint", "URL"],
    "simulate": ["simulate", "URL"],
    "plan": ["plan", "workload.yaml", "--set", "queue=URL"],
    "render": ["render", "workload.yaml", "--set", "queue=URL"],
    "render sink": ["render", "workload.yaml", "--set", "sink=URL", "--out", "manifests"],
    "render file": ["render", "URL"],
    "submit": ["submit", "URL"],
    "submit option": [
        "submit",
        "workload.yaml",
        "--kubeconfig",
        "kubeconfig",
        "--set",
        "queue=URL",
    ],
    "submit by": ["submit", "workload.yaml", "--kubeconfig", "URL"],
    "submit context": ["submit", "workload.yaml", "--context", "URL", "--kubeconfig", "kubeconfig"],
    "doctor": ["doctor", "URL"],
    "doctor by": ["doctor", "workload.yaml", "--kubeconfig", "URL"],
    "watch": ["watch", "URL", "--once", "--kubeconfig", "kubeconfig"],
    "watch journal": ["watch", "tiny", "--once", "--journal", "URL", "--kubeconfig", "kubeconfig"],
    "watch by": ["watch", "tiny", "--once", "--kubeconfig", "URL"],
    "logs": ["logs", "URL", "--kubeconfig", "kubeconfig"],
    "stop": ["stop", "URL", "--kubeconfig", "kubeconfig"],
    "resume": ["resume", "URL", "--kubeconfig", "kubeconfig"],
    "plan file": ["plan", "URL"],
    "plan prices": ["plan", "workload.yaml", "--prices", "URL"],
    "prices": ["prices", "URL"],
    "prices import": ["prices", "--import", "URL", "--date", "2026-08-21"],
    "own prices": ["prices", "--prices", "URL"],
    "rules": ["rules", "URL"],
    "schema": ["schema", "URL"],
    "scaffold kind": ["scaffold", "URL"],
    "scaffold folder": ["scaffold", "training", "/dev/null/URL"],
    "scaffold name": ["scaffold", "training", "project", "--name", "URL"],
    "demo seed": ["demo", "--seed", "URL"],
    "demo folder": ["demo", "--out", "/dev/null/URL"],
    "completion": ["completion", "URL"],
    "exec": ["exec", "--", "URL"],
    "exec option": ["exec", "--grace", "URL", "--", "true"],
    "unknown command": ["URL"],
    "surplus": ["settings", "URL"],
    "unknown option": ["queue", "sqlite:///jobs.db", "--format", "URL"],
    "drill": ["drill", "--trace", "URL", "--", "true"],
    "drilled command": ["drill", "--skip-baseline", "--evictions", "1", "--", "./nosuch", "URL"],
}
FIRST_CASES = {words[0]: case for case, words in reversed(ARGUMENTS.items())}.values()
# It starts processes for each URL; below, one command gets all of them.
SLOW = {"drilled command": 1}


def test_every_command_is_given_hundreds_of_hostile_urls() -> None:
    commands = {command.name for command in COMMANDS}

    assert len(OURS) >= 200
    assert commands <= {words[0] for words in ARGUMENTS.values()}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", ARGUMENTS)
def test_no_command_shows_a_secret_of_its_arguments(
    case: str, scheme: str, place: Path, logged: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    # Every command is given all of them, and its further options some.
    step = 1 if case in FIRST_CASES else 3
    for hostile in list(hostile_urls(scheme))[: SLOW.get(case) : step]:
        command, *rest = [word.replace("URL", hostile.url) for word in ARGUMENTS[case]]

        if command == "exec":
            run_exec(rest)
        else:
            run_command([command, *rest])

        seen = capsys.readouterr()
        assert SECRET not in seen.out + seen.err + logged.getvalue(), hostile.name
        assert "Traceback" not in seen.err, hostile.name
    assert leaks_in(place) == []


@pytest.mark.parametrize("format", ["text", "json", "junit"])
def test_a_drill_shows_no_secret_of_a_command_with_hundreds_of_urls(
    format: str, place: Path, logged: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each URL has a secret of its own, so that none is found because another one was."""
    secrets = [f"Zq{number:03}xW9kPv3LmT2" for number in range(len(OURS))]
    words = [one.url.replace(SECRET, mine) for one, mine in zip(OURS, secrets, strict=True)]
    fails = "import sys; print(*sys.argv[1:], sep='\\n'); sys.exit(3)"
    options = ["--skip-baseline", "--evictions", "1", "--backoff-limit", "0", "--keep", "kept"]
    options += ["--report", "report.html", "--format", format]

    code = run_command(["drill", *options, "--", sys.executable, "-c", fails, *words])

    printed = capsys.readouterr()
    files = {path: path.read_text() for path in place.rglob("*") if path.is_file()}
    seen = {"stdout": printed.out, "stderr": printed.err, "log": logged.getvalue()}
    seen |= {str(path): text for path, text in files.items()}
    assert code == 1
    assert place / "report.html" in files
    # The command did print every URL.
    assert files[place / "kept/evicted-logs/attempt-0001.log"].count("***") >= len(OURS)
    leaks = [(name, mine) for name, text in seen.items() for mine in secrets if mine in text]
    assert leaks == []


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("variable", ["OUTLAST_QUEUE_URL", "OUTLAST_SINK_URL", "OUTLAST_RUN_URL"])
def test_settings_never_show_a_secret(
    variable: str,
    format: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    everything = format == "json" and variable == "OUTLAST_QUEUE_URL"
    for hostile in URLS if everything else hostile_urls("postgresql"):
        monkeypatch.setenv(variable, hostile.url)

        run_command(["settings", "--format", format])

        seen = capsys.readouterr()
        assert SECRET not in seen.out + seen.err, hostile.name


def test_settings_still_show_where_the_queue_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUTLAST_QUEUE_URL", f"postgresql://u:{SECRET}@host/db?sslmode=require")

    run_command(["settings", "--format", "json"])

    rows = {row["variable"]: row for row in json.loads(capsys.readouterr().out)["settings"]}
    assert rows["OUTLAST_QUEUE_URL"]["value"] == "postgresql://u:***@host/db?sslmode=require"


def test_the_environment_of_a_worker_is_not_shown(
    place: Path,
    logged: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for hostile in OURS[::3]:
        monkeypatch.setenv("OUTLAST_QUEUE_URL", hostile.url)
        monkeypatch.setenv("OUTLAST_SINK_URL", hostile.url)

        run_command(["work", "target:target"])

        seen = capsys.readouterr()
        assert SECRET not in seen.out + seen.err + logged.getvalue(), hostile.name
    assert leaks_in(place) == []


def test_every_setting_that_is_refused_hides_what_it_was_given(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from outlast.cli.operate.settings import ALL_SETTINGS

    for setting in ALL_SETTINGS:
        monkeypatch.setenv(setting.variable, f"postgresql://u:{SECRET}/x@host")

        run_command(["settings"])

        monkeypatch.delenv(setting.variable)
        seen = capsys.readouterr()
        assert SECRET not in seen.out + seen.err, setting.variable


def test_what_a_function_raises_is_kept_without_its_secrets(
    place: Path, logged: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the rows of the queue, in the list of dead letters, in the log."""
    url = f"postgresql://u:{SECRET}@host/db"
    (place / "leaking.py").write_text(f"def fail(row): raise ValueError('no answer from {url}')\n")
    run_command(["publish", "sqlite:///jobs.db", "rows.jsonl"])

    for _ in range(2):
        run_command(["work", "leaking:fail", *BOTH, "--failures-max", "1"])
    run_command(["queue", "sqlite:///jobs.db", "--dead", "--format", "json"])

    seen = capsys.readouterr()
    assert "ValueError: no answer from postgresql://u:***@host/db" in seen.out
    assert SECRET not in seen.out + seen.err + logged.getvalue()
    (place / "leaking.py").unlink()
    for cache in place.rglob("*.pyc"):
        cache.unlink()
    assert leaks_in(place) == []


def test_what_a_set_up_raises_is_shown_without_its_secrets(
    place: Path, logged: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "rows.jsonl").write_text('{"id": 1}\n')
    (place / "setting_up.py").write_text(
        "import os\n"
        "class Model:\n"
        "    def setup(self): raise OSError('refused: ' + os.environ['HUB_TOKEN'])\n"
        "    def __call__(self, row): return row\n"
    )
    run_command(["publish", "sqlite:///jobs.db", "rows.jsonl"])
    os.environ["HUB_TOKEN"] = SECRET
    try:
        code = run_command(["work", "setting_up:Model", *BOTH])
    finally:
        del os.environ["HUB_TOKEN"]

    seen = capsys.readouterr()
    assert code == 1
    assert "OSError: refused: ***" in seen.err
    assert SECRET not in seen.out + seen.err + logged.getvalue()


MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: "30"
      nodeSelector: {cloud.google.com/gke-spot: true, note: "password=SECRET"}
      containers:
        - name: train
          image: https://SECRET@registry.example/trainer
          command: [sh, -c, "train --token SECRET postgresql://u:SECRET/x@host"]
          env:
            - {name: CHECKPOINT_DIR, value: "postgresql://u:SECRET@host/db"}
            - {name: HF_TOKEN, value: SECRET}
            - {"name": "WANDB_API_KEY", "value": "SECRET"}
            - name: DB_PASSWORD
              # the password of the database
              value: SECRET
            - name: TLS_SECRET
              value: |
                first line
                SECRET
          postgresql://u:SECRET@host: 1
"""


@pytest.mark.parametrize(
    "options",
    [
        *(["--format", name] for name in ("text", "json", "sarif", "github", "junit")),
        ["--diff", "--unsafe-fixes"],
        ["--baseline", "base.json", "--write-baseline"],
    ],
    ids=" ".join,
)
def test_lint_shows_no_secret_of_a_manifest(
    options: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "job.yaml").write_text(MANIFEST.replace("SECRET", SECRET))

    run_command(["lint", "job.yaml", *options])

    (place / "job.yaml").unlink()
    seen = capsys.readouterr()
    assert "***" in seen.out or "--write-baseline" in options or "sarif" in options
    assert SECRET not in seen.out + seen.err
    assert leaks_in(place) == []


PROCESSES = {
    "settings": ["settings"],
    "queue": ["queue", "URL"],
    "exec": ["exec", "--", "URL"],
    "exec option": ["exec", "--grace", "URL", "--", "true"],
    "drill": ["drill", "--skip-baseline", "--evictions", "1", "--", "./nosuch", "URL"],
}


@pytest.mark.parametrize("case", PROCESSES)
def test_a_real_process_shows_no_secret(case: str, tmp_path: Path) -> None:
    for shape in ("postgresql://u:{}/x@h", "postgresql:/u:{}@h", "postgresql://u:p@{}@h"):
        url = shape.format(SECRET)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "outlast",
                *(word.replace("URL", url) for word in PROCESSES[case]),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "OUTLAST_QUEUE_URL": url, "DATABASE_PASSWORD": SECRET},
        )

        assert SECRET not in done.stdout + done.stderr
    assert leaks_in(tmp_path) == []


def test_a_crash_of_the_command_shows_no_secret(tmp_path: Path) -> None:
    """Even what nobody foresaw, and Python prints itself."""
    program = (
        "import sys\n"
        "from outlast.cli import app, entry\n"
        "import threading\n"
        f"def fail(): raise KeyError('postgresql://u:{SECRET}@h/db')\n"
        "def crash(_):\n"
        "    thread = threading.Thread(target=fail)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "    fail()\n"
        "app.run = crash\n"
        "sys.argv = ['outlast', 'settings']\n"
        "sys.exit(entry.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 1
    assert done.stderr.count("KeyError: 'postgresql://u:***@h/db'") == 2
    assert SECRET not in done.stderr


def test_a_crash_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    error = OSError("no \x1b]0;owned\x07 file \u202e of \x9b31m mine")

    print_crash(OSError, error, None)

    shown = capsys.readouterr().err
    assert "OSError: no \\x1b]0;owned\\x07 file \\u202e of \\x9b31m mine\n" in shown
    assert shown.replace("\n", "").isprintable()
