"""`outlast render FILE`: write the manifests of a workload file."""

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outlast.capacity.workload import Workload
from outlast.cli.format import Format
from outlast.cli.overrides import parse_overrides
from outlast.manifests.render.files import as_stream, write_files
from outlast.manifests.render.rendering import render as render_workload


def render(
    file: Path,
    /,
    *,
    overrides: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    out: Path | None = None,
    format: Format = Format.TEXT,
) -> None:
    """Write the manifests of a workload file, each line with its reason.

    Without --out, everything goes to the terminal as one stream that `kubectl apply -f -` takes;
    scripts and Terraform stand in it as comments.

    Parameters
    ----------
    file: Path
        The workload file.
    overrides: list[str]
        key=value, in place of what the file says; dots lead into parts: work.hours=40.
    out: Path
        A folder to write the files into, one for each object.
    format: Format
        text for YAML, json for programs: a list of files with their path and text.
    """
    workload = Workload.read(file, overrides=parse_overrides(overrides or []))
    files = render_workload(workload)
    if out is not None:
        for path in write_files(files, out):
            print(path)
    elif format is Format.JSON:
        listed = [{"path": one.path, "text": one.text} for one in files]
        print(json.dumps({"files": listed}, indent=2))
    else:
        sys.stdout.write(as_stream(files))
