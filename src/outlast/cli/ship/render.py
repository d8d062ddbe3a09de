"""`outlast render FILE`: render the manifests of a workload file."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outlast.capacity.workload.file import Workload, parse_overrides
from outlast.cli.printing import Format, say, say_json, write_document
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
    """Render the manifests of a workload file, with comments that explain them.

    Without --out, prints everything as one stream for `kubectl apply -f -`; scripts and Terraform
    are included as comments.

    Parameters
    ----------
    file: Path
        The workload file.
    overrides: list[str]
        Override a key of the file, as key=value with dots for nested keys: work.hours=40.
    out: Path
        Folder to write the files to, one per object.
    format: Format
        text for YAML, json for a list of files with path and text.
    """
    workload = Workload.read(file, overrides=parse_overrides(overrides or []))
    files = render_workload(workload)
    if out is not None:
        for path in write_files(files, out):
            say(path)
    elif format is Format.JSON:
        listed = [{"path": one.path, "text": one.text} for one in files]
        say_json({"files": listed}, indent=2)
    else:
        write_document(as_stream(files))
