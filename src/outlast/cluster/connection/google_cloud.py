"""Ask Google Cloud about a GKE cluster, through gcloud and its JSON output. Changes nothing."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import Any

from outlast.cluster.errors import ClusterError, shown

_SECONDS_MAX = 12.0


class GcloudFailed(ClusterError):
    """gcloud is not installed, not configured, or refused the request."""


@dataclass(frozen=True, slots=True)
class GkeCluster:
    """A GKE cluster, as named by the context that `get-credentials` writes."""

    project: str
    location: str
    name: str

    @property
    def region(self) -> str:
        """The region: the location, or that of a zonal cluster without the zone."""
        zone = re.fullmatch(r"([a-z]+-[a-z]+\d+)-[a-z]", self.location)
        return zone[1] if zone else self.location

    def describe(self) -> dict[str, Any]:
        found = _gcloud(
            "container", "clusters", "describe", self.name,
            f"--location={self.location}", f"--project={self.project}",
        )  # fmt: skip
        return found if isinstance(found, dict) else {}

    def region_quotas(self) -> list[dict[str, Any]]:
        found = _gcloud("compute", "regions", "describe", self.region, f"--project={self.project}")
        return list(found.get("quotas") or ()) if isinstance(found, dict) else []

    def bucket_location(self, bucket: str) -> str:
        found = _gcloud("storage", "buckets", "describe", f"gs://{bucket}")
        return str(found.get("location") or "") if isinstance(found, dict) else ""


def gke_cluster_of(context: str) -> GkeCluster | None:
    """The cluster that a context names, None if it is not one of GKE's."""
    found = re.fullmatch(r"gke_([^_]+)_([^_]+)_([^_]+)", context)
    return GkeCluster(*found.groups()) if found else None


@cache
def _gcloud(*arguments: str) -> Any:
    program = shutil.which("gcloud")
    if program is None:
        raise GcloudFailed(
            "mode, quota and bucket region: gcloud is not installed",
            hint="Install the Google Cloud CLI, or check these by hand.",
        )
    command = [program, *arguments, "--format=json", "--quiet"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS_MAX
        )
        if done.returncode == 0:
            return json.loads(done.stdout)
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = lines[0] if lines else f"exit code {done.returncode}"
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        why = str(error)
    what = " ".join(arguments[:3])
    raise GcloudFailed(
        f"gcloud {what}: {shown(why, characters_max=200)}", hint="Run: gcloud auth login"
    )
