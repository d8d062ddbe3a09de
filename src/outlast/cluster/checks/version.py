"""The version of the API server."""

import re
from collections.abc import Iterator

from outlast.cluster.checks.result import CheckResult, Subject, fail, ok, unknown, warn

_MINOR_MIN = 29
"""From 1.29 on, Jobs have podFailurePolicy and backoffLimitPerIndex by default."""
_MINOR_STABLE = 33


def check_version(subject: Subject) -> Iterator[CheckResult]:
    version = subject.cluster.version()
    found = re.match(r"v?1\.(\d+)", version)
    if found is None:
        yield unknown(f"version {version!r} of the API server is not one that is known")
    elif int(found[1]) < _MINOR_MIN:
        yield fail(
            f"Kubernetes {version} cannot ignore evictions in Jobs",
            f"Upgrade the cluster to 1.{_MINOR_STABLE} or later.",
        )
    elif int(found[1]) < _MINOR_STABLE:
        yield warn(
            f"Kubernetes {version}: backoffLimitPerIndex is stable from 1.{_MINOR_STABLE} on",
            f"Upgrade the cluster to 1.{_MINOR_STABLE} or later.",
        )
    else:
        yield ok(f"Kubernetes {version}")
