"""`outlast scaffold KIND`: write a small project that survives evictions as it is."""

import sys
from pathlib import Path

from outlast.drill.scaffold.project import Kind, write_project


def scaffold(kind: Kind, folder: Path | None = None, /, *, name: str | None = None) -> None:
    """Write a small project that survives evictions as it is, to be changed into your own.

    A script, a workload file, a Dockerfile, a README and a CI job that lints the manifests and
    drills the script. No file is ever written over.

    Parameters
    ----------
    kind: Kind
        training for a run with checkpoints, batch for workers that share a queue.
    folder: Path
        Where to. Default: a folder of that name.
    name: str
        Of the workload. Default: the folder's name, or else the kind.
    """
    default = kind.value if folder is None else folder.resolve().name
    chosen = default if name is None else name
    target = Path(chosen) if folder is None else folder
    for path in write_project(kind, target, chosen):
        print(path)
    print(f"Now see {target / 'README.md'}.", file=sys.stderr)
