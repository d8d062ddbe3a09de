"""Check whether a cluster can run a workload. Changes nothing: objects are only tried."""

from collections.abc import Iterable, Iterator

from outlast.cluster.checks import ALL_CHECKS
from outlast.cluster.checks.result import Check, CheckResult, Subject, unknown
from outlast.cluster.errors import ApiRefusal, permission_hint


def examine(subject: Subject, checks: Iterable[Check] = ALL_CHECKS) -> Iterator[CheckResult]:
    """The results of all checks. What may not be read is unknown, and does not end the others.

    Raises `ClusterUnreachable` if the API server does not answer.
    """
    for check in checks:
        try:
            yield from check(subject)
        except ApiRefusal as refusal:
            if refusal.is_overload:
                raise
            yield unknown(str(refusal), permission_hint(refusal.text))
