"""Find the run that a command names."""

from typing import TYPE_CHECKING

from outlast.cli.cluster.connection import ConnectionFlags
from outlast.cluster.runs.selection import RunSelection, find_by_url, select_run
from outlast.cluster.runs.target import RunTarget
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast.cluster.connection.client import ClusterClient


def selected(client: "ClusterClient", target: RunTarget, flags: ConnectionFlags) -> RunSelection:
    """The run in the cluster. Raises if there is none."""
    namespace = flags.namespace or target.namespace or client.namespace
    if not target.is_url:
        return select_run(client, target.name, namespace)
    found = find_by_url(client, target.url, namespace)
    if found is None:
        raise OutlastError(
            f"No Job in namespace {namespace!r} saves to {target.url}.",
            hint="Pass the name of the run, or --namespace.",
        )
    return found
