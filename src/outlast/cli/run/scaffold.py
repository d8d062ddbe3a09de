"""`outlast scaffold KIND`: write a small project that survives evictions out of the box."""

import sys
from pathlib import Path

from outlast.cli.printing import say
from outlast.scaffold.project import Framework, ProjectKind, write_project


def scaffold(
    kind: ProjectKind,
    folder: Path | None = None,
    /,
    *,
    name: str | None = None,
    framework: Framework | None = None,
) -> None:
    """Create a small project that survives evictions, as a starting point for your own.

    It contains a script, a workload file, a Dockerfile, a README and a CI job that lints the
    manifests and drills the script. Existing files are never overwritten.

    Parameters
    ----------
    kind: ProjectKind
        training for a run with checkpoints, batch for workers that share a queue.
    folder: Path
        Folder to create. Default: a folder named after the workload.
    name: str
        Name of the workload. Default: the name of the folder, or else the kind.
    framework: Framework
        What a training uses; huggingface is transformers.Trainer. Default: numpy.
    """
    default = kind.value if folder is None else folder.resolve().name
    chosen = default if name is None else name
    target = Path(chosen) if folder is None else folder
    for path in write_project(kind, target, chosen, framework):
        say(path)
    say(f"Next steps: {target / 'README.md'}", file=sys.stderr)
