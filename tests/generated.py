"""The pages that are made from the code. `make docs` writes them; a test compares them."""

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import outlast
import outlast.capacity.catalogue
import outlast.capacity.errors
import outlast.capacity.plan
import outlast.capacity.sweep
import outlast.capacity.traces
import outlast.checkpoint.errors
import outlast.cli.publish
import outlast.cli.work
import outlast.drill.errors
import outlast.drill.scaffold.project
import outlast.manifests.lint.errors
import outlast.manifests.render.errors
import outlast.queue
import outlast.results
import outlast.results.export
import outlast.storage
import outlast.worker.errors
from outlast.capacity.schema import workload_keys, workload_schema
from outlast.cli.app import app
from outlast.cli.settings import ALL_SETTINGS
from tests.unit.manifests.rules.page import rules_page

ROOT = Path(__file__).parent.parent


def pages() -> dict[Path, str]:
    """Every generated file with its content."""
    return {
        ROOT / "docs/reference/settings.md": settings_page(),
        ROOT / "docs/reference/cli.md": cli_page(),
        ROOT / "docs/reference/errors.md": errors_page(),
        ROOT / "docs/reference/rules.md": rules_page(),
        ROOT / "docs/reference/workload.md": workload_page(),
        ROOT / "docs/reference/workload.schema.json": workload_schema_text(),
        ROOT / "public_api.txt": "\n".join(public_api()) + "\n",
    }


def settings_page() -> str:
    rows = [
        f"| `{s.variable}` | `{s.keyword}` | {s.default_text} | {s.meaning} |" for s in ALL_SETTINGS
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "After reading this page you know every setting, its variable and its default. The",
            "keyword beats the variable, which beats the default; an empty variable counts as",
            "unset. `outlast settings` shows the values in force where you run it.",
            "",
            "| variable | keyword | default | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def cli_page() -> str:
    parts = ["# Command line", "", "What each command says of itself."]
    for arguments in ([], *([name] for name in command_names())):
        title = " ".join(["outlast", *arguments])
        parts += ["", f"## {title}", "", "```text", help_of(*arguments), "```"]
    codes = [
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
        "| 0 | fine |",
        "| 1 | findings at or above `--fail-on`, or a check that failed |",
        "| 2 | wrong usage, or a setting that cannot work |",
        "| 3 | the queue, the sink or the disk does not answer |",
        "| 75 | interrupted, but saved |",
        "| 126, 127 | `exec`: the command cannot be started, or was not found |",
        "| 128 + n | `exec`: the command died of signal n |",
        "| 130 | Ctrl-C |",
    ]
    return "\n".join([*parts, "", *codes, ""])


def command_names() -> list[str]:
    return sorted(name for name in app if not name.startswith("-"))


def help_of(*arguments: str) -> str:
    environ = {**os.environ, "COLUMNS": "88", "TERM": "dumb", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "outlast", *arguments, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def workload_page() -> str:
    rows = [f"| `{key.name}` | {key.default} | {key.meaning} |" for key in workload_keys()]
    return "\n".join(
        [
            "# The workload file",
            "",
            "After reading this page you know every key of a workload file, its default and its",
            "meaning. [How to render manifests](../how-to/render-manifests.md) shows it in use;",
            "[workload.schema.json](workload.schema.json) (`outlast schema`) is the same for",
            "editors. Sizes and durations carry a unit: `12GiB`; `90s`, `15m`, `3h`, `2d`.",
            "",
            "| key | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def workload_schema_text() -> str:
    return json.dumps(workload_schema(), indent=2, ensure_ascii=False) + "\n"


def errors_page() -> str:
    parts = [
        "# Errors",
        "",
        "Every error of this library says what happened, with the value, and carries in `hint`",
        "what to do next. All of them are an `outlast.OutlastError`.",
    ]
    for error in error_classes(outlast.OutlastError):
        bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
        parts += ["", f"## {error.__name__}", "", f"Is a {bases}.", "", inspect.getdoc(error) or ""]
    return "\n".join([*parts, ""])


# Every package that defines errors is imported above, or its errors would not be found.
def error_classes(error: type[BaseException]) -> Iterator[type[BaseException]]:
    yield error
    for below in sorted(error.__subclasses__(), key=lambda cls: cls.__name__):
        yield from error_classes(below)


def public_api() -> Iterator[str]:
    """One line for each public name, so that every change of the surface shows in review."""
    for name in sorted(outlast.__all__):
        value = getattr(outlast, name)
        if inspect.ismodule(value):
            # A package that can be called: which of the two is found depends on what was imported.
            value = getattr(value, name)
        if not inspect.isclass(value):
            yield f"outlast.{name}{signature_of(value)}"
            continue
        bases = ", ".join(base.__name__ for base in value.__bases__)
        yield f"class outlast.{name}({bases})"
        yield from members_of(value)


def signature_of(value: Callable[..., object]) -> str:
    """Its signature; a function as a default goes by its name, not by where it lies in memory."""
    return re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", str(inspect.signature(value)))


def members_of(value: type) -> Iterator[str]:
    for name, member in sorted(vars(value).items()):
        if inspect.isfunction(member) and (not name.startswith("_") or name == "__init__"):
            yield f"    {name}{signature_of(member)}"
        elif not name.startswith("_") and not inspect.isroutine(member):
            yield f"    {name}"


if __name__ == "__main__":
    for path, content in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        print(f"wrote {path.relative_to(ROOT)}")
