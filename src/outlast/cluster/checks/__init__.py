"""The checks of `outlast doctor`: one file each, listed in `ALL_CHECKS` in the order shown."""

from outlast.cluster.checks.dry_run import check_dry_run
from outlast.cluster.checks.google_cloud import check_google_cloud
from outlast.cluster.checks.kinds import check_kinds
from outlast.cluster.checks.nodes import check_nodes
from outlast.cluster.checks.permissions import check_permissions
from outlast.cluster.checks.priority import check_priority
from outlast.cluster.checks.queues import check_queues
from outlast.cluster.checks.result import Check
from outlast.cluster.checks.storage import check_storage
from outlast.cluster.checks.version import check_version

ALL_CHECKS: tuple[Check, ...] = (
    check_version,
    check_google_cloud,
    check_kinds,
    check_permissions,
    check_priority,
    check_queues,
    check_nodes,
    check_storage,
    check_dry_run,
)

__all__ = ["ALL_CHECKS"]
