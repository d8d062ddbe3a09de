"""The pages generated from the code. `make docs` writes them; a test compares them."""

import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, get_args

import outlast
from outlast.capacity.workload.file import workload_schema
from outlast.cli.commands import COMMANDS
from outlast.cli.operate.settings import ALL_SETTINGS
from tests.api_page import api_page
from tests.completion_scripts import completion_scripts
from tests.drill.specimen_drills import verdicts_page
from tests.unit.cluster.causes_page import causes_page
from tests.unit.manifests.rules.page import rules_page
from tests.workload_keys import workload_keys

ROOT = Path(__file__).parent.parent

# These run a program when they are imported.
_PROGRAMS = {"outlast.__main__", "outlast.demo.scoring", "outlast.demo.training"}
# Errors are found among the classes that are loaded, so that every module has to be.
for _module in pkgutil.walk_packages(outlast.__path__, "outlast."):
    if _module.name not in _PROGRAMS:
        importlib.import_module(_module.name)


def pages() -> dict[Path, Callable[[], str]]:
    """Every generated file and the function that returns its content."""
    return {
        ROOT / "docs/reference/api.md": api_page,
        ROOT / "docs/reference/settings.md": settings_page,
        ROOT / "docs/reference/cli.md": cli_page,
        ROOT / "docs/reference/errors.md": errors_page,
        ROOT / "docs/reference/rules.md": rules_page,
        ROOT / "docs/reference/drill-verdicts.md": verdicts_page,
        ROOT / "docs/reference/cluster-causes.md": causes_page,
        ROOT / "docs/reference/workload.md": workload_page,
        ROOT / "docs/reference/workload.schema.json": workload_schema_text,
        **{
            ROOT / f"src/outlast/cli/operate/completions/outlast.{shell}": script
            for shell, script in completion_scripts().items()
        },
        ROOT / "public_api.txt": lambda: "\n".join(public_api()) + "\n",
    }


def settings_page() -> str:
    rows = [
        f"| `{s.variable}`{f'<br>`{s.keyword}`' if s.keyword else ''} | {s.default_text} "
        f"| {s.meaning} |"
        for s in ALL_SETTINGS
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "Every setting with its environment variable, keyword argument and default. A keyword",
            "argument overrides the variable, and the variable overrides the default; an empty",
            "variable counts as unset. `outlast settings` shows the current values.",
            "",
            "| variable, keyword | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def cli_page() -> str:
    parts = ["# Command line", "", "The help text of every command, and the exit codes."]
    for name, text in help_texts().items():
        parts += ["", f"## {f'outlast {name}'.rstrip()}", "", "```text", text, "```"]
    codes = [
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
        "| 0 | success |",
        "| 1 | findings at or above `--fail-on`, or a failed check |",
        "| 2 | incorrect usage or an invalid setting |",
        "| 3 | the queue, sink or disk is unavailable |",
        "| 4 | `drill`: inconclusive |",
        "| 75 | interrupted after saving |",
        "| 126, 127 | `exec`: the command could not be started, or was not found |",
        "| 128 + n | `exec`: the command was killed by signal n |",
        "| 130 | Ctrl-C |",
        "| 141 | the program that reads the output has exited, such as `head` |",
    ]
    return "\n".join([*parts, "", *codes, ""])


def command_names() -> list[str]:
    return [command.name for command in COMMANDS]


_HELP = """
import json, os, sys, tempfile
import outlast.cli.app
from outlast.cli.entry import main

def help_of(name):
    with tempfile.TemporaryFile("w+") as printed:
        if os.fork() == 0:
            os.dup2(printed.fileno(), 1)
            sys.argv = ["outlast", *([name] if name else []), "--help"]
            sys.exit(main())
        assert os.wait()[1] == 0, name
        printed.seek(0)
        return printed.read()

print(json.dumps([help_of(name) for name in json.loads(sys.argv[1])]))
"""


def help_texts() -> dict[str, str]:
    """What `--help` prints, for each command and, by the name "", for all of them together."""
    names = ["", *command_names()]
    environ = {**os.environ, "COLUMNS": "88", "TERM": "dumb", "NO_COLOR": "1"}
    # All are forked from one process, because each would take a second to import the libraries.
    command = [sys.executable, "-c", _HELP, json.dumps(names)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environ)
    texts = [
        "\n".join(map(str.rstrip, text.strip().splitlines())) for text in json.loads(done.stdout)
    ]
    return dict(zip(names, texts, strict=True))


def workload_page() -> str:
    rows = [f"| `{key.name}` | {key.default} | {key.meaning} |" for key in workload_keys()]
    return "\n".join(
        [
            "# The workload file",
            "",
            "Every key of a workload file with its default and meaning.",
            "[How to render manifests](../how-to/render-manifests.md) shows the file in use.",
            "[workload.schema.json](workload.schema.json) (`outlast schema`) is a JSON Schema for",
            "editors. Sizes and durations need a unit: `12GiB`; `90s`, `15m`, `3h`, `2d`.",
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
        "Every exception that Outlast raises. All of them derive from `outlast.OutlastError`; the",
        "message states what happened, and `hint` what to do next.",
    ]
    for error in error_classes(outlast.OutlastError):
        bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
        parts += [
            "",
            f"## {error.__name__}",
            "",
            f"Base class: {bases}." if len(error.__bases__) == 1 else f"Base classes: {bases}.",
            "",
            inspect.getdoc(error) or "",
        ]
    return "\n".join([*parts, ""])


# Every package that defines errors is imported above, or its errors would not be found.
def error_classes(error: type[BaseException]) -> Iterator[type[BaseException]]:
    yield error
    for below in sorted(error.__subclasses__(), key=lambda cls: cls.__name__):
        yield from error_classes(below)


def public_api() -> Iterator[str]:
    """One line for each public name, so that every API change shows up in review.

    Then the classes of what these return, which are reached only through them.
    """
    public = {name: getattr(outlast, name) for name in sorted(outlast.__all__)}
    for name, value in public.items():
        if inspect.isclass(value):
            yield from class_lines(f"outlast.{name}", value)
        else:
            yield f"outlast.{name}{signature_of(value)}"
    yield ""
    for value in returned_classes(public.values()):
        yield from class_lines(f"{value.__module__}.{value.__qualname__}", value)


def class_lines(name: str, value: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in value.__bases__)
    yield f"class {name}({bases})"
    yield from members_of(value)


def returned_classes(public: Iterable[object]) -> list[type]:
    """The classes that public functions and methods return, and those that their methods return."""
    known, found, waiting = set(public), set[type](), list(public)
    while waiting:
        for hint in returned_by(waiting.pop()):
            if getattr(hint, "__module__", "").startswith("outlast.") and hint not in known:
                known.add(hint)
                found.add(hint)
                waiting.append(hint)
    return sorted(found, key=lambda one: (one.__module__, one.__qualname__))


def returned_by(value: object) -> Iterator[type]:
    """The classes in the return annotations of a function, or of a class's public methods."""
    calls = [value]
    if inspect.isclass(value):
        calls = [
            getattr(member, "fget", member)
            for name, member in vars(value).items()
            if name == "__iter__" or not name.startswith("_")
        ]
    for call in calls:
        if inspect.isfunction(call):
            # A name that only type checkers import stays text, and is not followed.
            hint = inspect.signature(call).return_annotation
            waiting = [call.__globals__.get(hint) if isinstance(hint, str) else hint]
            while waiting:
                hint = waiting.pop()
                waiting += get_args(hint)
                if inspect.isclass(hint):
                    yield hint


def signature_of(value: Callable[..., object]) -> str:
    """The signature, with functions used as defaults shown by name instead of by address."""
    return re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", str(inspect.signature(value)))


def members_of(value: type) -> Iterator[str]:
    for name, member in sorted(vars(value).items()):
        # Python gives a protocol an `__init__` of its own.
        is_shown = not name.startswith("_") or (
            name == "__init__" and Protocol not in value.__bases__
        )
        if inspect.isfunction(member) and is_shown:
            yield f"    {name}{signature_of(member)}"
        elif not name.startswith("_") and not inspect.isroutine(member):
            yield f"    {name}"


if __name__ == "__main__":
    for path, content in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content())
        print(f"wrote {path.relative_to(ROOT)}")
