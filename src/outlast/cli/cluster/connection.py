"""Options that all commands of a cluster share, and the connection that they name."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

if TYPE_CHECKING:
    from outlast.cluster.connection.client import ClusterClient


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ConnectionFlags:
    """Which cluster to use."""

    context: str | None = None
    """Context of the kubeconfig. Default: its current context."""
    kubeconfig: Path | None = None
    """Kubeconfig file. Default: the files in KUBECONFIG, or ~/.kube/config."""
    namespace: str | None = None
    """Namespace of objects that name none. Default: that of the context."""


@contextmanager
def connected(flags: ConnectionFlags) -> Iterator["ClusterClient"]:
    """A client for the chosen context."""
    from outlast.cluster.connection.client import connect

    with connect(context=flags.context, kubeconfig=flags.kubeconfig) as client:
        yield client
