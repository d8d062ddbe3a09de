"""What a user means by RUN: the name of a run, a workload file or manifest, or the run's URL.

Reads files at most. Nothing is sent to a cluster or a store.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.cluster.errors import shown
from outlast.errors import OutlastError
from outlast.journal.lines import FOLDER

if TYPE_CHECKING:
    from outlast.capacity.workload.file import Workload

_NOT_HERE = ("file", "memory")
"""Schemes that mean something else inside a Pod than on this machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunTarget:
    """A run as it was named. `url` is where its journal is, empty if that is not known yet.

    `file` is what can be submitted again, empty if there is none.
    """

    name: str
    namespace: str | None = None
    url: str = ""
    workload: "Workload | None" = None
    file: str = ""
    is_url: bool = False


def read_target(given: str, *, journal: str | None = None) -> RunTarget:
    """Find out what was named. Raises `OutlastError` if a file is not a workload."""
    if "://" in given or _is_run_folder(given):
        name = given.rstrip("/").rpartition("/")[2]
        return RunTarget(name=name or given, url=journal or given, is_url=True)
    path = Path(given)
    if path.is_file():
        return _from_file(path, journal)
    if "/" in given or given.endswith((".yaml", ".yml")):
        raise OutlastError(
            f"{shown(given, characters_max=200)!r} does not exist.",
            hint="Pass the name of a run, a workload file, or a URL such as gs://bucket/run.",
        )
    return RunTarget(name=given, url=journal or "")


def reachable_url(url: str) -> str:
    """A URL that a Job states, empty if it is a path inside the Pod."""
    scheme, mark, _ = url.partition("://")
    return url if mark and scheme not in _NOT_HERE else ""


def _is_run_folder(given: str) -> bool:
    path = Path(given)
    return path.is_dir() and ("/" in given or given in (".", "..") or (path / FOLDER).is_dir())


def _from_file(path: Path, journal: str | None) -> RunTarget:
    from outlast.cluster.submitting.manifest_source import has_manifests, read_source

    if has_manifests(path):
        work = [one for one in read_source(str(path)).objects if one["kind"] in ("Job", "JobSet")]
        if len(work) != 1:
            count = f"{len(work)} Jobs" if work else "no Job"
            raise OutlastError(
                f"{str(path)!r} has {count}, so it is not clear which run is meant.",
                hint="Pass the name of the run.",
            )
        metadata = work[0]["metadata"]
        return RunTarget(
            name=metadata["name"],
            namespace=metadata.get("namespace"),
            url=journal or "",
            file=str(path),
        )
    from outlast.capacity.workload.file import Workload

    workload = Workload.read(path)
    url = workload.checkpoint.url if workload.checkpoint else ""
    return RunTarget(
        name=workload.name,
        namespace=workload.namespace,
        url=journal or reachable_url(url),
        workload=workload,
        file=str(path),
    )
